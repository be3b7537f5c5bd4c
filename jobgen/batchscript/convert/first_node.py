"""Which variables of a script hold the address of the job's first node."""

from __future__ import annotations

import re

from jobgen.batchscript.expand import list_names
from jobgen.batchscript.reader import Script

# How scripts find the first node, in the value of a variable: of the list of nodes they take one.
_LIST_OF_NODES = re.compile(r"scontrol\s+show|NODEFILE|NODELIST")
_ONE_OF_THEM = re.compile(r"\bhead\b|\[0\]|\bsed\b|\bawk\b|\bcut\b|\|\s*hostname")
_OWN_NAME = re.compile(
    r"\bhostname\b|SLURMD_NODENAME|\{\w*(?i:node|host|addr|worker)\w*\[0\]|getent|/etc/hosts|\bip\b"
)
_COUNTS = re.compile(r"\bwc\b|uniq\s+-c|grep\s+-c|\$\(\(|\b(paste|tr|xargs)\b")
_ADDRESS_NAME = re.compile(r"(?i).*(addr|host|head|master|node|(^|_)ip(_|\d|$)|rdzv|(^|_)url(_|$))")
_NO_ADDRESS_NAME = re.compile(
    r"(?i).*(nodes|hosts|names|list|file|count|num|port|rank|size|dir|path)"
)


def find_first_node_names(script: Script) -> set[str]:
    """The variables that hold the name or address of the job's first node."""
    names = set()
    for step in script.steps:
        for name, _, raw in step.source.variables():
            if _may_be_address(name) and _tells_first_node(raw):
                names.add(name)
    for step in script.steps:  # and those that are one of them
        for name, _, raw in step.source.variables():
            if _may_be_address(name) and list_names(raw) & names and len(list_names(raw)) == 1:
                names.add(name)
    return names


def _may_be_address(name: str) -> bool:
    return bool(_ADDRESS_NAME.match(name)) and not _NO_ADDRESS_NAME.match(name)


def _tells_first_node(raw: str) -> bool:
    if _COUNTS.search(raw):
        return False
    return bool((_ONE_OF_THEM if _LIST_OF_NODES.search(raw) else _OWN_NAME).search(raw))
