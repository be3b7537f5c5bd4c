"""Text made tokens: what is written, what is read back, and what is refused."""

import json
import os
import sys
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the trainer needs torch")

from jobgen.trainer.config import TrainerError  # noqa: E402
from jobgen.trainer.flags import parse_flags  # noqa: E402
from jobgen.trainer.tasks.text import source as sources  # noqa: E402
from jobgen.trainer.tasks.text import task, tokens  # noqa: E402
from jobgen.trainer.tasks.text.source import Source  # noqa: E402
from jobgen.trainer.tasks.text.tokens import Tokens, window_of  # noqa: E402

TEXT = "über Ж and ß, 𝄞 too.\n" * 50


def written(folder: Path, text: str = TEXT, name: str = "text") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return str(folder / name)


def made(
    tmp_path: Path, tokenizer: str = "char", *, shard: int = 10**6, context: int = 8
) -> Tokens:
    tokens.make(Source(written(tmp_path)), tokenizer, tmp_path / "tokens", shard_tokens=shard)
    return Tokens(tmp_path / "tokens", context)


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_the_tokens_are_the_text(tokenizer: str, tmp_path: Path) -> None:
    found = made(tmp_path, tokenizer)
    windows = found.train_items + found.val_items
    read = [int(token) for window in range(windows) for token in found.window(window)]
    text = TEXT.encode()[: len(read)].decode(errors="replace")
    assert found.tokenizer.decode(read) == (text if tokenizer == "byte" else TEXT[: len(read)])


def test_targets_are_the_inputs_one_further(tmp_path: Path) -> None:
    found = made(tmp_path)
    inputs, targets = found.batch([2, 0], training=True)
    decode = found.tokenizer.decode
    assert decode(inputs[0].tolist()) == TEXT[18:26]
    assert decode(targets[0].tolist()) == TEXT[19:27]
    assert decode(targets[1].tolist()) == TEXT[1:9]
    assert inputs.dtype == targets.dtype == torch.int64


