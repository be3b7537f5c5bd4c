"""What `on_failure` and spare nodes come to: the plan, the script, and what is refused."""

import pytest
from support import MINIMAL, complaint, edited, load, plan_of

from jobgen.plan.resolve import resolve
from jobgen.rendering.explain import explain
from jobgen.rendering.render import render

AGAIN = f"{MINIMAL}on_failure: restart\n"
SPARED = edited(("nodes: 2", "nodes: 2, spare_nodes: 1")) + "on_failure: {then: restart}\n"


def test_a_script_without_restarts_has_nothing_of_them() -> None:
    plain = render(plan_of(MINIMAL, scheduler="slurm"))
    stop = render(plan_of(f"{MINIMAL}on_failure: {{then: stop}}\n", scheduler="slurm"))
    zero = render(plan_of(edited(("nodes: 2", "nodes: 2, spare_nodes: 0")), scheduler="slurm"))
    assert "tolerate" not in render(plan_of(MINIMAL, scheduler="pbs"))
    for script in (plain, stop, zero):
        assert "choose_nodes" not in script
        assert script.partition("find_nodes()")[2] == plain.partition("find_nodes()")[2]


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_a_spare_node_is_asked_for_and_not_used(scheduler: str) -> None:
    script = render(plan_of(SPARED, scheduler=scheduler))
    assert "choose_nodes 2 0 " in script
    assert "== 3)) ||" in script
    if scheduler == "slurm":
        assert "#SBATCH --nodes=3\n#SBATCH" in script
        assert "#SBATCH --no-kill\n" in script
        assert '"--nodelist=${attempt_dir}/nodes" --nodes=2 --ntasks=2' in script
    else:
        assert "#PBS -l select=3:" in script
        assert "#PBS -W tolerate_node_failures=all\n" in script
        assert "--nnodes=2" in script


def test_one_node_and_a_spare_one_need_a_launcher() -> None:
    one = SPARED.replace("nodes: 2", "nodes: 1")
    assert "srun" in render(plan_of(one, scheduler="slurm"))
    assert "choose_nodes 1 0 " in render(plan_of(one, scheduler="slurm"))


def test_restarts_are_starts_of_the_chain_too() -> None:
    chain = edited(("nodes: 2", "nodes: 2, walltime: 2h")) + (
        "on_walltime: {then: requeue, at_most: 4}\non_failure: {then: restart, at_most: 2}\n"
    )
    script = render(plan_of(chain, scheduler="slurm"))
    assert "\nrestarts=2 " in script
    assert "chain=requeue at_most=6 " in script


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SPARED.replace("then: restart", "then: stop"), "spare_nodes: are never used; add"),
        (SPARED.replace("nodes: 2", "nodes: {min: 1, max: 2}"), "the number of nodes is a range"),
        (f"{MINIMAL}on_failure: {{at_most: 2}}\n", "has no effect: the job starts only once"),
        (f"{AGAIN}array: {{tasks: 3}}\n", "on_failure: does not work with an array"),
        (AGAIN.replace("module: m", "body: train.sh"), "cannot start again"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(text: str, words: str) -> None:
    said = complaint(text, scheduler="slurm")
    assert words in said
    assert said.startswith("job.yaml:")


def test_explain_says_which_failure_leads_where_and_what_a_spare_node_is_for() -> None:
    loaded = load(SPARED)
    words = str(explain(loaded, resolve(loaded, scheduler="pbs")))
    assert "after a failure: up to 3 restarts" in words
    assert "spare nodes: 1" in words
    assert "on_walltime.then does not continue it" in words
