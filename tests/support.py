"""What several test modules use: specs from text, the command line in this process, programs run
by a rendered script as a node's agent would run them."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import yaml

from jobgen import loaded
from jobgen.cli import main
from jobgen.errors import JobgenError
from jobgen.loaded import LoadedSpec
from jobgen.plan import Plan, resolve
from jobgen.render import render

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
SITES = {"slurm-generic": "slurm", "pbs-generic": "pbs", "local": "local"}
PORT = 9  # of `discard`, which nobody serves: free on every machine

MINIMAL = """\
name: a
scheduler: local
resources: {nodes: 2}
run: {module: m}
"""


def edited(*changes: tuple[str, str], text: str = MINIMAL) -> str:
    """`text` with each `old` replaced by its `new`; an empty `old` appends."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1) if old else text + new
    return text


def load(content: str | bytes, *overrides: str) -> LoadedSpec:
    """The spec that a file `job.yaml` with this content holds."""
    data = content.encode() if isinstance(content, str) else content
    with tempfile.TemporaryDirectory() as folder, working_in(folder):
        Path("job.yaml").write_bytes(data)
        return loaded.load("job.yaml", overrides)


def plan_of(
    content: str | Mapping[str, object],
    *overrides: str,
    scheduler: str | None = None,
    site: str | None = None,
) -> Plan:
    """The plan of a spec, given as YAML text or as data."""
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    return resolve(load(text, *overrides), scheduler=scheduler, site=site)


def complaint(content: str | bytes, *overrides: str, **target: str) -> str:
    """What jobgen says of a spec that it refuses."""
    try:
        resolve(load(content, *overrides), **target)
    except JobgenError as error:
        return str(error)
    raise AssertionError("nothing is wrong with it")


class Ended(NamedTuple):
    """A command that has ended: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


def jobgen(*arguments: str | Path) -> Ended:
    """Run a `jobgen` command in this process, in the current folder."""
    out, err, argv = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["jobgen", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        return Ended(int(end.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = argv
    raise AssertionError("main() exits")


@contextlib.contextmanager
def working_in(folder: str | Path) -> Iterator[None]:
    """Have `folder` as the current one."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


class Program(NamedTuple):
    """What a program found when it was started."""

    argv: list[str]
    environment: dict[str, str]
    files: list[str]  # in the folder it was started in


_PROGRAM = """\
#!{python} -ES
import json, os, sys
environment = {{os.fsdecode(k): os.fsdecode(v) for k, v in os.environb.items()}}
with open({result!r}, "w", errors="surrogateescape") as file:
    json.dump([sys.argv, environment, os.listdir()], file)
"""

# torchrun, as far as a script can tell: it starts what follows --no-python as rank 0.
_PYTHON3 = """\
#!{python} -ES
import os, sys
if sys.argv[1] == "-c":
    print("2.13.0")
elif sys.argv[1] == "-u":
    os.execvp("PROGRAM", ["PROGRAM", *sys.argv[2:]])
else:
    error_file = {result!r} + ".error"
    os.environ.update(RANK="0", TORCHELASTIC_RESTART_COUNT="0", TORCHELASTIC_ERROR_FILE=error_file)
    words = sys.argv[sys.argv.index("--no-python") + 1 :]
    os.execvp(words[0], words)
"""


def run_node(
    job: Mapping[str, object],
    *,
    scheduler: str = "local",
    home: str = "/home/of user",
    program: str = "PROGRAM",
    around: Mapping[str, str] = MappingProxyType({}),
    task: int | None = None,
) -> Program:
    """Render `job` and run the script's part for one node, up to the program of its rank 0.

    The program that reports back is on PATH by the name of `program`, and is what `python3 -u`
    runs; the node has the variables `around` too. Raises JobgenError where jobgen refuses the job,
    and AssertionError, with what was logged, where the program is not reached.
    """
    with tempfile.TemporaryDirectory() as top:
        folder = top if task is None else f"{top}/7_{task}"  # as the run folder of a task is called
        attempt, bin_folder, work = (Path(folder, name) for name in ("attempts/0", "bin", "work"))
        for path in (attempt, bin_folder, work, Path(folder, "errors")):
            path.mkdir(parents=True)
        result = str(Path(folder, "result"))
        for name, text in (("python3", _PYTHON3), (program, _PROGRAM)):
            file = bin_folder / name
            file.write_text(text.format(python=sys.executable, result=result))
            file.chmod(0o755)
        (attempt / "nodes").write_text("n1\n")
        script = attempt / "script"
        script.write_text(render(plan_of(job, scheduler=scheduler)), newline="")
        index = [] if scheduler == "slurm" else ["0"]  # srun says it by a variable
        argv = ["bash", str(script), "node", *index, str(work), "127.0.0.1", str(PORT)]
        argv.append(os.path.basename(folder))  # the rendezvous id
        path = f"{bin_folder}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": home, "SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "8"}
        environment |= around
        ended = subprocess.run(argv, env=environment, capture_output=True, cwd=work)
        if not Path(result).exists():
            logs = "".join(log.read_text() for log in Path(folder).glob("logs/n1/*"))
            raise AssertionError(f"{ended}\n{logs}")
        return Program(*json.loads(Path(result).read_text(errors="surrogateescape")))
