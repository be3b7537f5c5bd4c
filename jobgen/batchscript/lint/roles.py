"""Rules on several programs in one job: a server and its clients, a Ray head and its workers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.lint.rule import SRUN, Fault, rule
from jobgen.batchscript.reader import Script

_RAY = "https://docs.ray.io/en/latest/cluster/vms/user-guides/community/slurm.html"
# What others connect to.
SERVICE = re.compile(
    r"\bray start\b|\bvllm serve\b|\bvllm-serve\b|\bapi_server\b|\bsglang\.launch_server\b"
)
# What asks whether something is there; a script that has it needs no rule on sleeping.
_ASKS = re.compile(r"\bcurl\b|\bwget\b|/dev/tcp/|\bnc -z|\bray (status|list|health-check)\b")
_PLACED = (
    "-w",
    "--nodelist",
    "--relative",
    "-r",
    "--exact",
    "--overlap",
    "--het-group",
    "-x",
    "--exclude",
)


@rule("sleep-until-ready", "A server that is given some seconds to start", _RAY)
def _find_sleep(script: Script) -> Iterator[Fault]:
    """A slow file system or a large model takes longer, and then the client fails; a server that
    has died is not noticed at all.

    Fix: ask until it answers, with a limit, and look whether it still runs; ready does so in a
    jobgen spec with roles
    """
    if _ASKS.search(script.text):
        return
    started = False
    for command in script.commands:
        texts = command.texts
        serves = command.name not in ("echo", "printf") and SERVICE.search(" ".join(texts))
        started = started or (bool(serves) and command.end == "&")
        if started and command.name == "sleep" and re.fullmatch(r"\d+[sm]?", texts[-1]):
            message = f"whether the server is up after {texts[-1]} s is not known"
            yield Fault(command.place.line, command.place.column, message)
            return


@rule("step-takes-all", "A step in the background beside others", SRUN)
def _find_beside(script: Script) -> Iterator[Fault]:
    """Without --exact or --overlap a step has all CPUs and memory of its nodes: the next step
    waits until it ends, which a server never does.

    Fix: add --overlap, or --exact with its CPUs, GPUs and memory, or name its nodes by -w
    """
    steps = [command for command in script.commands if command.name == "srun"]
    loose = [
        command
        for command in steps
        if command.end == "&"
        and not any(block.opener == "if" for block in command.blocks)
        and not any(text.partition("=")[0] in _PLACED for text in command.texts)
        and not any(re.match(r"-[wrx].", text) for text in command.texts)
    ]
    if loose and len(steps) > 1:
        message = "an srun in the background takes all of the job, and the next one waits for it"
        yield Fault(loose[0].place.line, loose[0].place.column, message)


@rule("worker-on-head", "A Ray worker beside the head", _RAY)
def _find_worker_on_head(script: Script) -> Iterator[Fault]:
    """The head's node then counts twice, and the last node of the job idles.

    Fix: begin the loop at 1
    """
    if not re.search(r"ray start\b[^\n]*--head", script.text):
        return
    loop = r"^[ \t]*for\s*\(\(\s*(\w+)\s*=\s*0\s*;(?:(?!^\s*done\b).)*?\[\$?\{?\1\}?\]"
    worker = r"(?:(?!^\s*done\b|--head).)*?ray start\b(?:(?!^\s*done\b|--head).)*?--address"
    if match := re.search(loop + worker, script.text, re.MULTILINE | re.DOTALL):
        line = script.text.count("\n", 0, match.start()) + 1
        yield Fault(line, 1, "the workers begin at node 0, where the head is")
