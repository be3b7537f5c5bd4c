from jobgen.api import Job as Job
from jobgen.api import cancel as cancel
from jobgen.api import everything as everything
from jobgen.api import find as find
from jobgen.api import find_all as find_all
from jobgen.api import look as look
from jobgen.api import prepare as prepare
from jobgen.api import report_of as report_of
from jobgen.api import settle as settle
from jobgen.api import submit as submit
from jobgen.errors import JobgenError as JobgenError
from jobgen.loaded import load as load
from jobgen.plan import resolve as resolve
from jobgen.render import render as render
from jobgen.watch import Watch as Watch

__version__: str
__all__: list[str]
