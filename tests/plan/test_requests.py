"""What a job asks of its scheduler beside nodes and time, and the jobs that it comes after."""

from pathlib import Path

import pytest
from support import MINIMAL, complaint, edited, jobgen, load, plan_of, working_in

from jobgen import schedulers
from jobgen.jobs.record import JobRecord
from jobgen.plan.resolve import resolve

ASKED = """\
name: a
queue: gpu
qos: high
reservation: r1
resources: {nodes: 2, constraint: "a100&nvlink", exclusive: true}
notify: {email: me@x.org, on: [fail, begin]}
after: {afterany: [12, 12_3], afterok: ["4"]}
run: {module: m}
"""
UNEQUAL = ("{nodes: 2,", "{gpus_per_node: [2, 1], cpus_per_gpu: 1,")


def directives(text: str, scheduler: str) -> list[str]:
    """The directives of a spec, without #SBATCH or #PBS."""
    lines = schedulers.SCHEDULERS[scheduler].directives(plan_of(text, scheduler=scheduler))
    return [line.split(" ", 1)[1] for line in lines]


def test_all_of_it_on_slurm() -> None:
    assert directives(ASKED, "slurm") == [
        "--job-name=a",
        "--partition=gpu",
        "--qos=high",
        "--reservation=r1",
        "--constraint=a100&nvlink",
        "--exclusive",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--output=%x-%j.out",
        "--open-mode=append",
        "--mail-user=me@x.org",
        "--mail-type=BEGIN,FAIL",
        "--dependency=afterok:4,afterany:12:12_3",
        "--kill-on-invalid-dep=yes",
    ]


def test_every_part_of_a_heterogeneous_job_asks_for_it_but_the_mail_is_one() -> None:
    found = directives(edited(UNEQUAL, text=ASKED), "slurm")
    assert found.count("hetjob") == 1
    for line in ("--qos=high", "--reservation=r1", "--constraint=a100&nvlink", "--exclusive"):
        assert found.count(line) == 2
    for line in ("--mail-user=me@x.org", "--kill-on-invalid-dep=yes"):
        assert found.count(line) == 1


def test_all_that_there_is_on_pbs() -> None:
    assert directives(ASKED, "pbs") == [
        "-N a",
        "-q r1",  # a reservation is a queue there
        "-l select=2:mpiprocs=1",
        "-l place=scatter:exclhost",
        "-j oe",
        "-k oed",
        "-M me@x.org",
        "-m ab",
        "-W depend=afterok:4,afterany:12:12[3]",
    ]
    left_out = plan_of(ASKED, scheduler="pbs").left_out
    assert left_out == ("qos", "queue", "resources.constraint")


def test_what_is_of_no_use_is_said() -> None:
    own = edited(('after: {afterany: [12, 12_3], afterok: ["4"]}\n', ""), text=ASKED)
    plan = plan_of(own, scheduler="local")
    assert plan.left_out == (
        "queue",
        "qos",
        "reservation",
        "resources.constraint",
        "resources.exclusive",
        "notify",
    )
    on_gadi = edited(("{nodes: 2}", "{exclusive: true}"))
    totals = resolve(load(on_gadi), site="nci-gadi", limits=False)
    assert totals.left_out == ("resources.exclusive",)


def test_a_site_may_have_a_chunk_resource_for_the_constraint(tmp_path: Path) -> None:
    (tmp_path / ".jobgen/sites").mkdir(parents=True)
    profile = "scheduler: pbs\npbs: {constraint: cpu_type}\n"
    (tmp_path / ".jobgen/sites/mine.yaml").write_text(profile)
    text = edited(("{nodes: 2}", "{nodes: 2, constraint: milan}"))
    with working_in(tmp_path):
        Path("job.yaml").write_text(text)
        out = jobgen("render", "--site", "mine").out
        assert "#PBS -l select=2:cpu_type=milan:mpiprocs=1\n" in out
        both = jobgen("render", "--site", "mine", "--set", "resources.constraint=a&b")
    assert (both.code, both.out) == (3, "")
    assert "'a&b' is more than a name" in both.err


