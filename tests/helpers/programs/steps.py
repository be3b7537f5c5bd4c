"""Steps of a twentieth of a second that a chain can stop: as a program that trains, without torch.

Each rank looks for the STOP file itself, which SIGTERM makes. The first saves the number of steps
at STOP and every `--save-every` steps; a later start goes on from there.
"""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--starts", type=int, help="how many it takes; without, no number is enough")
parser.add_argument("--save-every", type=int, default=10**6)
args = parser.parse_args()

run = Path(os.environ["JOBGEN_RUN_DIR"])
saved = run / "checkpoints" / "steps"
step = int(saved.read_text()) if saved.exists() else 0
last = int(os.environ["JOBGEN_ATTEMPT"]) + 1 == args.starts
end = step + 5 if last else sys.maxsize


def save() -> None:
    """Leave the number of steps, as a whole or not at all."""
    if os.environ["RANK"] == "0":
        saved.parent.mkdir(exist_ok=True)
        new = saved.with_name("new")
        new.write_text(str(step))
        new.replace(saved)


def stop(*_: object) -> None:
    """At SIGTERM: as the trainer does, end in order after the step."""
    (run / "STOP").touch()


signal.signal(signal.SIGTERM, stop)
print(f"begins after step {step}", flush=True)
while step < end:
    time.sleep(0.05)
    step += 1
    if (run / "STOP").exists():
        save()
        (run / "STOPPED").touch()
        break
    if step % args.save_every == 0:
        save()
