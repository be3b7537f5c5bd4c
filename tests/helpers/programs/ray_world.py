"""A program on Ray: it says who is there, and then ends, fails or stays, as it is told.

ray_world.py TASKS [--until FILE] [--code C]
"""

import argparse
import os
import sys
import time

import ray

parser = argparse.ArgumentParser()
parser.add_argument("tasks", type=int)
parser.add_argument("--until", help="stay until this file is there")
parser.add_argument("--code", type=int, default=0)
told = parser.parse_args()
ray.init(logging_level="ERROR", log_to_driver=False)


@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def look() -> str:
    """Return the node, and the variables of a process of another kind, which would mislead."""
    time.sleep(0.5)
    names = ("RANK", "WORLD_SIZE", "MASTER_ADDR")
    return " ".join([os.environ["JOBGEN_NODE"], *(name for name in names if name in os.environ)])


found = set(ray.get([look.remote() for _ in range(told.tasks)]))
print({"seen": sorted(found), "cpus": ray.cluster_resources()["CPU"]}, flush=True)
while told.until and not os.path.exists(told.until):
    ray.get(look.options(scheduling_strategy="DEFAULT").remote())
sys.exit(told.code)
