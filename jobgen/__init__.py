"""jobgen: from one YAML file to a multi-node PyTorch job on PBS or Slurm.

What `__all__` names is the Python API (docs/api.md). Each name is imported when it is asked for.
"""

import sys

__version__ = "0.1.0"

_HOMES = {
    "Job": "api",
    "JobgenError": "errors",
    "Watch": "watch",
    "cancel": "api",
    "everything": "api",
    "find": "api",
    "find_all": "api",
    "load": "loaded",
    "look": "api",
    "prepare": "api",
    "render": "render",
    "report_of": "api",
    "resolve": "plan",
    "settle": "api",
    "submit": "api",
}
__all__ = ["__version__", *sorted(_HOMES)]  # the types are in __init__.pyi


class _Package(type(sys)):
    """The package: `jobgen.render` is the function, though there is a module of that name too."""

    def __getattr__(self, name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name, value):
        if name not in _HOMES or not isinstance(value, type(sys)):  # as when a module is imported
            super().__setattr__(name, value)

    def __dir__(self):
        return [*super().__dir__(), *_HOMES]


sys.modules[__name__].__class__ = _Package
