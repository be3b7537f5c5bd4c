"""The modules of a scheduler's package have what their protocols say, with the same parameters."""

import inspect
from types import FunctionType, ModuleType

import pytest

from jobgen.schedulers import SCHEDULERS
from jobgen.schedulers.base import Access, Cluster, Queue
from jobgen.schedulers.usage import UsageReader

PROTOCOLS = {"queue": Queue, "usage": UsageReader, "access": Access, "cluster": Cluster}
WITH_QUEUE = [name for name in SCHEDULERS if SCHEDULERS[name].can.batch]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("scheduler", WITH_QUEUE)
def test_a_module_has_the_functions_of_its_protocol(scheduler: str, protocol: str) -> None:
    module = getattr(SCHEDULERS[scheduler], protocol)
    assert isinstance(module, ModuleType)
    members = {k: v for k, v in vars(PROTOCOLS[protocol]).items() if not k.startswith("_")}
    assert members
    for name in getattr(PROTOCOLS[protocol], "__annotations__", ()):
        assert getattr(module, name), name
    for name, member in members.items():
        assert isinstance(member, FunctionType)
        wanted = list(inspect.signature(member).parameters.values())[1:]  # without self
        found = inspect.signature(getattr(module, name)).parameters.values()
        assert [(p.name, p.kind) for p in found] == [(p.name, p.kind) for p in wanted], name
