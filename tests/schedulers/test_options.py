"""No option of a directive twice: on any site, with any field of the spec, by the user's own."""

from collections import Counter
from collections.abc import Iterator

import pytest
from golden import SITES
from support import EXAMPLES, complaint, edited, load

from jobgen import schedulers
from jobgen.errors import SpecError
from jobgen.plan.requests import list_options
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.sites import search
from jobgen.spec.model import JobSpec, Launch, Resources

PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()
FIELDS = {
    "qos": "qos=long",
    "reservation": "reservation=maintenance",
    "constraint": "resources.constraint=hbm80g",
    "exclusive": "resources.exclusive=true",
    "memory": "resources.memory_per_node=10GB",
    "CPUs": "resources.cpus_per_node=8",
    "mail": "notify={email: me@example.org, on: [begin, fail]}",
    "walltime": "on_walltime={notice: 5m, then: resubmit}",
    "array": "array={tasks: 3}",
    "after": "after=[12]",
    "unequal nodes": "resources.gpus_per_node=[4, 2]",
    "direct": "launch={mode: direct}",
    "processes": "launch.processes_per_node=2",
    "range of nodes": "resources.nodes={min: 2, max: 4}",
    "CPUs of GPUs": "resources.cpus_per_gpu=4",
    "disk": "resources.disk_per_node=10GB",
    "spare nodes": "resources.spare_nodes=1",
    "file systems": "filesystems=[home]",
    "account": "account=def-other",
    "requeue": "on_walltime={then: requeue}",
    "container": "environment={container: {image: a.sif, runtime: apptainer}}",
}
# Keys of the spec that no directive follows from.
UNASKED = {
    "extends",
    "site",
    "scheduler",
    "run",
    "roles",
    "preflight",
    "report",
    "directives",
    "snapshot",
    "send",
    "on_failure",
}
UNASKED |= {"launch.launcher", "launch.rendezvous", "launch.max_restarts", "launch.interface"}
TOGETHER = [FIELDS[key] for key in ("exclusive", "memory", "mail", "array", "after")]


def list_fields(site: str) -> Iterator[tuple[str, list[str]]]:
    """What may be added to a site's job: each field, some at once, each queue and type of GPU."""
    yield "all", TOGETHER
    yield from ((name, [field]) for name, field in FIELDS.items())
    profile = search.load(site)
    for name in profile.queues or ():
        yield f"queue {name}", [f"queue={name}"]
    for name in profile.gpu_types or ():
        yield f"GPU {name}", [f"resources.gpu_type={name}"]


def components(lines: list[str]) -> Iterator[Counter[str]]:
    """How often each option stands in each component of a job."""
    counts: Counter[str] = Counter()
    for line in lines:
        if line == "#SBATCH hetjob":
            yield counts
            counts = Counter()
        counts.update(list_options(line.partition(" ")[2]))
    yield counts


@pytest.mark.slow
def test_no_option_stands_twice(subtests: pytest.Subtests) -> None:
    """A combination that a site does not take is refused, and so repeats nothing either."""
    rendered = 0
    for site, wanted in SITES.items():
        for name, fields in list_fields(site):
            with subtests.test(f"{site}, {name}"):
                try:
                    plan = resolve(load(PORTABLE, *wanted, *fields), site=site, limits=False)
                except SpecError:
                    continue
                rendered += 1
                lines = list(schedulers.SCHEDULERS[plan.scheduler].directives(plan))
                for counts in components(lines):
                    assert [option for option, times in counts.items() if times > 1] == []
    assert rendered > 16 * len(SITES)


def test_every_key_that_a_directive_follows_from_is_tried() -> None:
    tried = {field.partition("=")[0] for field in FIELDS.values()}
    tried |= {key.split(".")[0] for key in tried}
    tried |= {
        "queue",
        "resources.gpu_type",
        "name",
        "resources.gpus_per_node",
        "resources.walltime",
    }
    keys = {key for key in JobSpec._fields if key not in ("resources", "launch")}
    keys |= {f"resources.{key}" for key in Resources._fields}
    keys |= {f"launch.{key}" for key in Launch._fields}
    tried |= {f"launch.{key}" for key in Launch._fields if f"launch={{{key}:" in str(FIELDS)}
    assert keys - tried == UNASKED


