"""What a site refuses beside its queues' limits: shapes of nodes, accounts, mandatory lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.limits import Finding, Ground, Size, count, date, ground
from jobgen.loaded import LoadedSpec
from jobgen.profile import Filesystems, Node, SiteProfile
from jobgen.spec import JobSpec
from jobgen.units import format_memory


def check_node(
    loaded: LoadedSpec,
    node: Node,
    size: Size,
    *,
    about: dict[str, Ground],
    today: str | None,
) -> Iterator[Finding]:
    """The shape of a node: its GPUs, and the CPUs and memory that go with each.

    `about` says for each key of `node` what it stands on.
    """
    resources = loaded.spec.resources
    cpus_key = "cpus_per_gpu" if resources.cpus_per_gpu is not None else "cpus_per_node"
    cpus_given = resources.cpus_per_gpu is not None or resources.cpus_per_node is not None
    given = "memory_per_node"

    def finding(rule: str, key: str, message: str, hint: str) -> Finding:
        ground = about[rule]
        path = f"resources.{key}" if key else "resources"
        return Finding(loaded.problem(path, f"{message}{ground}", hint), ground.doubt(date(today)))

    if node.gpus is not None and size.widest > node.gpus:
        message = f"{count(size.widest, 'GPU')}, more than the {node.gpus} of a node"
        yield finding("gpus", "gpus_per_node", message, f"use at most {node.gpus}")
    elif node.gpus is not None and 0 < size.narrowest < node.gpus:
        several = node.full == "several" and size.nodes > 1
        if several or node.full == "always":
            whose = "a job on several nodes" if several else "a job"
            message = f"{count(size.narrowest, 'GPU')}, but {whose} has all {node.gpus} of each"
            yield finding("full", "gpus_per_node", message, f"write gpus_per_node: {node.gpus}")
    if node.job_gpus is not None and size.gpus > node.job_gpus:
        message = f"{size.gpus} GPUs in all, more than the {node.job_gpus} that a job can have"
        yield finding("job_gpus", "gpus_per_node", message, f"use at most {node.job_gpus}")
    if cpus_given:
        for rule, message, hint in _cpus(node, size, cpus_key):
            yield finding(rule, cpus_key, message, hint)
    memory = resources.memory_per_node
    if memory is None:
        if node.memory_rule == "required":
            hint = "add memory_per_node, such as 180GB"
            yield finding("memory_rule", "", "this site wants the memory of every job", hint)
        return
    if node.memory_rule == "forbidden":
        message = (
            f"{_memory(memory)}, but the memory follows from the nodes or GPUs here: do not ask"
        )
        yield finding("memory_rule", given, message, f"leave {given} out")
    elif node.memory is not None and memory > node.memory:
        message = f"{_memory(memory)}, more than the {_memory(node.memory)} of a node"
        yield finding("memory", given, message, f"use at most {_memory(node.memory)}")
    elif node.memory_rule == "most" and node.memory_per_gpu and size.widest:
        most = node.memory_per_gpu * size.widest
        if memory > most:
            message = f"{_memory(memory)}, more than {_memory(node.memory_per_gpu)} for each GPU"
            yield finding("memory_rule", given, message, f"use at most {_memory(most)}")


def _cpus(node: Node, size: Size, key: str) -> Iterator[tuple[str, str, str]]:
    """The CPUs of a node, where the spec says them by `key`: rule, message, hint."""
    cpus, gpus, each = size.cpus_per_node or 0, size.widest, node.cpus_per_gpu
    asked = f"{count(cpus, 'CPU')} for {count(gpus, 'GPU')} a node"
    leave = f"leave {key} out"
    if node.cpus_rule == "implied":
        message = f"{asked}, but the CPUs follow from the nodes or GPUs here: do not ask"
        yield "cpus_rule", message, leave
    elif node.cpus_rule == "exact" and gpus and each and cpus != each * gpus:
        message = f"{asked}: there are {each} with each GPU, no other number"
        yield "cpus_rule", message, leave
    elif node.cpus_rule == "most" and gpus and each and cpus > each * gpus:
        yield "cpus_rule", f"{asked}: more than {each} with each GPU", leave
    elif node.cpus and cpus > node.cpus:
        message = f"{count(cpus, 'CPU')}, more than the {node.cpus} of a node"
        yield "cpus", message, f"use at most {node.cpus}"


def _memory(kib: int) -> str:
    return "{}{}B".format(*format_memory(kib))


def listed_by_hand(listed: Filesystems, spec: JobSpec) -> bool:
    """Whether a directive of the spec's own names the file systems."""
    option = rf"-l\s*(\S+,)?{re.escape(listed.resource)}="
    return any(re.search(option, line) for line in spec.directives)


def check_lists(
    loaded: LoadedSpec,
    profile: SiteProfile,
    *,
    gpu_type: str | None,
    gpus: int,
    filesystems: tuple[str, ...],
    today: str | None,
) -> Iterator[Finding]:
    """The account, the file systems and the type of GPU."""
    spec, account, listed = loaded.spec, profile.account, profile.filesystems

    def finding(about: Ground, path: str, message: str, hint: str) -> Finding:
        return Finding(loaded.problem(path, f"{message}{about}", hint), about.doubt(date(today)))

    if account is not None:
        about = ground(profile, account)
        if spec.account is None:
            if account.required:
                hint = "write account: NAME, or give it to the command that submits"
                message = f"every job here needs an account{about}"
                yield Finding(loaded.problem("", message, hint), "it may be given later")
        elif account.pattern and not re.fullmatch(account.pattern, spec.account):
            message = f"{spec.account!r} is no account of this site"
            yield finding(about, "account", message, f"it must be {account.meaning}")
    if listed is not None and not listed_by_hand(listed, spec):
        about = ground(profile, listed)
        example = ", ".join(listed.known or ("NAME",))
        if not filesystems and listed.required:
            message = "every job must name the file systems that it uses"
            yield finding(about, "", message, f"add filesystems: [{example}]")
        elif not filesystems:
            message = f"names no {listed.resource}: what the job uses must be listed{about}"
            hint = "add filesystems: [scratch/PROJECT]"
            yield Finding(loaded.problem("", message, hint), "the job may use none")
        for index, name in enumerate(filesystems):
            if listed.known is not None and name not in listed.known:
                message = f"{name!r} is no file system of this site"
                path = f"filesystems[{index}]"
                yield finding(about, path, message, f"known are {', '.join(listed.known)}")
    types = profile.gpu_types
    if types is not None and gpus:
        about = ground(profile, next(iter(types.values())))
        if gpu_type is None and profile.gpu_type_required:
            message, hint = "every GPU job must name the type", f"one of {', '.join(types)}"
            yield finding(about, "resources", message, f"add gpu_type, {hint}")
        elif gpu_type is not None and gpu_type not in types:
            message = f"{gpu_type!r} is no GPU of this site"
            yield finding(about, "resources.gpu_type", message, f"known are {', '.join(types)}")
