"""2,000 inputs, however malformed: an exit code that is documented, and never a traceback."""

import pytest
from support import ROOT, load_program

pytestmark = pytest.mark.slow


def test_no_input_gives_a_traceback() -> None:
    """`benchmarks/fuzz.py` has the inputs and the rules; it can run more of them."""
    broken, codes, longest = load_program(ROOT / "benchmarks" / "fuzz.py").run(2_000)
    assert "\n".join(map(str, broken)) == ""
    assert codes.total() == 2_000
    assert min(codes[code] for code in (0, 2, 3, 8)) >= 75  # it gets everywhere
    assert longest < 5  # seconds
