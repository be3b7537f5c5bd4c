"""Several programs in one job: who gets which nodes, in which order they start, what is refused."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support import ROOT

from jobgen.errors import SpecError
from jobgen.plan.ranks import list_nodes
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.rendering.runtime import split_script
from jobgen.review import review
from jobgen.spec.load import load

SPEC = """\
name: chat
scheduler: slurm
resources: {nodes: 3, gpus_per_node: 4, cpus_per_gpu: 8, walltime: 1h}
roles:
  server:
    nodes: 1
    run: {command: [vllm, serve, my/model, --port, $SERVER_PORT]}
    ready: {http: /health, within: 15m}
  train:
    run: {script: grpo.py, args: {server: "http://$SERVER_ADDR:$SERVER_PORT", home: $HOME}}
"""


def plan(text: str = SPEC, scheduler: str = "slurm"):  # type: ignore[no-untyped-def]
    return resolve(load(text), scheduler=scheduler)


def complaints(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        plan(text)
    return str(caught.value).splitlines()


def test_nodes_are_dealt_in_the_order_of_the_file_and_one_role_takes_the_rest() -> None:
    roles = plan().roles
    places = {
        role.name: (role.plan.nodes.place.first, role.plan.nodes.total) for role in roles.members
    }
    assert places == {"server": (0, 1), "train": (1, 2)}
    assert [role.plan.launch.mode for role in roles.members] == ["plain", "torchrun"]
    assert [role.plan.nodes.world_size for role in roles.members] == [1, 8]


def test_a_variable_that_a_role_sets_is_not_the_specs_own() -> None:
    text = f"{SPEC}environment:\n  variables: {{SERVER_PORT: 8000, TRAIN_PORTS: 1}}\n"
    assert complaints(text) == [
        "the spec:12:28: environment.variables.SERVER_PORT: would not arrive: a role of this name"
        " sets it; choose another name"
    ]


def test_a_node_is_asked_for_the_tasks_of_the_role_that_has_most() -> None:
    """Slurm gives a task one CPU unless told, and refuses a step that wants more."""
    spec = "name: a\nscheduler: slurm\nresources: {nodes: 2, walltime: 1h}\nroles:\n"
    spec += "  server: {nodes: 1, run: {command: [serve]}}\n"
    spec += "  train: {launch: {mode: direct, processes_per_node: 2}, run: {script: a.py}}\n"
    script = render(plan(spec))
    assert "#SBATCH --ntasks-per-node=2\n" in script
    assert "--ntasks=2 --ntasks-per-node=2 --relative=1" in script
    assert "#SBATCH --ntasks-per-node=1\n" in render(plan())  # their CPUs are said


def test_roles_that_say_gpus_share_nodes_and_each_has_its_own() -> None:
    shared = SPEC.replace("nodes: 3", "nodes: 1").replace("nodes: 1\n", "gpus: 3\n")
    shared = shared.replace("  train:\n", "  train:\n    gpus: 1\n")
    script = render(plan(shared))
    assert "${devices[*]:0:3}" in script
    assert "${devices[*]:3:1}" in script
    assert script.count("--relative=0 --overlap") == 2
    more = complaints(shared.replace("gpus: 3\n", "gpus: 5\n"))
    assert any(
        "roles.server.gpus: has 5 GPUs of each node, and a node has 4; write 4 or fewer, or more in"
        in one
        for one in more
    )


def test_a_role_that_shares_nodes_is_compared_with_its_own_gpus_of_them() -> None:
    """As in a public script with a vLLM on four GPUs of each node, and a trainer on the others."""
    run = "run: {command: [serve, --tensor-parallel-size, 4]}"
    text = SPEC.partition("roles:")[0].replace("gpus_per_node: 4", "gpus_per_node: 8")
    text += f"roles:\n  server: {{gpus: 4, {run}}}\n  train: {{gpus: 4, run: {{module: a}}}}\n"
    assert review(load(text), plan(text)) == []
    (problem,) = review(load(text := text.replace("size, 4", "size, 16")), plan(text))
    assert "needs more GPUs than the 12 that it has" in str(problem)


def test_roles_share_nodes_until_the_gpus_of_these_are_dealt() -> None:
    own = "run: {command: x}}"
    text = SPEC.partition("roles:")[0] + (
        f"roles:\n  server: {{gpus: 4, nodes: 1, {own}\n  router: {{gpus: 0, {own}\n"
        f"  train: {{gpus: 4, nodes: 2, {own}\n  asks: {{gpus: 0, nodes: 1, {own}\n"
    )
    roles = plan(text).roles.members
    places = [tuple(role.plan.nodes.place)[:5] for role in roles]
    assert places == [(0, 1, 0, 4, 5), (0, 1, 4, 0, 5), (1, 2, 0, 4, 5), (1, 1, 4, 0, 5)]
    cpus = [next(iter(list_nodes(role.plan))).cpus for role in roles]
    assert cpus == [25, 6, 25, 6]  # of 32, in as many parts as the GPUs are, and one without
    assert (
        "roles: take 3 of the nodes, and resources.nodes says 2"
        in complaints(text.replace("nodes: 3", "nodes: 2"))[0]
    )


@pytest.mark.parametrize(
    ("server", "train", "total", "hint"),
    [
        (1, 2, 2, "write resources.nodes: 3"),
        (1, 1, 3, "write resources.nodes: 2"),
        (2, 2, 2, "write resources.nodes: 4"),
    ],
)
def test_nodes_of_roles_add_up_to_those_of_the_job(
    server: int, train: int, total: int, hint: str
) -> None:
    text = "name: a\nscheduler: slurm\nresources: {nodes: NUMBER, walltime: 1h}\nroles:\n"
    text = text.replace("NUMBER", str(total))
    for name, nodes in (("server", server), ("train", train)):
        text += f"  {name}: {{nodes: {nodes}, run: {{command: [x]}}}}\n"
    (problem,) = complaints(text)
    assert problem.endswith(f"; {hint}")


def test_the_last_role_may_not_end_alone_and_a_job_has_ports_for_ten() -> None:
    text = "name: a\nscheduler: local\nresources: {nodes: 1}\nroles:\n"
    text += "".join(f"  r{i}: {{gpus: 0, run: {{command: [x]}}}}\n" for i in range(11))
    (problem,) = complaints(text)
    assert "roles: there are 11, and a job has ports for at most 10; write fewer" in problem
    two = "".join(text.splitlines(keepends=True)[:6])
    (problem,) = complaints(two.replace("r1: {", "r1: {ends: alone, "))
    assert "roles.r1.ends: has no use at the last role, with which the job ends; leave" in problem
    assert plan(two.replace("r0: {", "r0: {ends: alone, ")).roles.members[0].alone


def test_only_the_names_of_roles_expand_where_nothing_else_is_said() -> None:
    script = render(plan())
    assert '--server "http://${SERVER_ADDR}:${SERVER_PORT}"' in script
    assert '--home "\\$HOME"' in script
    assert 'vllm serve my/model --port "${SERVER_PORT}"' in script


def test_a_role_starts_once_those_that_it_comes_after_are_ready() -> None:
    third = SPEC + "  judge: {nodes: 1, run: {command: judge}, after: []}\n"
    third = third.replace("run: {script", "nodes: 1\n    run: {script")
    steps = [("wait" if waits else "start", role.name) for waits, role in plan(third).roles.steps]
    assert steps == [
        ("start", "server"),
        ("start", "judge"),
        ("wait", "server"),
        ("start", "train"),
    ]
    assert steps == [
        ("wait" if waits else "start", role.name) for waits, role in plan(third, "pbs").roles.steps
    ]


def test_a_role_adds_to_the_environment_of_the_job() -> None:
    text = SPEC.replace(
        "  server:\n",
        "  server:\n    environment: {venv: vllm, variables: {A: $TRAIN_HOSTS}}\n",
    )
    text += "environment: {venv: own, variables: {B: b}, setup: ulimit -c 0}\n"
    server, train = (role.plan.environment for role in plan(text).roles.members)
    assert (server.venv, train.venv) == ("vllm", "own")
    assert dict(server.variables) == {"A": "$TRAIN_HOSTS", "B": "b"}
    assert dict(train.variables) == {"B": "b"}
    known = text.replace("B: b", "B: $SERVER_ADDR")
    assert [note for note in plan(known).notes if "variables.B" in note] == []
    assert 'export A="${TRAIN_HOSTS?}"' in render(plan(text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nodes: 1", "nodes: 3", "roles: take at least 4 of the nodes, and resources.nodes says 3"),
        ("name: chat", "name: chat\nrun: {command: x}", "roles: is given together with run"),
        (
            "name: chat",
            "name: chat\narray: {values: {lr: [1, 2]}}",
            "array: varies the arguments of one program",
        ),
        (
            "    nodes: 1",
            "    nodes: 1\n    notice: true",
            "roles.server.notice: needs on_walltime",
        ),
        ("  server:", "  master:", "roles.master: MASTER_ADDR would not arrive"),
        ("script: grpo.py", "body: grpo.sh", "roles.train.run.body: starts its own programs"),
        ("  train:", "  train:\n    after: [judge]", "'judge' is not a role above this one"),
        ("http: /health, ", "", "roles.server.ready: has none of http, tcp, file and log"),
        ("http: /health", "tcp: false", "roles.server.ready.tcp: is false"),
        ("  train:", "  Train:", "'Train' is not the name of a role"),
        ("nodes: 3", "nodes: {min: 1, max: 3}", "resources.nodes: is a range"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_place(old: str, new: str, message: str) -> None:
    said = complaints(SPEC.replace(old, new, 1))
    assert any(message in line for line in said), said
    assert all(line.startswith("the spec:") for line in said)


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "local"])
def test_a_role_takes_few_lines_of_part_1(scheduler: str) -> None:
    """Beside its environment, which is as long as that of any job."""
    first, _ = split_script(render(plan(scheduler=scheduler)))
    for name in ("server", "train"):
        own = first.partition(f"as_{name}() {{")[2].partition(f"\n}}    # of {name}")[0]
        blocks = [block for block in own.split("\n\n") if not block.startswith("environment()")]
        lines = [line for block in blocks for line in block.splitlines()]
        assert len(blocks) == 4
        assert len(lines) + 1 <= 20


def test_what_a_script_has_for_roles_and_for_ray_is_short() -> None:
    lines = {
        name: len((ROOT / "templates" / "runtime" / f"{name}.sh").read_text().splitlines())
        for name in ("roles", "ray")
    }
    assert lines["roles"] <= 90
    assert lines["ray"] <= 60


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "roles").glob("*.yaml")), ids=str)
def test_the_examples_are_for_every_scheduler(path: Path) -> None:
    for scheduler in ("slurm", "pbs", "local"):
        if f"scheduler: {scheduler}" in path.read_text() or "scheduler:" not in path.read_text():
            plan = resolve(load(str(path)), scheduler=scheduler)
            assert plan.launch.mode in ("roles", "ray", "plain")
            assert split_script(render(plan))


@pytest.mark.slow
def test_a_server_and_a_client_run_on_a_laptop(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "examples" / "roles", tmp_path / "roles")
    (folder / "job.sh").write_text(render(resolve(load(str(folder / "laptop.yaml")))))
    own = {name: value for name, value in os.environ.items() if not name.startswith("JOBGEN_")}
    with (folder / "out").open("w") as out:
        done = subprocess.run(
            ["bash", "job.sh"],
            cwd=folder,
            env=own,
            stdout=out,
            stderr=out,
            timeout=300,
            check=False,
        )
    printed = (folder / "out").read_text()
    assert (done.returncode, "DONE" in printed) == (0, True), printed
    (output,) = folder.glob("runs/laptop/*/roles/client/logs/*/rank-0.out")
    assert output.read_text() == "3 of 3 are right\n"


def test_a_list_of_gpus_is_refused_once_and_not_for_each_role() -> None:
    """Of the job: each role on its own node was told that nodes says 1."""
    said = complaints(SPEC.replace("gpus_per_node: 4", "gpus_per_node: [4, 4, 2]"))
    assert [line.partition(": ")[2] for line in said] == [
        "resources.gpus_per_node: is a list, and the nodes of a job with roles are alike; give one"
        " number for all"
    ]


@pytest.mark.parametrize("name", ["$JOBGEN_RUN_DIR", "${JOBGEN_RUN_DIR}"])
def test_a_file_in_the_run_folder_of_the_role_shows_that_it_is_ready(name: str) -> None:
    text = SPEC.replace("{http: /health", f"{{file: '{name}/is up'")
    assert '900 file "${run_dir}/roles/server/is up"\n' in render(plan(text))
    assert "JOBGEN_RUN_DIRS}/is up" in render(plan(text.replace(name, "${JOBGEN_RUN_DIRS}")))


@pytest.mark.parametrize(
    ("file", "refused"), [("up", True), ("out/up", True), ("$JOBGEN_RUN_DIR/up", False)]
)
def test_a_file_that_lies_elsewhere_in_a_snapshot_is_refused(file: str, refused: bool) -> None:
    text = f"{SPEC.replace('{http: /health', f'{{file: {file}')}snapshot: true\n"
    if refused:
        (said,) = complaints(text)
        words = f"'{file}' would be looked for where you submit, and with snapshot the role runs in"
        assert f"roles.server.ready.file: {words}" in said
    else:
        assert plan(text)
