"""jobgen turns one short YAML file into a multi-node PyTorch job on PBS or Slurm.

`__all__` is the Python API (docs/reference/api.md). Each name is imported on first use.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # the constant of typing costs an import
if TYPE_CHECKING:
    from typing import Any

    from jobgen.api import Job as Job
    from jobgen.api import cancel as cancel
    from jobgen.api import find as find
    from jobgen.api import find_all as find_all
    from jobgen.api import get_status as get_status
    from jobgen.api import list_jobs as list_jobs
    from jobgen.api import make_report as make_report
    from jobgen.api import map_function as map_function
    from jobgen.api import prepare as prepare
    from jobgen.api import submit as submit
    from jobgen.api import submit_function as submit_function
    from jobgen.errors import JobgenError as JobgenError
    from jobgen.jobs.recover import recover_submissions as recover_submissions
    from jobgen.jobs.watch import Watch as Watch
    from jobgen.plan.resolve import resolve as resolve
    from jobgen.rendering.render import render as render
    from jobgen.spec.load import load as load

_OF_API = (
    "Job cancel find find_all get_status list_jobs make_report map_function prepare submit"
    " submit_function"
)
_HOMES = dict.fromkeys(_OF_API.split(), "api") | {
    "JobgenError": "errors",
    "Watch": "jobs.watch",
    "load": "spec.load",
    "recover_submissions": "jobs.recover",
    "render": "rendering.render",
    "resolve": "plan.resolve",
}
__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
