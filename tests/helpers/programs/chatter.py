"""Write the logs of many ranks into a run folder as fast as it goes.

chatter.py RUN_DIR RANKS LINES_PER_RANK WIDTH
"""

import sys
from pathlib import Path

run_dir, ranks, count, width = Path(sys.argv[1]), *map(int, sys.argv[2:5])
paths = [run_dir / f"logs/n{rank // 8}/rank-{rank}.out" for rank in range(ranks)]
for path in paths:
    path.parent.mkdir(parents=True, exist_ok=True)
EACH = 100  # lines at a time
for first in range(0, count, EACH):
    for rank, path in enumerate(paths):
        lines = []
        for number in range(first, min(first + EACH, count)):
            who = "all" if number % 10 == 0 else f"rank {rank}"
            lines.append(f"{number} {who} ".ljust(width - 1, "ä"[number % 7 == 0 :] or "x"))
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write("\n".join(lines) + "\n")
