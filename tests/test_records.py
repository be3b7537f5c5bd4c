"""Records behave as NamedTuples of typing do."""

import copy
import pickle

import pytest

from jobgen.errors import Position, Problem
from jobgen.spec.fields import Range

PLACE = Position("job.yaml", 3)


def test_a_record_is_a_tuple_with_names() -> None:
    assert PLACE == ("job.yaml", 3, 0)
    assert (PLACE.file, PLACE.line, PLACE.column) == tuple(PLACE)
    assert PLACE._asdict() == {"file": "job.yaml", "line": 3, "column": 0}
    assert (
        PLACE._replace(line=4)
        == Position(line=4, file="job.yaml")
        == Position._make(["job.yaml", 4])
    )
    assert repr(PLACE) == "Position(file='job.yaml', line=3, column=0)"
    match PLACE:
        case Position(file, line):
            assert (file, line) == ("job.yaml", 3)


def test_a_record_is_copied_and_pickled_as_what_it_is() -> None:
    problem = Problem(PLACE, "name", "is missing")
    for other in (copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert other == problem
        assert type(other) is Problem
        assert type(other.where) is Position


def test_a_record_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        PLACE.line = 4  # type: ignore[misc]
    with pytest.raises(AttributeError):
        PLACE.page = 4  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="each once"):
        PLACE._replace(page=1)


@pytest.mark.parametrize(
    ("values", "named", "words"),
    [
        ((), {}, "lacks file"),
        ((), {"line": 1}, "lacks file"),
        (("a",), {"file": "b"}, "each once"),
        (("a", 1, 2), {"file": "b"}, "each once"),
        (("a",), {"page": 1}, "each once"),
        (("a", 1, 2, 3), {}, "each once"),
    ],
)
def test_wrong_values_are_refused(values: tuple, named: dict, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        Position(*values, **named)


def test_none_and_false_are_values() -> None:
    assert Range(0, None) == (0, None)
