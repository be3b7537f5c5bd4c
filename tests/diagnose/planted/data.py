"""Data sets and their loaders: workers that die, files that are damaged, shards that lack."""

from __future__ import annotations

import csv
import gzip
import os
import pickle
import struct
import tempfile
from pathlib import Path

from program import complain, kill_self, main, make_error, planted, read_table

read_table(__file__)


def _refuse(batch: object) -> None:
    raise ValueError("cannot identify image file 'n01440764/1.jpeg'")


@planted("worker-killed", "data-loader", "2", "killed by signal", torch=True)
def kill_worker() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=2, collate_fn=lambda _: kill_self()))  # type: ignore[arg-type]


@planted("worker-raises", "exception", "3", "cannot identify image file", torch=True, mode="slurm")
def refuse_image() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=1, collate_fn=_refuse))  # type: ignore[arg-type]


@planted("worker-pickle", "exception", "all", "[Cc]an't pickle|cannot pickle", early=True)
def spawn_workers() -> None:
    pickle.dumps(lambda batch: batch)


@planted("no-data", "exception", "all", "ZeroDivisionError")
def divide() -> None:
    print(f"mean loss: {0 / len(list(Path('.').glob('*.parquet')))}")


@planted("datasets-json", "exception or damaged-file", "0", "JSON parse error|generating")
def generate_dataset() -> None:
    arrow = make_error("ArrowInvalid", "pyarrow.lib")
    generation = make_error("DatasetGenerationError", "datasets.exceptions")
    complain("\rGenerating train split: 1200 examples [00:01, 900 examples/s]")
    try:
        raise arrow("JSON parse error: Missing a comma or '}' after an object member. in row 0")
    except arrow as error:
        raise generation("An error occurred while generating the dataset") from error


@planted("unicode", "exception or damaged-file", "2", "UnicodeDecodeError", mode="local")
def read_latin() -> None:
    b"caf\xe9 au lait".decode()


@planted("loader-leaves", "data-loader or exception", "1", "exited unexpectedly", torch=True)
def lose_loader() -> None:
    from torch.utils.data import DataLoader

    list(DataLoader(range(8), num_workers=1, collate_fn=lambda _: os._exit(1)))  # type: ignore[arg-type]


@planted("csv-field", "exception or damaged-file", "2", "field larger")
def read_csv() -> None:
    next(csv.reader(["x" * 200_000]))


@planted("short-record", "exception or damaged-file", "3", "unpack requires", mode="pbs-direct")
def read_record() -> None:
    struct.unpack("<q", b"1234")


@planted("no-gzip", "damaged-file or exception", "0", "gzipped")
def read_gzip() -> None:
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(b"<html>404</html>")
        gzip.decompress(Path(file.name).read_bytes())


@planted("loader-exited", "data-loader", "2", "exited unexpectedly")
def find_loader_gone() -> None:
    try:
        raise make_error("Empty", "_queue")
    except Exception as error:
        raise RuntimeError("DataLoader worker (pid(s) 4711, 4712) exited unexpectedly") from error


if __name__ == "__main__":
    main()
