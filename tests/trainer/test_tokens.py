"""Text made tokens: what is written, what is read back, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from late import import_late

from jobgen.trainer.config import TrainerError
from jobgen.trainer.flags import parse_flags
from jobgen.trainer.text.source import read_pieces

from .conftest import ROOT

if TYPE_CHECKING:
    import torch

    from jobgen.trainer.text import preparation, source
    from jobgen.trainer.text.preparation import prepare_text
    from jobgen.trainer.text.tokens import Tokens, find_window

__all__ = ["import_late"]

TEXT = "über Ж and ß, 𝄞 too.\n" * 50


def written(folder: Path, text: str = TEXT, name: str = "text") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return str(folder / name)


def prepare(out: Path, *flags: str, fetch: bool = False) -> str | None:
    return prepare_text(parse_flags(["--out", str(out), *flags]), fetch=fetch)


def made(out: Path, *flags: str, text: str = TEXT, context: int = 8, val: int = 192) -> Tokens:
    prepare(out, "--data", written(out, text), *flags)
    return Tokens(out / "tokens", context, val_items=val)


def read_all(tokens: Tokens) -> list[int]:
    """Return the tokens of all windows, which are those of training if none validate."""
    return [int(x) for item in range(tokens.windows) for x in tokens.read_item(item, training=True)]


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_the_tokens_are_the_text(tokenizer: str, tmp_path: Path) -> None:
    tokens = made(tmp_path, "--tokenizer", tokenizer, val=0)
    read = read_all(tokens)
    text = TEXT.encode()[: len(read)].decode(errors="replace")
    assert tokens.tokenizer.decode(read) == (text if tokenizer == "byte" else TEXT[: len(read)])


def test_a_window_is_one_piece_of_32_bit_numbers(tmp_path: Path) -> None:
    """A quarter of the bytes that inputs and targets of 64 bits would be, to be cut on the GPU."""
    tokens = made(tmp_path)
    windows = tokens.stack_items([2, 0], training=True)
    assert windows.is_contiguous()
    assert windows.dtype == torch.int32
    assert windows.shape == (2, 9)
    assert tokens.tokenizer.decode(windows[0].tolist()) == TEXT[18:27]


@pytest.mark.parametrize("windows", [1, 99, 100, 101, 199, 200, 1000, 12345])
@pytest.mark.parametrize("wanted", [0, 1, 7, 192])
def test_every_window_is_trained_on_or_validates_and_few_do(windows: int, wanted: int) -> None:
    val = min(windows // 100, wanted)
    found = [
        find_window(item, windows=windows, val=val, training=training)
        for training, count in ((False, val), (True, windows - val))
        for item in range(count)
    ]
    assert sorted(found) == list(range(windows))
    if val > 1:  # evenly over the text
        assert max(b - a for a, b in pairwise(found[:val])) == windows // val


def test_a_hundredth_at_most_is_withheld_and_no_more_than_is_wanted(tmp_path: Path) -> None:
    made(tmp_path, "--tokenizer", "byte", text="word " * 2000)  # 1,111 windows
    kept = [Tokens(tmp_path / "tokens", 8, val_items=most).val_items for most in (192, 5, 0)]
    assert kept == [11, 5, 0]


def test_an_epoch_reads_no_token_twice(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 1050)))  # so a token is its own position
    read = read_all(made(tmp_path, text=text, val=0))
    assert read == list(range(1050 // 9 * 9))


def test_the_first_preparation_is_kept_and_another_text_refused(tmp_path: Path) -> None:
    text = written(tmp_path)
    assert "1,050 tokens of" in str(prepare(tmp_path, "--data", text))
    first = (tmp_path / "tokens" / "manifest.json").stat().st_mtime_ns
    assert prepare(tmp_path, "--data", text) is None
    assert prepare(tmp_path) is None  # what is there, whatever it is
    assert prepare(tmp_path, "--data", written(tmp_path / "elsewhere")) is None
    assert (tmp_path / "tokens" / "manifest.json").stat().st_mtime_ns == first
    with pytest.raises(TrainerError, match=r"holds the tokens of .*text, not of --data"):
        prepare(tmp_path, "--data", written(tmp_path, "another text", "other"))
    with pytest.raises(TrainerError, match="made with --tokenizer char, not with byte"):
        prepare(tmp_path, "--tokenizer", "byte")


def test_runs_that_share_tokens_and_start_at_once_prepare_them_once(tmp_path: Path) -> None:
    shared = ("--tokens", str(tmp_path / "at" / "tokens"))
    text = written(tmp_path, "abc " * 5000)
    with ThreadPoolExecutor(6) as threads:
        news = list(
            threads.map(lambda n: prepare(tmp_path / str(n), *shared, "--data", text), range(6))
        )
    assert sum("20,000 tokens" in line for line in news if line) == 1
    assert sorted(path.name for path in (tmp_path / "at").iterdir()) == [".tokens.lock", "tokens"]


def test_an_interrupted_preparation_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(data: str) -> Iterator[source.Piece]:
        yield next(read_pieces(data))
        raise KeyboardInterrupt

    flags = ("--tokenizer", "byte", "--data", written(tmp_path))
    monkeypatch.setattr(preparation, "read_pieces", broken)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path, *flags)
    assert not (tmp_path / "tokens").exists()
    monkeypatch.undo()
    prepare(tmp_path, *flags)
    assert not list(tmp_path.glob(".tmp-*"))
    assert "the files are whole" in str(prepare(tmp_path, *flags, fetch=True))


def test_a_changed_byte_is_found_by_prepare_and_a_missing_one_by_every_start(
    tmp_path: Path,
) -> None:
    made(tmp_path)
    path = tmp_path / "tokens" / "tokens.bin"
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    with pytest.raises(TrainerError, match=r"tokens.bin has changed since it was prepared"):
        prepare(tmp_path, fetch=True)
    path.write_bytes(content[:-1])
    with pytest.raises(TrainerError, match="has 1049 bytes instead of 1050; remove"):
        Tokens(tmp_path / "tokens", 8, val_items=0)


def test_the_manifest_says_what_the_tokens_are(tmp_path: Path) -> None:
    made(tmp_path)
    manifest = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    assert manifest["vocabulary"] == len(set(TEXT))
    assert (manifest["tokenizer"], manifest["dtype"], manifest["tokens"]) == ("char", "|u1", 1050)
    assert list(manifest["files"]) == ["tokens.bin"]


def test_a_text_in_pieces_is_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TEXT.replace("\n", "\r\n") + "no end of line")
    for size in (1, 7, 4096):
        monkeypatch.setattr(source, "_PIECE", size)
        pieces = list(read_pieces(path))
        assert "".join(piece.text for piece in pieces).encode() == Path(path).read_bytes()
        assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_documents_end_with_the_token_for_it(tmp_path: Path) -> None:
    written(tmp_path / "texts", '{"text": "one"}\n{"text": "two", "id": 2}\n', "a.jsonl")
    written(tmp_path / "texts", "three", "b.txt")
    written(tmp_path / "texts", "not a text", "c.csv")
    prepare(tmp_path, "--data", str(tmp_path / "texts"), "--tokenizer", "byte", "--context", "2")
    tokens = list((tmp_path / "tokens" / "tokens.bin").read_bytes())
    assert tokens[::2] == [*b"one", 0, *b"two", 0, *b"three", 0]
    assert tokens[1::2] == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]  # 256 in two bytes


def test_the_text_inside_python_needs_no_file(tmp_path: Path) -> None:
    prepare(tmp_path)
    tokens = Tokens(tmp_path / "tokens", 64, val_items=0)
    assert tokens.train_items > 300_000 / 65
    assert "assert" in tokens.tokenizer.decode(tokens.read_item(0, training=True).tolist())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "No such file"),
        ("empty", "contains no text|has 0 tokens"),
        ("binary", r"not UTF-8 text \(unexpected end of data|not UTF-8 text \(invalid start"),
        ("folder", r"this folder has no .txt or .jsonl file"),
        ("bad.jsonl", r"bad.jsonl:2: write a JSON object with `text`, with `prompt` and `comp"),
        ("chat.jsonl", r"chat.jsonl:1: .* or with `messages`, each with `role` and `content`"),
    ],
)
@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_a_text_that_cannot_be_read_is_named(
    name: str, problem: str, tokenizer: str, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"ab\xff")
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.jsonl").write_text('{"text": "good"}\n{"txt": "bad"}\n')
    (tmp_path / "chat.jsonl").write_text('{"messages": [{"role": "user"}]}\n')
    with pytest.raises(TrainerError, match=problem):
        prepare(tmp_path, "--data", str(tmp_path / name), "--tokenizer", tokenizer)


def test_a_text_shorter_than_a_sequence_is_refused_and_leaves_no_tokens(tmp_path: Path) -> None:
    text, refused = written(tmp_path), "has 1050 tokens, fewer than one sequence of 1050"
    with pytest.raises(TrainerError, match=refused):
        prepare(tmp_path, "--data", text, "--context", "1050", "--batch-tokens", "1050")
    assert not (tmp_path / "tokens").exists()
    prepare(tmp_path, "--data", text, "--context", "1049", "--batch-tokens", "1049")
    with pytest.raises(TrainerError, match=refused):
        Tokens(tmp_path / "tokens", 1050, val_items=0)


def test_a_prompt_that_the_text_has_no_characters_for_is_refused(tmp_path: Path) -> None:
    coder = made(tmp_path).tokenizer
    for character in "Q🙂":
        with pytest.raises(TrainerError, match=f"the character '{character}' is not in the text"):
            coder.encode([f"too {character}"])


@pytest.mark.parametrize("name", ["words", "tiktoken", "tiktoken:absent-encoding"])
def test_an_unknown_tokenizer_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=f"--tokenizer {name}|pip install tiktoken"):
        prepare(tmp_path, "--data", written(tmp_path), "--tokenizer", name, fetch=True)


@pytest.mark.slow
def test_tiktoken_is_fetched_by_prepare_and_kept_with_the_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an encoding of the test: tiktoken would fetch those that it knows."""
    registry = pytest.importorskip("tiktoken.registry")

    def pairs() -> dict[str, Any]:
        ranks = {bytes([byte]): byte for byte in range(256)} | {b"to": 256}
        return {
            "name": "pairs",
            "pat_str": r"\S+|\s",
            "mergeable_ranks": ranks,
            "special_tokens": {"<|endoftext|>": 257},
        }

    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", {"pairs": pairs})
    flags = ("--data", written(tmp_path), "--tokenizer", "tiktoken:pairs")
    with pytest.raises(TrainerError, match=r"is fetched from the network: run .* prepare` with"):
        prepare(tmp_path, *flags)
    prepare(tmp_path, *flags, fetch=True)
    assert prepare(tmp_path, *flags) is None
    # A compute node: nothing can be looked up, and nothing need be.
    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", {})
    monkeypatch.setattr(registry, "ENCODINGS", {})
    tokens = Tokens(tmp_path / "tokens", 8, val_items=0)
    assert (tokens.vocabulary, tokens.end, tokens.tokenizer.end) == (258, 257, 257)
    read = read_all(tokens)[:900]
    assert 256 in read
    assert TEXT.startswith(tokens.tokenizer.decode(read[:-1]))
    assert tokens.tokenizer.encode(["too"])[0].tolist() == [256, ord("o")]


