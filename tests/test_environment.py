"""What a node's part of the script sets up before the program, and what it leaves behind."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import Program, plan_of, run_node

from jobgen.environment import _vendor

CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
)


def run(environment: Mapping[str, object], *, scheduler: str = "slurm", **around: str) -> Program:
    """What a program finds in this environment, on a node that has some variables already."""
    job = {"name": "a", "resources": {}, "run": {"command": ["PROGRAM"]}}
    return run_node({**job, "environment": environment}, scheduler=scheduler, around=around)


def failure(environment: Mapping[str, object], **around: str) -> str:
    """What jobgen says where the environment cannot be set up."""
    with pytest.raises(AssertionError) as caught:
        run(environment, **around)
    return "\n".join(re.findall("jobgen: (error: .*)", str(caught.value)))


# --- modules -------------------------------------------------------------------------------------


def modules(folder: Path, body: str) -> dict[str, str]:
    """The variables by which a shell has a `module` function, which also notes its calls."""
    return {"BASH_FUNC_module%%": f'() {{ echo "$*" >>{folder}/calls; {body}\n}}'}


LOAD = """
    if [[ $1 == load ]]; then LOADEDMODULES=${LOADEDMODULES:+$LOADEDMODULES:}$2; fi
"""


def test_modules_are_unloaded_then_found_then_loaded(tmp_path: Path) -> None:
    record = {"first": "force-purge", "use": ["$HERE/a b"], "load": ["cuda/12", "x y"]}
    (tmp_path / "a b").mkdir()
    run({"modules": record}, HERE=str(tmp_path), **modules(tmp_path, LOAD))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["--force purge", f"use {tmp_path}/a b", "load cuda/12", "load x y"]


@pytest.mark.parametrize(
    ("record", "body", "message"),
    [
        (["a"], "false", "error: module load failed on n1: a"),
        # As version 3.2 of Environment Modules does.
        (["a"], "echo \"ERROR:105: Unable to locate a modulefile for 'a'\" >&2; true", "a"),
        ({"first": "reset"}, "false", "error: module reset failed on n1"),
        ({"use": ["/no/such"]}, "true", "error: no folder of modules on n1: /no/such"),
    ],
    ids=["load", "load that returns 0", "reset", "use"],
)
def test_what_modules_cannot_do_is_said_with_its_node(
    tmp_path: Path, record: object, body: str, message: str
) -> None:
    assert failure({"modules": record}, **modules(tmp_path, body)).endswith(message)


@pytest.mark.parametrize("listed", ["a", "a/1.0", "b:a/1.0:c", "b:a"])
def test_a_module_may_be_there_already(tmp_path: Path, listed: str) -> None:
    run({"modules": ["a"]}, LOADEDMODULES=listed, **modules(tmp_path, "true"))


def test_sticky_modules_that_stay_are_no_failure(tmp_path: Path) -> None:
    run({"modules": {"first": "purge"}}, **modules(tmp_path, "false"))
    assert (tmp_path / "calls").read_text() == "purge\n"


# --- caches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheduler", ["local", "slurm", "pbs"])
def test_caches_are_the_nodes_own_and_go_with_the_job(tmp_path: Path, scheduler: str) -> None:
    found = run({}, scheduler=scheduler, TMPDIR=str(tmp_path)).environment
    folders = {os.path.dirname(found[name]) for name in CACHES}
    assert len(folders) == 1
    assert folders.pop().startswith(f"{tmp_path}/jobgen-")
    assert os.listdir(tmp_path) == []


def test_caches_that_somebody_has_placed_stay_there(tmp_path: Path) -> None:
    own = {"TRITON_CACHE_DIR": "/own/triton"}
    around = {"TMPDIR": str(tmp_path), "MIOPEN_USER_DB_PATH": "/their/db"}
    setup = "export TORCHINDUCTOR_CACHE_DIR=/set/up"
    found = run({"variables": own, "setup": setup}, **around).environment
    assert [found[name] for name in CACHES[:3]] == ["/own/triton", "/set/up", "/their/db"]
    assert found["MIOPEN_CUSTOM_CACHE_DIR"].startswith(str(tmp_path))


def test_a_home_of_triton_is_where_its_cache_is() -> None:
    plan = plan_of(
        {
            "name": "a",
            "resources": {},
            "run": {"module": "m"},
            "environment": {"variables": {"TRITON_HOME": "/x"}},
        },
        scheduler="slurm",
    )
    assert "TRITON_CACHE_DIR" not in plan.environment.caches


def test_a_folder_for_temporary_files_that_is_not_there_is_replaced() -> None:
    found = run({}, TMPDIR="/no/such").environment
    assert found["TMPDIR"] == "/tmp"
    assert found["TRITON_CACHE_DIR"].startswith("/tmp/jobgen-")


@pytest.mark.parametrize(
    ("gpu", "vendor"),
    [
        *[(name, "nvidia") for name in ("A100-40", "GH200", "V100-32", "H100", "GB200", "L40")],
        *[
            ("MI250X", "amd"),
            ("MI300A", "amd"),
            ("PVC", "intel"),
            (None, None),
            ("a new one", None),
        ],
    ],
)
def test_who_makes_a_gpu(gpu: str | None, vendor: str | None) -> None:
    assert _vendor(gpu) == vendor


# --- what is inherited ---------------------------------------------------------------------------


def test_variables_of_torchrun_around_the_job_do_not_reach_it() -> None:
    strays = {
        "PET_NNODES": "7",
        "TORCH_ELASTIC_WORKER_IDENTICAL": "1",
        "TORCHELASTIC_HEALTH_CHECK_PORT": "1",
        "OMP_NUM_THREADS": "99",
    }
    found = run({"variables": {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "5"}}, **strays).environment
    assert found["OMP_NUM_THREADS"] == "8"
    assert found["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "5"
    assert not (strays.keys() - {"OMP_NUM_THREADS"}) & found.keys()