@pytest.mark.parametrize("windows", [10, 11, 19, 20, 1000])
def test_every_window_is_trained_on_or_validates(windows: int) -> None:
    validating = [window_of(item, training=False) for item in range(windows // 10)]
    training = [window_of(item, training=True) for item in range(windows - windows // 10)]
    assert sorted(training + validating) == list(range(windows))


@pytest.mark.parametrize("shard", [10**6, 100, 97, 9])
def test_an_epoch_reads_no_token_twice_however_the_files_are_cut(
    shard: int, tmp_path: Path
) -> None:
    found = made(tmp_path, shard=shard)
    windows = [found.window(number) for number in range(found.train_items + found.val_items)]
    starts = sorted(window.ctypes.data for window in windows)  # one byte a token: addresses
    assert {len(window) for window in windows} == {9}
    assert all(later - earlier >= 9 for earlier, later in pairwise(starts))
    # At the end of each file, less than one window is left.
    files = len(list((tmp_path / "tokens").glob("tokens-*.bin")))
    assert len(TEXT) - 9 * len(starts) < 9 * files


def test_the_first_preparation_is_kept_and_another_text_refused(tmp_path: Path) -> None:
    def prepared(*flags: str) -> str | None:
        config = parse_flags(["--out", str(tmp_path), *flags])
        return task.prepare_text(config, tokenizer="char", fetch=False)

    text = written(tmp_path)
    assert "1,050 tokens of" in str(prepared("--data", text))
    first = (tmp_path / "tokens" / "manifest.json").stat().st_mtime_ns
    assert prepared("--data", text) is None
    assert prepared() is None  # what is there, whatever it is
    moved = written(tmp_path / "elsewhere")
    assert prepared("--data", moved) is None
    assert (tmp_path / "tokens" / "manifest.json").stat().st_mtime_ns == first
    with pytest.raises(TrainerError, match=r"holds the tokens of .*text, not of --data"):
        prepared("--data", written(tmp_path, "another text", "other"))
    with pytest.raises(TrainerError, match="made with --tokenizer char, not with byte"):
        prepared("--tokenizer", "byte")


def test_runs_that_share_tokens_and_start_at_once_prepare_them_once(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("abc " * 5000)

    def prepare(number: int) -> str | None:
        flags = ["--out", str(tmp_path / str(number)), "--tokens", str(tmp_path / "at" / "tokens")]
        config = parse_flags([*flags, "--data", str(tmp_path / "text")])
        return task.prepare_text(config, tokenizer="char", fetch=False)

    with ThreadPoolExecutor(6) as threads:
        news = list(threads.map(prepare, range(6)))
    assert sum("20,000 tokens" in line for line in news if line) == 1
    assert sorted(path.name for path in (tmp_path / "at").iterdir()) == [".tokens.lock", "tokens"]


def test_an_interrupted_preparation_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Source.pieces

    def broken(self: Source) -> Iterator[sources.Piece]:
        yield next(whole(self))
        raise KeyboardInterrupt

    text = Source(written(tmp_path))
    monkeypatch.setattr(Source, "pieces", broken)
    with pytest.raises(KeyboardInterrupt):
        tokens.make(text, "byte", tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()
    monkeypatch.undo()
    tokens.make(text, "byte", tmp_path / "tokens")
    assert not list(tmp_path.glob(".tmp-*"))
    tokens.verify(tmp_path / "tokens")


def test_a_changed_byte_is_found_by_prepare_and_a_missing_one_by_every_start(
    tmp_path: Path,
) -> None:
    made(tmp_path)
    path = tmp_path / "tokens" / "tokens-00000.bin"
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    path.write_bytes(content)
    config = parse_flags(["--out", str(tmp_path)])
    with pytest.raises(TrainerError, match=r"tokens-00000.bin has changed since it was prepared"):
        task.prepare_text(config, tokenizer="char", fetch=True)
    path.write_bytes(content[:-1])
    with pytest.raises(TrainerError, match="has 1049 bytes instead of 1050; remove"):
        Tokens(tmp_path / "tokens", 8)


def test_the_manifest_says_what_the_tokens_are(tmp_path: Path) -> None:
    made(tmp_path, shard=600)
    manifest = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    assert manifest["vocabulary"] == len(manifest["characters"]) == len(set(TEXT))
    assert (manifest["tokenizer"], manifest["dtype"], manifest["tokens"]) == ("char", "|u1", 1050)
    assert [shard["tokens"] for shard in manifest["shards"]] == [600, 450]


def test_a_text_in_pieces_is_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TEXT.replace("\n", "\r\n") + "no end of line")
    for size in (1, 7, 4096):
        monkeypatch.setattr(sources, "_PIECE", size)
        pieces = list(Source(path).pieces())
        assert "".join(text for text, _ in pieces).encode() == Path(path).read_bytes()
        assert [ends for _, ends in pieces] == [False] * (len(pieces) - 1) + [True]


def test_documents_end_with_the_token_for_it(tmp_path: Path) -> None:
    written(tmp_path / "texts", '{"text": "one"}\n{"text": "two", "id": 2}\n', "a.jsonl")
    written(tmp_path / "texts", "three", "b.txt")
    written(tmp_path / "texts", "not a text", "c.csv")
    texts = Source(str(tmp_path / "texts"))
    tokens.make(texts, "byte", tmp_path / "tokens")
    found = list((tmp_path / "tokens" / "tokens-00000.bin").read_bytes())
    assert found[::2] == [*b"one", 0, *b"two", 0, *b"three", 0]
    assert found[1::2] == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]  # 256 in two bytes


def test_the_text_inside_python_needs_no_file(tmp_path: Path) -> None:
    tokens.make(Source(None), "char", tmp_path / "tokens")
    found = Tokens(tmp_path / "tokens", 64)
    assert found.train_items > 300_000 / 65 * 0.9
    assert "assert" in found.tokenizer.decode(found.window(0).tolist())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "No such file"),
        ("empty", "no text in it"),
        ("binary", r"not UTF-8 text \(byte 2\)"),
        ("folder", r"no .txt or .jsonl file"),
        ("bad.jsonl", r"bad.jsonl:2: not a JSON object with a field `text`"),
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
    with pytest.raises(TrainerError, match=problem):
        tokens.make(Source(str(tmp_path / name)), tokenizer, tmp_path / "tokens")


def test_a_text_shorter_than_ten_sequences_is_refused(tmp_path: Path) -> None:
    tokens.make(Source(written(tmp_path)), "char", tmp_path / "tokens")
    with pytest.raises(TrainerError, match="has 1050 tokens, less than ten sequences of 105"):
        Tokens(tmp_path / "tokens", 105)


def test_a_prompt_that_the_text_has_no_characters_for_is_refused(tmp_path: Path) -> None:
    coder = made(tmp_path).tokenizer
    for character in "Q🙂":
        with pytest.raises(TrainerError, match=f"the character '{character}' is not in the text"):
            coder.encode([f"too {character}"])


@pytest.mark.parametrize("name", ["words", "tiktoken", "hf:", "tiktoken:absent-encoding"])
def test_an_unknown_tokenizer_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=f"--tokenizer {name}|pip install tiktoken"):
        tokens.make(Source(written(tmp_path)), name, tmp_path / "tokens")


def test_tiktoken_makes_tokens_and_text_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an encoding of the test's own: tiktoken would fetch those it comes with."""
    registry = pytest.importorskip("tiktoken.registry")

    def pairs() -> dict[str, Any]:
        ranks = {bytes([byte]): byte for byte in range(256)} | {b"to": 256}
        return {
            "name": "pairs",
            "pat_str": r"\S+|\s",
            "mergeable_ranks": ranks,
            "special_tokens": {"<|endoftext|>": 257},
        }

    monkeypatch.setattr(registry, "ENCODING_CONSTRUCTORS", {"pairs": pairs})
    found = made(tmp_path, "tiktoken:pairs")
    assert found.vocabulary == 258
    read = [int(token) for number in range(100) for token in found.window(number)]
    assert 256 in read
    assert TEXT.startswith(found.tokenizer.decode(read[:-1]))


def test_the_tokenizer_of_a_model_is_kept_with_its_tokens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["<end>", "?", "über", "Ж", "and"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<end>")
    fast.save_pretrained(tmp_path / "model")
    tokens.make(Source(written(tmp_path)), f"hf:{tmp_path / 'model'}", tmp_path / "tokens")
    (tmp_path / "model").rename(tmp_path / "moved")
    found = Tokens(tmp_path / "tokens", 8)
    assert found.tokenizer.end == 0
    assert found.window(0).tolist()[:3] == [2, 3, 4]
    assert found.tokenizer.decode([2, 3, 4]) == "über Ж and"


def test_a_data_set_of_the_hub_is_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a module that stands for `datasets`, which is large."""

    class Rows(list[dict[str, str]]):
        column_names = ("text", "id")

    def load_dataset(name: str, configuration: str | None, *, split: str) -> Rows:
        assert (configuration, split) == ("small", "train")
        if name != "me/stories":
            raise FileNotFoundError(f"{name} is not in the cache")
        return Rows([{"text": "one", "id": "1"}, {"text": "two", "id": "2"}])

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    pieces = list(Source("hf:me/stories:small").pieces())
    assert pieces == [("one", True), ("two", True)]
    with pytest.raises(
        TrainerError, match="--data hf:me/others:small: me/others is not in the cac"
    ):
        list(Source("hf:me/others:small").pieces())
    Rows.column_names = ("words",)  # type: ignore[assignment]
    with pytest.raises(TrainerError, match="no column `text`, but words"):
        list(Source("hf:me/stories:small").pieces())


@pytest.mark.parametrize(("fetch", "offline"), [(False, "1"), (True, "0")])
def test_only_prepare_lets_hugging_face_use_the_network(
    fetch: bool, offline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    config = parse_flags(["--out", str(tmp_path), "--data", written(tmp_path)])
    task.prepare_text(config, tokenizer="byte", fetch=fetch)
    assert os.environ["HF_HUB_OFFLINE"] == offline
