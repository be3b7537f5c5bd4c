"""10,000 inputs, however malformed: an exit code that is documented, and never a traceback."""

import importlib.util
import sys

import pytest
from support import ROOT

pytestmark = pytest.mark.slow


def test_no_input_gives_a_traceback() -> None:
    """`benchmarks/fuzz.py` has the inputs and the rules; it can run more of them."""
    spec = importlib.util.spec_from_file_location("fuzz", ROOT / "benchmarks" / "fuzz.py")
    assert spec
    assert spec.loader
    fuzz = sys.modules["fuzz"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    broken, codes, longest = fuzz.run(10_000)
    assert "\n".join(map(str, broken)) == ""
    assert codes.total() == 10_000
    assert min(codes[code] for code in (0, 2, 3, 8)) >= 200  # it gets everywhere
    assert longest < 5  # seconds
