"""What each process of the job does: it leaves word of its node, its rank and its world."""

import json
import os
import sys
from pathlib import Path


def leave_word(folder: str) -> None:
    """Write a file named for the node and the process."""
    node = os.environ["SLURMD_NODENAME"]
    word = {"node": node, "rank": os.environ["RANK"], "world": os.environ["WORLD_SIZE"]}
    Path(folder, f"{node}-{os.getpid()}.json").write_text(json.dumps(word))


if __name__ == "__main__":
    leave_word(sys.argv[1])