def test_a_constraint_of_pbs_is_what_each_chunk_has(tmp_path: Path) -> None:
    text = edited(("{nodes: 2}", "{nodes: 2, constraint: gpu_model=a100:V100-16GB=True}"))
    with working_in(tmp_path):
        Path("job.yaml").write_text(text)
        out = jobgen("render", "--scheduler", "pbs").out
        assert "#PBS -l select=2:gpu_model=a100:V100-16GB=True:mpiprocs=1\n" in out
        slurm = jobgen("render", "--scheduler", "slurm")
        for wrong in ("a=b&c", "mem=2gb", "a=b:-c=d", "2a=b"):
            asked = ("--set", f"resources.constraint={wrong}")
            assert jobgen("render", "--scheduler", "pbs", *asked).code == 3
    assert "constraint=" not in slurm.out.partition("set -e")[0].partition("SBATCH")[2]


def test_a_qos_where_the_queue_is_one() -> None:
    text = edited(("scheduler: local", "site: nersc-perlmutter"), ("", "qos: x\n"))
    assert "qos: what is called queue here is this site's QoS; write queue" in complaint(text)


@pytest.mark.parametrize(
    ("notify", "on_slurm", "on_pbs"),
    [
        ("{email: me}", ["--mail-user=me", "--mail-type=END,FAIL"], ["-M me", "-m ae"]),
        ("{on: [end]}", ["--mail-type=END"], ["-m e"]),
        ("{on: [end, begin, fail]}", ["--mail-type=BEGIN,END,FAIL"], ["-m abe"]),
    ],
)
def test_mail(notify: str, on_slurm: list[str], on_pbs: list[str]) -> None:
    text = edited(("", f"notify: {notify}\n"))
    assert directives(text, "slurm")[-len(on_slurm) :] == on_slurm
    assert directives(text, "pbs")[-len(on_pbs) :] == on_pbs


def test_pbs_sends_no_mail_for_a_program_that_fails() -> None:
    text = edited(("", "notify: {on: [fail]}\n"))
    (note,) = plan_of(text, scheduler="pbs").notes
    assert note.startswith("note: notify.on: PBS says that a program failed only")
    assert plan_of(text, scheduler="slurm").notes == ()


@pytest.mark.parametrize(
    ("after", "scheduler", "text"),
    [
        ('["12"]', "slurm", "afterok:12"),
        ("[12_3, '12[4]', '13[]']", "slurm", "afterok:12_3:12_4:13"),
        ("{after: [1], afternotok: [2]}", "slurm", "afternotok:2,after:1"),
        ("[12.server, '12[3].server', '12[].server', 12_3]", "pbs",
         "afterok:12.server:12[3].server:12[].server:12[3]"),
    ],
)  # fmt: skip
def test_ids_are_written_as_the_scheduler_has_them(after: str, scheduler: str, text: str) -> None:
    found = directives(edited(("", f"after: {after}\n")), scheduler)
    assert any(line.partition("=")[2] == text for line in found), found


@pytest.mark.parametrize(
    ("after", "scheduler", "message"),
    [
        (
            "[1, 12.server]",
            "slurm",
            "after[1]: '12.server' is not the id of a job of Slurm",
        ),
        (
            "{afterany: [20300101-120000-1]}",
            "pbs",
            "after.afterany[0]: '20300101-120000-1' is not ",
        ),
        ("[12]", "local", "after[0]: '12' is not the id of a job of this machine"),
    ],
)
def test_ids_of_another_scheduler(after: str, scheduler: str, message: str) -> None:
    text = edited(("", f"after: {after}\n"))
    assert f"job.yaml:5:{8 + after.index(message.split(chr(39))[1])}: {message}" in complaint(
        text, scheduler=scheduler
    )


