"""What the four jobs have in common: how often they are rendered, and where their words go.

python TOOL_job.py render SCRIPT [TIMES]    # prints milliseconds of CPU time a render
python TOOL_job.py submit WORDS             # prints the job's id
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROGRAM = str(Path(__file__).with_name("program.py"))
NODES, PROCESSES = 2, 2


def serve(render: Callable[[str], str], submit: Callable[[str], str]) -> None:
    """Do what the command line asks: `render` and `submit` get the folder for the words."""
    what, place = sys.argv[1:3]
    if what == "submit":
        os.makedirs(place, exist_ok=True)
        print(submit(place))
        return
    times = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    began = time.process_time()
    for _ in range(times):
        text = render(os.path.dirname(place))
    print((time.process_time() - began) * 1000 / times)
    Path(place).write_text(text)
