"""Hold memory until the file `go` is there: `hold.py MB...`, of each rank.

The first computes, until the file `seen` is there, and makes a step a second.
"""

import json
import os
import sys
import time
from pathlib import Path

rank = int(os.environ["RANK"])
held = bytearray(b"x") * (int(sys.argv[1 + rank]) << 20)  # written to, so that it is there
metrics = Path(os.environ["JOBGEN_RUN_DIR"], "metrics.jsonl")
step, begin = 0, time.time()
while not Path("go").exists():
    if rank:
        time.sleep(0.2)
        continue
    until = time.process_time() + 0.3
    while time.process_time() < until and not Path("seen").exists():
        held[step % len(held)] = step % 256
    time.sleep(0.7)
    step += 1
    line = {"kind": "step", "step": step, "loss": 1 / step, "time": time.time(), "step_s": 1.0}
    with metrics.open("a") as file:
        file.write(json.dumps(line) + "\n")
