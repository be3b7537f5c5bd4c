"""Durations and memory sizes."""

import contextlib
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobgen.spec.units import (
    DURATION,
    MEMORY,
    format_duration,
    format_ranges,
    format_time,
    parse_bytes,
    parse_clock,
    parse_duration,
    parse_memory,
    parse_ranges,
    split_memory,
)

DURATION_HINT = "is not a duration; write e.g. 04:00:00 or 4h"
MEMORY_HINT = "is not an amount of memory; write e.g. 180GB or 512MB"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2:00:00", 7200),
        ("10:00:00", 36_000),
        ("02:00:00", 7200),
        ("100:00:00", 360_000),
        ("00:00:01", 1),
        ("1-12:00:00", 129_600),
        ("4h", 14_400),
        ("90m", 5400),
        ("90s", 90),
        ("1d12h", 129_600),
        ("1d 12h", 129_600),
        ("1 h 30 m", 5400),
        ("010h", 36_000),
        ("30min", 1800),
        ("2 hours", 7200),
        ("1h30m", 5400),
        ("1 Day 6 HOURS", 108_000),
        ("90 mins", 5400),
        ("4H", 14_400),
    ],
)
def test_duration(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7200", "has no unit; write 2h if these are seconds, or 7200m"),
        ("10:00", "could be HH:MM or MM:SS; write 10h or 10m"),
        ("0:30", "could be HH:MM or MM:SS; write 30m or 30s"),
        ("0:00", "is not a duration; write e.g. 04:00:00 or 4h"),
        ("1:60:00", "has minutes or seconds over 59; write 2h"),
        ("1:00:60", "has minutes or seconds over 59; write 1h1m"),
        ("0s", "is zero; write e.g. 04:00:00 or 4h"),
        ("00:00:00", "is zero; write e.g. 04:00:00 or 4h"),
        ("", DURATION_HINT),
        (" ", DURATION_HINT),
        ("4h30", DURATION_HINT),
        ("30m4h", DURATION_HINT),
        ("1 2h", DURATION_HINT),  # no twelve hours
        ("1.5h", "has a fraction; write 90m"),
        ("-4h", DURATION_HINT),
        ("4h\n", DURATION_HINT),
        ("٤h", DURATION_HINT),  # an Arabic digit, which int() would take
        ("1234567890h", DURATION_HINT),
    ],
)
def test_no_duration(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "kib"),
    [
        ("180GB", 180 * 1024**2),
        ("180G", 180 * 1024**2),
        ("180 GiB", 180 * 1024**2),
        ("180gb", 180 * 1024**2),
        ("512MB", 512 * 1024),
        ("1.5TB", 1536 * 1024**2),
        ("1KB", 1),
        ("2P", 2 * 1024**4),
    ],
)
def test_memory(text: str, kib: int) -> None:
    assert parse_memory(text) == kib


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("180", "has no unit; write e.g. 180GB or 180MB"),
        ("0GB", "is zero; write e.g. 180GB"),
        ("0.5KB", "is not a whole number of KB; write e.g. 180GB"),
        ("", MEMORY_HINT),
        ("180B", MEMORY_HINT),
        (".5GB", MEMORY_HINT),
        ("-1GB", MEMORY_HINT),
        ("1e3GB", MEMORY_HINT),
        ("180GB\n", MEMORY_HINT),
        ("lots", MEMORY_HINT),
    ],
)
def test_no_memory(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_memory(text)


@pytest.mark.parametrize(
    ("kib", "printed"),
    [
        (180 * 1024**2, (180, "G")),
        (1536 * 1024**2, (1536, "G")),
        (2 * 1024**3, (2, "T")),
        (2 * 1024**4, (2048, "T")),  # no scheduler takes petabytes
        (1025, (1025, "K")),
    ],
)
def test_memory_is_printed_in_the_largest_unit_that_is_exact(
    kib: int, printed: tuple[int, str]
) -> None:
    assert split_memory(kib) == printed


@given(st.integers(1, 10**9 * 3600 - 1))
def test_a_duration_survives_printing(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(st.integers(1, 999_999_999))
def test_an_amount_of_memory_survives_printing(kib: int) -> None:
    assert parse_memory("{}{}".format(*split_memory(kib))) == kib


NEARLY = st.text(st.sampled_from("0123456789dhms:-. KMGTPiBb\n"), max_size=14) | st.text()


@pytest.mark.parametrize("parse", [parse_duration, parse_memory])
@given(text=NEARLY)
def test_text_is_a_positive_amount_or_a_value_error(parse: Callable[[str], int], text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse(text) > 0


def refusal(parse: Callable[[str], int], text: str) -> str:
    """Why a parser refuses a text; empty where it takes it."""
    try:
        parse(text)
    except ValueError as error:
        return str(error)
    return ""


DIGITS = st.from_regex(r"0|00|[0-9]{1,3}|[0-9]{8,10}|\d", fullmatch=True)
GAP = st.sampled_from(["", "", "", " ", "  "])
UNITS = st.lists(
    st.tuples(DIGITS, GAP, st.sampled_from([*"dhms", "H", ""]), GAP).map("".join), max_size=4
).map("".join)
CLOCK = st.from_regex(r"([0-9]{1,2}-)?[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", fullmatch=True)
AMOUNT = st.tuples(
    DIGITS,
    st.sampled_from(["", ".", ".0", ".5", ".25", ".1", ".001953125", ".0000000000"]),
    GAP,
    st.sampled_from([*"kKmGtPE", ""]),
    st.sampled_from(["", "b", "B", "iB", "i", "IB"]),
).map("".join)


@given(NEARLY | UNITS | CLOCK)
@example("4h\n")
def test_the_expression_for_durations_takes_what_the_parser_takes(text: str) -> None:
    assert bool(re.fullmatch(DURATION, text)) == (not refusal(parse_duration, text))


@given(NEARLY | AMOUNT)
@example("1\N{KELVIN SIGN}")
def test_the_expression_for_memory_takes_what_the_parser_takes(text: str) -> None:
    """But for fractions: whether 1.1GB is a whole number of KB is arithmetic."""
    why = refusal(parse_memory, text)
    fraction = "whole number of KB" in why and text.strip("bBiI ")[-1] not in "kK"
    assert bool(re.fullmatch(MEMORY, text)) == (
        not why or (fraction and bool(re.search("[1-9]", text)))
    )


def test_ranges_are_read_and_written_in_one_form():
    assert format_ranges([0, 1, 2, 5]) == "0-2,5"
    assert format_ranges([7], separator=", ") == "7"
    assert format_ranges([0, 2, 4, 6, 8], most=4) == "0,2,4,6,..."
    assert parse_ranges("0-2,5") == [0, 1, 2, 5]
    assert parse_ranges("1-9:4, 3") == [1, 5, 9, 3]
    for text in ("", "1-", "a", "3--4", "1-9:0", "0-99999999"):
        with pytest.raises(ValueError, match="numbers"):
            parse_ranges(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-02:03:04", 93784), ("02:03:04", 7384), ("03:04.5", 184.5), ("UNLIMITED", None)],
)
def test_clocks_of_schedulers_are_read(text, seconds):
    assert parse_clock(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("42", 42), ("1234K", 1263616), ("4Mn", 4194304), ("12gb", 12884901888), ("many", None)],
)
def test_amounts_of_schedulers_are_read_as_bytes(text, size):
    assert parse_bytes(text) == size


def test_a_duration_is_written_in_the_shortest_form_that_a_spec_takes():
    for text in ("5h", "90m", "1h30m", "45s"):
        written = format_time(parse_duration(text))
        assert parse_duration(written) == parse_duration(text)
    assert [format_time(seconds) for seconds in (18000, 5445, 0)] == ["5h", "1h30m45s", "0s"]