@pytest.mark.parametrize(
    ("key", "value", "directive", "option"),
    [
        ("resources.walltime", "1h", "#SBATCH -t 2:00:00", "-t"),
        ("resources.nodes", "2", "#SBATCH --exclusive --nodes=4", "--nodes"),
        ("launch.processes_per_node", "4", "#SBATCH --ntasks=8", "--ntasks"),
        ("launch.processes_per_node", "4", "#SBATCH -n 8", "-n"),
        ("resources.cpus_per_node", "8", "#SBATCH --cpus-per-gpu=4", "--cpus-per-gpu"),
        ("resources.disk_per_node", "50GB", "#SBATCH --tmp=100G", "--tmp"),
        ("resources.gpus_per_node", "1", "#SBATCH --gres=gpu:2", "--gres gpu"),
        ("queue", "a", "#SBATCH --partition b", "--partition"),
        ("resources.constraint", "a", "#SBATCH -Cb", "-C"),
        ("resources.walltime", "1h", "#PBS -l walltime=2:00:00,storage=a", "-l walltime"),
        ("notify.on", "[end]", "#PBS -m e", "-m"),
        ("resources.gpus_per_node", "4", "#PBS -l gpus=4", "-l gpus"),
        ("after", "[1]", "#PBS -W umask=022,depend=after:2", "-W depend"),
    ],
)
def test_a_directive_of_ones_own_that_repeats_the_specs_is_refused(
    key: str, value: str, directive: str, option: str
) -> None:
    scheduler = "slurm" if directive.startswith("#SBATCH") else "pbs"
    text = edited(("", f'directives: ["{directive}"]\n'))
    message = (
        f"directives[0]: {option} asks for what {key} decides; leave it out; for its value, set "
    )
    told = complaint(text, f"{key}={value}", scheduler=scheduler)
    assert message in told
    assert told.partition(message)[2].startswith(key)


@pytest.mark.parametrize(
    ("site", "own", "others"),
    [
        ("pbs-generic", "-A", ["-P a", "-W group_list=a"]),
        ("nci-gadi", "-P", ["-A a", "-W group_list=a"]),
        ("nas-cabeus", "-W group_list", ["-A a", "-P a"]),
    ],
)
def test_the_account_is_what_a_site_takes_for_one(site: str, own: str, others: list[str]) -> None:
    """The others are a project, a group or a note of the user's beside it, and none is dropped."""
    text = edited(("", "directives: ['#PBS {}']\naccount: b\n"))
    repeats = text.replace("{}", f"{own}=a" if " " in own else f"{own} a")
    assert f"{own} asks for what account decides" in complaint(repeats, site=site)
    for other in others:
        plan = resolve(load(text.replace("{}", other)), site=site, limits=False)
        lines = schedulers.SCHEDULERS["pbs"].directives(plan)
        assert f"#PBS {other}" in lines
        assert [line for line in lines if line.startswith(f"#PBS {own}")] != []


def test_the_tasks_of_what_starts_its_own_may_stand_in_a_directive() -> None:
    text = edited(("", "directives: ['#SBATCH --ntasks=8']\n"))
    own = ("launch.mode=plain", "run={command: mpirun -n 8 ./a.out}")
    assert "#SBATCH --ntasks=8\n" in render(resolve(load(text, *own), scheduler="slurm"))
    both = (*own, "launch.processes_per_node=4")
    assert "--ntasks asks for what" in complaint(text, *both, scheduler="slurm")


