"""What a script does with signals: bash would end by some of them as if all were well."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_fixtures import wait_until
from support import plan_of

from jobgen.rendering.render import render


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("USR1", "done 0"),  # where the program may want it, and its shells do not end by it
        ("USR2", "done 0"),
        ("PIPE", "done 0"),  # nobody reads what the script says any more
        ("HUP", "cancelled 143"),
        ("XCPU", "cancelled 143"),
        ("INT", "cancelled 143"),
    ],
)
def test_a_signal_to_the_script_ends_the_job_in_order_or_not_at_all(
    tmp_path: Path, name: str, outcome: str
) -> None:
    job = {"name": "a", "resources": {}, "launch": {"mode": "plain"}}
    command = ["bash", "-c", "until [[ -e go ]]; do sleep 0.1; done"]
    (tmp_path / "job.sh").write_text(
        render(plan_of({**job, "run": {"command": command}}, scheduler="local"))
    )
    with (tmp_path / "job.out").open("w") as out:
        argv = ["env", "--default-signal", "bash", "job.sh"]  # tests may run under nohup
        script = subprocess.Popen(argv, cwd=tmp_path, stdout=out, stderr=out)
    wait_until(lambda: any(tmp_path.glob("runs/a/*/logs/*/rank-0.out")))
    script.send_signal(signal.Signals[f"SIG{name}"])
    if outcome == "done 0":
        (tmp_path / "go").touch()
    script.wait(60)
    (record,) = tmp_path.glob("runs/a/*/attempts/0/outcome")
    assert record.read_text().strip() == outcome
    last = (tmp_path / "job.out").read_text().splitlines()[-1]
    ended = f"jobgen: ENDED by SIG{name}"
    assert last == (ended if "cancelled" in outcome else "jobgen: DONE: all processes ended well")


COUNTS = "trap 'echo got it' TERM; echo up; until [[ -e go ]]; do sleep 0.1; done"


@pytest.mark.parametrize("to", [os.kill, os.killpg])
@pytest.mark.parametrize("job", [{"nodes": 1}, {"nodes": 2}, {"body": True}])
def test_a_program_gets_one_sigterm_whether_the_script_or_all_processes_got_it(
    tmp_path: Path, job: dict[str, int], to: Callable[[int, int], None]
) -> None:
    """PBS signals all processes of a job, and Slurm's proctrack/cgroup the first of each step."""
    (tmp_path / "own.sh").write_text(COUNTS)
    own = {"body": "own.sh"} if "body" in job else {"command": ["bash", "-c", COUNTS]}
    mode = {} if "body" in job else {"launch": {"mode": "plain"}}
    nodes = job.get("nodes", 1)
    spec = {"name": "a", "resources": {"nodes": nodes}, "run": own, **mode}
    (tmp_path / "job.sh").write_text(render(plan_of(spec, scheduler="local")))
    argv = ["env", "--default-signal", "bash", "job.sh"]
    with (tmp_path / "job.out").open("w") as out:
        script = subprocess.Popen(
            argv, cwd=tmp_path, stdout=out, stderr=out, start_new_session=True
        )

    def heard() -> list[str]:
        logs = tmp_path.glob("runs/a/*/logs/*/rank-*.out")
        return [log.read_text() for log in logs]

    wait_until(lambda: [text.count("up") for text in heard()] == [1] * nodes)
    to(script.pid, signal.SIGTERM)
    wait_until(lambda: all("got it" in text for text in heard()))
    time.sleep(1)
    (tmp_path / "go").touch()
    script.wait(60)
    assert [text.count("got it") for text in heard()] == [1] * nodes