def test_a_text_of_the_same_size_and_time_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(tmp_path)
    prepare(tmp_path, "--data", text)
    reads: list[str] = []
    monkeypatch.setattr(preparation, "describe_source", reads.append)
    assert prepare(tmp_path, "--data", text) is None
    assert reads == []
    monkeypatch.undo()
    os.utime(text, ns=(1, 1))  # the same text all the same
    assert prepare(tmp_path, "--data", text) is None
    Path(text).write_text(TEXT[::-1], encoding="utf-8")
    with pytest.raises(TrainerError, match="holds the tokens of"):
        prepare(tmp_path, "--data", text)


def test_of_prompts_and_completions_only_completions_are_targets(tmp_path: Path) -> None:
    rows = [{"prompt": "two and two", "completion": " is four"}, {"prompt": "", "completion": "so"}]
    text = written(tmp_path, "\n".join(map(json.dumps, rows)), "chat.jsonl")
    prepare(tmp_path, "--data", text, "--tokenizer", "byte", "--context", "9", *BATCH)
    tokens = Tokens(tmp_path / "tokens", 9, val_items=0)
    first, second = tokens.stack_items([0, 1], training=True).tolist()
    assert [~token for token in first] == list(b"two and tw"), "all of the prompt"
    assert second == [~ord("o"), *b" is four", 256]
    mask = tmp_path / "tokens" / "targets.bin"
    assert mask.read_bytes() == bytes(11) + bytes([1]) * 12
    mask.write_bytes(bytes(23))
    with pytest.raises(TrainerError, match=r"targets.bin has changed"):
        prepare(tmp_path, fetch=True)


