"""Scalars in TensorBoard's event files, read without TensorBoard.

jobgen is installed on login nodes without the packages of a training environment, so it has its own
reader. A record is its length (8 bytes), a checksum (4), a protocol buffer, and a checksum (4); of
the message (tensorflow/core/util/event.proto) only the time, the step and the scalars are read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from jobgen.jobs.files import open_left
from jobgen.records import NamedTuple

_MOST_BYTES = 256 << 20
_MOST_RECORD = 16 << 20  # images and histograms may be large; a damaged length is larger
_FIXED = {1: 8, 5: 4}  # bytes, by the kind of a field
Fields = dict[int, list[int | bytes]]


class EventScalar(NamedTuple):
    """One value of one tag."""

    time: float
    step: int
    tag: str
    value: float


def read_events(path: Path) -> Iterator[EventScalar]:
    """Yield the scalars of a file, up to the first record that is damaged or cut short."""
    with open_left(path) as file:
        try:
            for data in _read_records(file):
                yield from _read_event(_split(data))
        except (ValueError, LookupError, struct.error):
            return


def _read_records(file: BinaryIO) -> Iterator[bytes]:
    while file.tell() < _MOST_BYTES and len(head := file.read(12)) == 12:
        (length,) = struct.unpack("<Q", head[:8])
        if length > _MOST_RECORD:
            return
        data = file.read(length)
        if len(data) < length or len(file.read(4)) < 4:
            return
        yield data


def _read_event(event: Fields) -> Iterator[EventScalar]:
    (time,) = struct.unpack("<d", _get_bytes(event, 1) or bytes(8))
    step = event.get(2, [0])[-1]
    for value in _split(_get_bytes(event, 5)).get(1, []):
        fields = _split(value) if isinstance(value, bytes) else {}
        tag, data = _get_bytes(fields, 1).decode("utf-8", "replace"), _get_bytes(fields, 2)
        if tag and len(data) == 4 and isinstance(step, int):  # as `add_scalar` writes a number
            yield EventScalar(time, step, tag, float(struct.unpack("<f", data)[0]))


def _get_bytes(fields: Fields, number: int) -> bytes:
    value = fields.get(number, [b""])[-1]
    return value if isinstance(value, bytes) else b""


def _split(data: bytes) -> Fields:
    """Return the fields of a message by their numbers: integers, or bytes."""
    fields: Fields = {}
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _read_varint(data, at)
            fields.setdefault(number, []).append(value)
            continue
        length, at = _read_varint(data, at) if kind == 2 else (_FIXED[kind], at)
        if at + length > len(data):
            raise ValueError(length)
        fields.setdefault(number, []).append(data[at : at + length])
        at += length
    return fields


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ValueError(value)
