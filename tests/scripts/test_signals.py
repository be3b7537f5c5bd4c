"""What a script does with signals: bash would end by some of them as if all were well."""

import signal
import subprocess
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
