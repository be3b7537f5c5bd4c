"""Files, folders and file systems: missing, full, locked, forbidden, or too many."""

from __future__ import annotations

import os
import resource
import shutil
import sqlite3
import subprocess
from pathlib import Path

from program import RANK, main, planted, read_table, setup

read_table(__file__)


@planted("tar", "file-missing or exception", "0", "tar")
def unpack() -> None:
    subprocess.run(["tar", "xf", "shard-003.tar"], check=True)


@planted("megatron-data", "file-missing", "all", "text_document.idx", early=True, mode="pbs")
def open_index() -> None:
    Path("data/my-gpt2_text_document.idx").read_bytes()


@planted(
    "file-limit",
    "exception or no-space or quota",
    "0",
    "File too large",
    mode="local-direct",
    changes=setup("ulimit -f 64"),
)
def write_much() -> None:
    with open("model.bin", "wb") as stream:
        stream.write(bytes(1_000_000))


@planted("sql-locked", "exception", "1", "database is locked", mode="slurm")
def lock_database() -> None:
    one, two = (
        sqlite3.connect(f"study-{os.getpid()}.db", timeout=0.1, isolation_level=None) for _ in "12"
    )
    one.execute("create table trials (n)")
    one.execute("begin exclusive")
    two.execute("insert into trials values (1)")


@planted("rm-tree", "file-missing", "3", "scratch-9", mode="pbs-direct")
def remove_tree() -> None:
    shutil.rmtree("scratch-9")


@planted("dev-full", "no-space", "0", "No space left")
def write_to_full() -> None:
    with Path("/dev/full").open("w") as file:
        file.write("loss 0.3\n")


@planted(
    "folder-for-file", "exception or file-missing or permission", "0", "Is a directory", mode="pbs"
)
def write_to_folder() -> None:
    Path("last.ckpt").mkdir(exist_ok=True)
    Path("last.ckpt").write_bytes(b"0")


@planted("own-shards", "file-missing", "all", "shard-0000", early=True, mode="pbs-direct")
def open_own_shard() -> None:
    Path(f"/data/c4/shard-{RANK:05}.tar").read_bytes()


@planted("tokenizer-file", "file-missing or exception", "all", "os error 2", early=True)
def open_tokenizer() -> None:
    import tokenizers

    tokenizers.Tokenizer.from_file("tokenizer.json")


@planted("file-size-limit", "no-space or quota or exception or file-system", "0", "File too large")
def exceed_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    with Path(f"checkpoint-{RANK}.bin").open("wb") as file:
        file.write(bytes(1 << 21))


if __name__ == "__main__":
    main()
