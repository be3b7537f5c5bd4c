"""jobgen: from one YAML file to a multi-node PyTorch job on PBS or Slurm.

What `__all__` names is the Python API (docs/reference/api.md). Each name is imported when it is
first used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from typing import Any

    from jobgen.api import Job as Job
    from jobgen.api import cancel as cancel
    from jobgen.api import everything as everything
    from jobgen.api import find as find
    from jobgen.api import find_all as find_all
    from jobgen.api import look as look
    from jobgen.api import map_function as map_function
    from jobgen.api import prepare as prepare
    from jobgen.api import report_of as report_of
    from jobgen.api import settle as settle
    from jobgen.api import submit as submit
    from jobgen.api import submit_function as submit_function
    from jobgen.errors import JobgenError as JobgenError
    from jobgen.jobs.watch import Watch as Watch
    from jobgen.plan.resolve import resolve as resolve
    from jobgen.rendering.render import render as render
    from jobgen.spec.load import load as load

_HOMES = {
    "Job": "api",
    "JobgenError": "errors",
    "Watch": "jobs.watch",
    "cancel": "api",
    "everything": "api",
    "find": "api",
    "find_all": "api",
    "load": "spec.load",
    "look": "api",
    "map_function": "api",
    "prepare": "api",
    "render": "rendering.render",
    "report_of": "api",
    "resolve": "plan.resolve",
    "settle": "api",
    "submit": "api",
    "submit_function": "api",
}
__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
