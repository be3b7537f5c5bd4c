"""TensorBoard's event files, read without TensorBoard: records of one protocol buffer each.

A record is its length (8 bytes), a checksum (4), the message, and a checksum (4). Of a message
(tensorflow/core/util/event.proto) the time, the step and the scalars are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jobgen.jobs.record import open_left

_MOST_BYTES = 256 << 20
_MOST_RECORD = 16 << 20  # images and histograms may be large; a damaged length is larger
_FLOAT, _DOUBLE = 1, 2  # DataType, of tensorflow/core/framework/types.proto
Field = tuple[int, int | bytes]


class EventScalar(NamedTuple):
    """One value of one tag."""

    time: float
    step: int
    tag: str
    value: float


def read_events(path: Path) -> Iterator[EventScalar]:
    """Yield the scalars of a file, up to the first record that is damaged or cut short."""
    with open_left(path) as file:
        while file.tell() < _MOST_BYTES:
            head = file.read(12)
            if len(head) < 12:
                return
            (length,) = struct.unpack("<Q", head[:8])
            if length > _MOST_RECORD:
                return
            data = file.read(length)
            if len(data) < length or len(file.read(4)) < 4:
                return
            try:
                yield from _read_event(data)
            except (ValueError, IndexError, struct.error):
                return


def _read_event(data: bytes) -> Iterator[EventScalar]:
    time, step, summary = 0.0, 0, b""
    for number, value in _split(data):
        if number == 1 and isinstance(value, bytes):
            (time,) = struct.unpack("<d", value)
        elif number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            summary = value
    for number, value in _split(summary):
        if number == 1 and isinstance(value, bytes):
            tag, scalar = _read_value(value)
            if tag and scalar is not None:
                yield EventScalar(time, step, tag, scalar)


def _read_value(data: bytes) -> tuple[str, float | None]:
    """A value of a summary: its tag, and its number, if it is one."""
    tag, scalar = "", None
    for number, value in _split(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode("utf-8", "replace")
        elif number == 2 and len(value) == 4:
            (scalar,) = struct.unpack("<f", value)
        elif number == 8:
            scalar = _read_tensor(value)
    return tag, scalar


def _read_tensor(data: bytes) -> float | None:
    """A tensor of one element, as newer writers put a scalar."""
    kind, content = 0, b""
    for number, value in _split(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number in (4, 5, 6) and isinstance(value, bytes):  # content, float_val, double_val
            content = value
    if kind == _FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if kind == _DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _split(data: bytes) -> Iterator[Field]:
    """The fields of a message, numbers as such and all else as bytes."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _read_varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            length, at = _read_varint(data, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(kind)
        if at + length > len(data):
            raise ValueError(length)
        yield key >> 3, data[at : at + length]
        at += length


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise ValueError(value)
