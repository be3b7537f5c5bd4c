"""Jobs as a user makes them: a spec, `jobgen submit`, and what is found in the run folder."""

import ast
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cluster_fixtures import PATIENCE
from forked import start_python

PROGRAMS = Path(__file__).parent / "programs"
ALLREDUCE = PROGRAMS / "allreduce.py"
JOBGEN = [sys.executable, "-m", "jobgen"]
BRISK = [sys.executable, str(PROGRAMS / "brisk.py")]
#: the program of `spec()` with torch
GLOO = {"script": str(ALLREDUCE), "args": {"backend": "gloo"}}


def spec(**changes: Any) -> dict[str, Any]:
    """Three nodes with two processes each that do one all-reduce; `changes` replace whole keys."""
    base = {
        "name": "reduce",
        "resources": {"nodes": 3, "cpus_per_node": 2, "walltime": "5m"},
        "launch": {"processes_per_node": 2},
        "environment": {"venv": sys.prefix},
        "run": {"script": str(ALLREDUCE)},
    }
    return base | changes


class Job:
    """A submitted job, by its run folder."""

    def __init__(self, id: str, folder: Path, name: str) -> None:
        self.id = id
        self.run_dir = folder / "runs" / name / id.partition(".")[0].removesuffix("[]")

    def task(self, index: int) -> "Job":
        """One task of the array that it is."""
        number, dot, server = self.id.partition(".")
        name = f"{number.removesuffix('[]')}[{index}]{dot}{server}" if dot else f"{number}_{index}"
        task = Job(name, Path(), "")
        task.run_dir = self.run_dir.with_name(f"{self.run_dir.name}_{index}")
        return task

    def ranks(self) -> dict[int, dict[str, Any]]:
        """What each rank has printed, by rank."""
        lines = [
            ast.literal_eval(line)
            for path in self.run_dir.glob("logs/*/rank-*.out")
            for line in path.read_text().splitlines()
            if not line.startswith("jobgen: start ")
        ]
        return {int(line["RANK"]): line for line in lines}

    def outcome(self) -> str | None:
        """The last attempt's own record; None while it runs."""
        paths = sorted(self.run_dir.glob("attempts/*/outcome"), key=lambda path: path.parent.name)
        return paths[-1].read_text().strip() if paths else None

    def wait(self, seconds: float = PATIENCE) -> str:
        """The outcome, once there is one."""
        self.wait_for(self.outcome, seconds)
        return str(self.outcome())

    def wait_for(self, seen: Any, seconds: float = PATIENCE) -> None:
        """Return when `seen` says so."""
        end = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < end, self.everything()
            time.sleep(0.1)

    def errors(self) -> dict[str, str]:
        """The message of each error file, by the file's name."""
        return {
            path.name: json.loads(path.read_text())["message"]["message"]
            for path in self.run_dir.glob("errors/*.json")
        }

    def everything(self) -> str:
        """All that the job has written, for the message of a failed test."""
        texts = []
        for path in sorted(self.run_dir.rglob("*")):
            if path.is_file() and path.name != "script" and path.stat().st_size < 100_000:
                texts.append(
                    f"== {path.relative_to(self.run_dir)}\n{path.read_text(errors='replace')}"
                )
        return "\n".join(texts)


@cache
def list_modules() -> tuple[str, ...]:
    """All of jobgen but what needs torch."""
    package = importlib.util.find_spec("jobgen")
    assert package
    places = package.submodule_search_locations
    names = [module.name for module in pkgutil.walk_packages(places, "jobgen.")]
    return tuple(
        x for x in names if not x.startswith(("jobgen.trainer", "jobgen.loop", "jobgen.__main__"))
    )


def jobgen(
    *words: str, env: Mapping[str, str], cwd: Path, command: Sequence[str] = JOBGEN
) -> subprocess.CompletedProcess[str]:
    """Run the command; jobgen itself in a fork of a process that has imported it all."""
    argv = [*command, *words]
    if command is not JOBGEN:
        return subprocess.run(
            argv, env=dict(env), cwd=cwd, capture_output=True, text=True, check=False
        )
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        streams = {"stdout": out, "stderr": err}
        code = start_python(argv, cwd=cwd, env=env, modules=list_modules(), **streams).wait()
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    return subprocess.CompletedProcess(argv, code, *texts)


def submit(
    content: dict[str, Any],
    *options: str,
    scheduler: str,
    cwd: Path,
    env: Mapping[str, str] = os.environ,
    command: Sequence[str] = JOBGEN,
) -> Job:
    """Write the spec beside its job (JSON is YAML) and submit it with `jobgen submit`."""
    cwd.mkdir(exist_ok=True, parents=True)
    (cwd / "job.yaml").write_text(json.dumps(content))
    words = ("submit", "job.yaml", "--scheduler", scheduler, *options)
    done = jobgen(*words, env=env, cwd=cwd, command=command)
    assert done.returncode == 0, done.stderr
    return Job(done.stdout.strip(), cwd, content["name"])


def diagnosed(job: Job, cluster: Any, cwd: Path) -> dict[str, Any]:
    """What `jobgen diagnose` says of the job."""
    done = jobgen("diagnose", "--json", job.id, env=cluster.env, cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found
