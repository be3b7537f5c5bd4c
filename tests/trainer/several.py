"""One rank of several runs, one after another: `several.py PORT RUNS`, RUNS as JSON.

A run is a list of flags, run in this rank as `python -m jobgen.trainer` would, on a port of its
own. Torch is imported once for all of them. What each run raised, and how many pieces of code it
has compiled, is printed as a line of JSON. What is compiled is captured as for Inductor, but not
written in C++, which takes a minute. The smallest GPT has two layers here, which show all that four
do in half the time.
"""

import functools
import json
import os
import sys

import torch

from jobgen.trainer.distributed.world import leave
from jobgen.trainer.flags import parse_flags
from jobgen.trainer.run import run
from jobgen.trainer.tasks.gpt import MODELS


def count_compiles() -> int:
    """Return how many pieces of code this process has compiled."""
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def main() -> None:
    """Run them."""
    torch.compile = functools.partial(torch.compile, backend="aot_eager")
    MODELS["gpt-tiny"]["layers"] = 2
    port, runs = int(sys.argv[1]), json.loads(sys.argv[2])
    for number, flags in enumerate(runs):
        os.environ["MASTER_PORT"] = str(port + number)
        os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"  # it is there once, for one run
        torch._dynamo.reset()
        problem, before = None, count_compiles()
        try:
            run(parse_flags(flags))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        leave()
        torch.use_deterministic_algorithms(False)
        line = {"run": number, "rank": os.environ["RANK"], "problem": problem}
        print(json.dumps(line | {"compiles": count_compiles() - before}))


main()
sys.stdout.flush()
os._exit(0)
