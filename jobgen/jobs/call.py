"""What a job of `jobgen.submit_function` runs: a copy of this file beside the pickled calls.

It needs no jobgen: it imports the function by its name, calls it in every process, and rank 0 keeps
the result, or the exception, in the run folder.
"""

import os
import pickle
import sys
import traceback
from importlib import import_module
from operator import attrgetter
from typing import Any


def call_function(folder: str) -> None:
    """Make the call of this task; raise what the function raises.

    Rank 0 fails if it has no result: also by sys.exit(0), the code of a job that is done.
    """
    try:
        outcome = (True, _call(folder), "")
    except BaseException as error:
        outcome = (False, error, traceback.format_exc())
    good, value, _ = outcome
    if os.environ.get("RANK", "0") == "0":
        _keep(outcome)
        if not good and isinstance(value, SystemExit) and value.code in (None, 0):
            raise RuntimeError(f"the function has not returned: {value!r}") from value
    if not good:
        raise value


def _call(folder: str) -> Any:
    with open(f"{folder}/about.pickle", "rb") as file:
        path, module, name, program = pickle.load(file)
    path = [*map(os.path.abspath, path)]  # as some may be of a snapshot
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]
    home = import_module(module)
    if program:  # whose own classes the arguments name so
        sys.modules["__main__"] = home
    function: Any = attrgetter(name)(home)
    with open(f"{folder}/{os.environ.get('JOBGEN_TASK', '0')}.pickle", "rb") as file:
        args, kwargs = pickle.load(file)
    return function(*args, **kwargs)


def _keep(outcome: tuple[bool, Any, str]) -> None:
    good, _, text = outcome
    try:
        data = pickle.dumps(outcome)
        pickle.loads(data)  # an exception may be pickled and not come back
    except Exception as error:
        text = text or f"its result cannot be pickled: {error}"
        data = pickle.dumps((False, None, text))
        if good:
            raise
    finally:
        name = os.path.join(os.environ["JOBGEN_RUN_DIR"], "result.pickle")
        with open(f"{name}.part", "wb") as file:
            file.write(data)
        os.replace(f"{name}.part", name)


if __name__ == "__main__":
    call_function(os.path.dirname(os.path.abspath(__file__)))