BATCH = ("--batch-tokens", "9")


def test_of_a_chat_only_what_the_assistant_says_is_a_target(tmp_path: Path) -> None:
    turns = [("system", "be brief"), ("user", "hi"), ("assistant", "hello"), ("user", "bye")]
    chat = {"messages": [{"role": role, "content": content} for role, content in turns]}
    text = written(tmp_path, json.dumps(chat), "chat.jsonl")
    prepare(tmp_path, "--data", text, "--tokenizer", "byte", "--context", "9", *BATCH)
    whole = np_read(tmp_path / "tokens" / "tokens.bin")
    assert whole == [*b"".join(f"{r}:\n{c}\n\n".encode() for r, c in turns), 256]
    targets = (tmp_path / "tokens" / "targets.bin").read_bytes()
    assert bytes(token for token, on in zip(whole, targets, strict=True) if on) == b"hello\n\n"


def np_read(path: Path) -> list[int]:
    content = path.read_bytes()
    return [content[i] + 256 * content[i + 1] for i in range(0, len(content), 2)]


MEMORY = """
import re, sys
from pathlib import Path
from jobgen.trainer.flags import parse_flags
from jobgen.trainer.text.preparation import prepare_text
def read(key):
    status = Path("/proc/self/status").read_text()
    return int(re.search(key + r":\\s*(\\d+)", status)[1]) // 1000
Path("/proc/self/clear_refs").write_text("5")  # what importing torch takes differs by machine
before = read("VmRSS")
text, tokenizer, out = sys.argv[1:]
config = parse_flags(["--data", text, "--tokenizer", tokenizer, "--out", out])
prepare_text(config, fetch=False)
print(read("VmHWM") - before)
"""


@pytest.mark.torch
@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_memory_does_not_grow_with_the_text(tokenizer: str, tmp_path: Path) -> None:
    used = []
    for size in (4, 32):  # MB
        text = tmp_path / f"{size}.txt"
        with text.open("w") as stream:
            for number in range(size * 10):
                stream.write(f"line {number} of words that are many \n" * (100_000 // 36))
        argv = [sys.executable, "-c", MEMORY, str(text), tokenizer, str(tmp_path / f"t{size}")]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
        used.append(int(done.stdout))
    assert used[1] - used[0] < 20, used
    assert used[1] < 100, used
