"""What several test modules use: specs from text, the command line in this process, programs run
by a rendered script as a node's agent would run them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import NamedTuple

import yaml

from jobgen.cli.main import main
from jobgen.errors import JobgenError
from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec import load as loaded
from jobgen.spec.load import LoadedSpec

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))
SITES = {"slurm-generic": "slurm", "pbs-generic": "pbs", "local": "local"}

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


def exported(script: str) -> set[str]:
    """The names of the variables that a rendered script exports."""
    script = re.sub(r"\$\(\(.*?\)\)", "0", script)
    script = re.sub(r"(\w+)\{(\w+),(\w+)\}(\w+)=", r"\1\2\4=x \1\3\4=", script)
    lines = re.findall(r"^(?! *#).*?\bexport ([^;\n]*)", script.replace("\\\n", " "), re.MULTILINE)
    lines += re.findall(r"^ +((?:[A-Z_]+=\S+ )+)launch ", script, re.MULTILINE)  # for it alone
    words = [word for line in lines for word in line.partition("   #")[0].split()]
    names = {match[1] for word in words if (match := re.match(r'"?(\$?[A-Za-z_]\w*)(=|"?$)', word))}
    return names


def load_program(path: Path) -> ModuleType:
    """Import a program that lies in no package, such as a benchmark."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


# What is right in a rendered script and shellcheck cannot see: each node sources the job's `world`
# (SC1090, SC1091), which assigns variables (SC2154) and reads others (SC2034); main calls functions
# by name (SC2329); a rank has RANK and its node's shell has rank (SC2153).
_BEYOND_SHELLCHECK = "SC1090,SC1091,SC2034,SC2153,SC2154,SC2329"


def shellcheck(*scripts: Path) -> str:
    """What shellcheck says of scripts: the program of the virtual environment, or the system's."""
    beside_python = Path(sys.executable).with_name("shellcheck")
    command = str(beside_python) if beside_python.exists() else "shellcheck"
    argv = [command, f"--exclude={_BEYOND_SHELLCHECK}", *scripts]
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


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
if sys.argv[1] == "-u":
    os.execvp("PROGRAM", ["PROGRAM", *sys.argv[2:]])
elif "--no-python" in sys.argv:
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
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
    """Render `job`, which has one node, and run the script up to the program of its rank 0.

    The program that reports back is on PATH by the name of `program`, and is what `python3 -u`
    runs; the node has the variables `around` too. Raises JobgenError where jobgen refuses the job,
    and AssertionError, with what was logged, where the program is not reached.
    """
    with tempfile.TemporaryDirectory() as folder:
        bin_folder, work = Path(folder, "bin"), Path(folder, "work")
        for path in (bin_folder, work):
            path.mkdir()
        result = str(Path(folder, "result"))
        listing = "#!/bin/sh\necho n1\n"
        for name, text in (("python3", _PYTHON3), (program, _PROGRAM), ("scontrol", listing)):
            file = bin_folder / name
            file.write_text(text.format(python=sys.executable, result=result))
            file.chmod(0o755)
        Path(folder, "nodes").write_text("n1\n")
        script = Path(folder, "script")
        script.write_text(render(plan_of(job, scheduler=scheduler)), newline="")
        index = "" if task is None else str(task)
        environment = {
            **{"PATH": f"{bin_folder}:{os.environ['PATH']}", "HOME": home},
            **{"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_CPUS_PER_TASK": "8"},
            **{"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": index, "PBS_ARRAY_INDEX": index},
            **{"PBS_JOBID": f"7[{index}].server" if index else "7.server", "NCPUS": "8"},
            **{"PBS_NODEFILE": f"{folder}/nodes", "PBS_O_WORKDIR": str(work)},
        }
        if scheduler == "local" and index:
            environment |= {"JOBGEN_ARRAY": "7", "JOBGEN_TASK": index}
        ended = subprocess.run(
            ["bash", str(script)],
            env={**environment, **around},
            capture_output=True,
            cwd=work,
            check=False,
        )
        if not Path(result).exists():
            logs = "".join(log.read_text() for log in work.glob("runs/*/*/logs/*/*"))
            raise AssertionError(logs or str(ended))
        return Program(*json.loads(Path(result).read_text(errors="surrogateescape")))