@pytest.mark.parametrize(
    ("directive", "given", "counts"),
    [
        ("#PBS -l select=2:ncpus=4+1:ncpus=2", "resources.nodes=1", "-l select"),
        ("#PBS -l nodes=2:ppn=4", "resources.cpus_per_node=8", "-l nodes"),
        ("#PBS -l place=scatter", "resources.nodes=1", ""),
        ("#PBS -l walltime=1:00:00", "resources={nodes: 2, walltime: 2h}", "-l walltime"),
        ("#PBS -l select=2:ncpus=4", "resources.walltime=2h", ""),
        ("#SBATCH --gres=gpu:2", "resources.gpus_per_node=4", "--gres gpu"),
        ("#SBATCH -p a", "queue=b", "-p"),
    ],
)
def test_what_the_command_line_gives_is_not_lost_beside_a_directive_of_a_body(
    directive: str, given: str, counts: str
) -> None:
    """Both may stand in the spec: of an imported one a comment says that the directive counts."""
    scheduler = "slurm" if directive.startswith("#SBATCH") else "pbs"
    text = edited(("module: m", "body: b.sh"), ("", f'directives: ["{directive}"]\n'))
    if not counts:
        assert directive in render(resolve(load(text, given), scheduler=scheduler))
        return
    key = "resources.walltime" if "walltime" in given else given.partition("=")[0]
    told = complaint(text, given, scheduler=scheduler)
    assert f"{counts} counts here, so {key} on the command line has no effect" in told


@pytest.mark.parametrize("option", ["-M c2", "--clusters=c2", "--cluster=c2"])
def test_a_directive_that_sends_the_job_to_another_cluster_is_refused(option: str) -> None:
    text = edited(("", f'directives: ["#SBATCH {option}"]\n'))
    message = "sends to another cluster; submit on a login node of that cluster"
    assert message in complaint(text, scheduler="slurm")


@pytest.mark.parametrize("option", ["-D /x", "--chdir=/x"])
def test_a_directive_that_takes_the_run_folder_elsewhere_is_refused(option: str) -> None:
    text = edited(("", f'directives: ["#SBATCH {option}"]\n'))
    message = "jobgen looks for it here; submit from that folder, or write in its place "
    assert f"{message}environment: {{setup: cd FOLDER}}" in complaint(text, scheduler="slurm")


@pytest.mark.parametrize(
    ("scheduler", "directive", "gone"),
    [
        ("slurm", "#SBATCH -o logs/%j.out", "#SBATCH --output="),
        ("slurm", "#SBATCH --open-mode=truncate", "#SBATCH --open-mode=append"),
        ("pbs", "#PBS -j n", "#PBS -j oe"),
        ("pbs", "#PBS -e errors.txt", "#PBS -j oe"),  # by which -e would say nothing
    ],
)
def test_what_no_key_says_is_for_a_directive_of_ones_own(
    scheduler: str, directive: str, gone: str
) -> None:
    text = edited(("", f'directives: ["{directive}"]\n'))
    plan = resolve(load(text), scheduler=scheduler)
    lines = list(schedulers.SCHEDULERS[scheduler].directives(plan))
    assert lines[-1] == directive
    assert not [line for line in lines if line.startswith(gone)]


@pytest.mark.parametrize("directive", ["#SBATCH -C gpu", "#SBATCH --gres=nvme:1", "#PBS -m e"])
def test_what_the_spec_does_not_say_may_be_said_by_a_directive(directive: str) -> None:
    scheduler = "slurm" if directive.startswith("#SBATCH") else "pbs"
    text = edited(("", f'directives: ["{directive}"]\n'))
    assert resolve(load(text), scheduler=scheduler).requests.directives == (directive,)


@pytest.mark.parametrize(
    ("folder", "told"),
    [("/x/a%jb", True), ("/x/100%", False), ("/x/20%04n", True), ("/x/%/j", False), ("", False)],
)
def test_a_folder_whose_name_slurm_fills_in_is_told_before_the_job_fails(
    folder: str, told: bool
) -> None:
    for name in ("slurm", "pbs"):
        found = schedulers.SCHEDULERS[name].interferes("", {"PWD": folder})
        assert ("PWD" in found) == (told and name == "slurm")
