from jobgen.api import Job as Job
from jobgen.api import find as find
from jobgen.api import prepare as prepare
from jobgen.api import submit as submit
from jobgen.errors import JobgenError as JobgenError
from jobgen.loaded import load as load
from jobgen.plan import resolve as resolve
from jobgen.render import render as render

__version__: str
__all__: list[str]