@pytest.mark.parametrize(
    ("words", "in_spec", "scheduler", "option"),
    [
        (["4"], "", "slurm", "--dependency=afterok:4 --kill-on-invalid-dep=yes"),
        (["afterany:4:5_1"], "", "slurm", "--dependency=afterany:4:5_1 --kill-on-invalid-dep=yes"),
        (
            ["4", "after:5"],
            "after: [1]\n",
            "slurm",
            "--dependency=afterok:1,afterok:4,after:5 --kill-on-invalid-dep=yes",
        ),
        (["5.server"], "", "pbs", "-W depend=afterok:5.server"),
        (
            ["5[2].server"],
            "after: {afterany: ['1[].server']}\n",
            "pbs",
            "-W 'depend=afterany:1[].server,afterok:5[2].server'",
        ),
        (["5"], 'directives: ["#PBS -W umask=022,depend=after:1"]\n', "pbs",
         "-W depend=after:1,afterok:5"),
        (["5"], 'directives: ["#SBATCH -d after:1"]\n', "slurm",
         "--dependency=after:1,afterok:5 --kill-on-invalid-dep=yes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("what", ["job.yaml", "script"])
def test_waiting_is_added_at_submission(
    words: list[str], in_spec: str, scheduler: str, option: str, what: str, tmp_path: Path
) -> None:
    name = {"slurm": "job.sbatch", "pbs": "job.pbs"}[scheduler] if what == "script" else what
    target = [] if what == "script" else ["--scheduler", scheduler]
    with working_in(tmp_path):
        Path("job.yaml").write_text(edited(("", in_spec)))
        rendered = jobgen("render", "--scheduler", scheduler, "--out-dir", ".")
        assert rendered.code == 0, rendered.err
        after = [word for each in words for word in ("--after", each)]
        shown = jobgen("submit", "--dry-run", name, *after, *target)
        plain = jobgen("submit", "--dry-run", name, *target)
    assert shown.code == 0, shown.err
    command = {"slurm": "sbatch", "pbs": "qsub"}[scheduler]
    (line,) = [line for line in shown.out.splitlines() if line.startswith(command)]
    assert line.startswith(f"{command} {option} ")
    (line,) = [line for line in plain.out.splitlines() if line.startswith(command)]
    assert "depend" not in line
    # What is submitted stays what the spec renders.
    assert shown.out.partition("# the script:")[2] == plain.out.partition("# the script:")[2]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("", "--after '': write an id, or KIND:ID with one of afterok,"),
        ("before:1", "--after 'before:1': write an id, or KIND:ID"),
        ("afterok:", "--after 'afterok:': write an id, or KIND:ID"),
        ("x", "--after 'x': no job 'x' below ./runs; give an ID, a name or a run folder"),
        ("1.server", "--after '1.server': '1.server' is not the id of a job of Slurm"),
        ("1;touch x", "'1;touch x' is not the id of a job of Slurm"),
    ],
)
def test_what_is_no_job_to_wait_for(word: str, message: str, tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(MINIMAL)
        code, out, err = jobgen("submit", "--dry-run", "--after", word, "--scheduler", "slurm")
    assert (code, out) == (2, "")
    assert message in err


def test_a_job_to_wait_for_may_be_named(tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text(MINIMAL)
        JobRecord("7", "prepare", "slurm", str(tmp_path), 1.0, (), links=("8", "9")).save()
        ended = jobgen("submit", "--dry-run", "--after", "afterany:prepare", "--scheduler", "slurm")
    assert "--dependency=afterany:9 " in ended.out  # the last of its chain


def test_a_local_script_cannot_be_told_to_wait(tmp_path: Path) -> None:
    job = "20300101-120000-1"
    with working_in(tmp_path):
        Path("job.yaml").write_text(MINIMAL)
        jobgen("render", "-o", "job.sh")
        code, _, err = jobgen("submit", "--dry-run", "job.sh", "--after", job)
        by_spec = jobgen("submit", "--dry-run", "--after", f"afterany:{job}")
    assert (code, err) == (
        2,
        "job.sh: a local script cannot be told to wait; submit its spec instead\n",
    )
    assert f"\n    wait_for afterany {job}\n" in by_spec.out


def test_a_site_that_sends_no_mail_is_not_asked_for_it() -> None:
    job = "name: a\nsite: lumi-g\naccount: project_1\nresources: {nodes: 2, walltime: 1h}\n"
    plan = plan_of(f"{job}run: {{script: a.py}}\nnotify: me@example.org\n")
    assert plan.requests.mail is None
    assert "notify" in plan.left_out
    (note,) = (note for note in plan.notes if "notify" in note)
    assert "LUMI-G (EuroHPC, CSC, Finland) sends no e-mail (https://github.com/Lumi-" in note
    assert "jobgen wait JOB" in note


@pytest.mark.parametrize(
    ("scheduler", "line"), [("slurm", "#SBATCH --array=0-3"), ("pbs", "#PBS -J 0-3")]
)
def test_an_array_that_a_directive_makes_is_refused(scheduler: str, line: str) -> None:
    said = complaint(f"{MINIMAL}directives: ['{line}']\n", scheduler=scheduler)
    assert (
        "jobgen would not know the tasks of an array that a directive makes; write array:" in said
    )
