"""Text made tokens: what is written, what is read back, and what is refused."""

import json
import os
import subprocess
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
from jobgen.trainer.text import source  # noqa: E402
from jobgen.trainer.text.manifest import verify_folder  # noqa: E402
from jobgen.trainer.text.preparation import make_tokens, prepare_text  # noqa: E402
from jobgen.trainer.text.source import Source  # noqa: E402
from jobgen.trainer.text.tokens import (  # noqa: E402
    Mixture,
    Tokens,
    count_targets,
    place_window,
    stack_items,
)

from .conftest import ROOT  # noqa: E402

TEXT = "über Ж and ß, 𝄞 too.\n" * 50


def written(folder: Path, text: str = TEXT, name: str = "text") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8", newline="")
    return str(folder / name)


def open_folder(folder: Path, context: int, val_items: int = 192) -> Tokens:
    return Tokens(folder, context, val_items=val_items)


def made(
    tmp_path: Path, tokenizer: str = "char", *, shard: int = 10**6, context: int = 8
) -> Tokens:
    make_tokens(Source(written(tmp_path)), tokenizer, tmp_path / "tokens", shard_tokens=shard)
    return open_folder(tmp_path / "tokens", context)


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_the_tokens_are_the_text(tokenizer: str, tmp_path: Path) -> None:
    tokens = made(tmp_path, tokenizer)
    windows = tokens.train_items + tokens.val_items
    read = [int(token) for window in range(windows) for token in tokens.read_window(window)]
    text = TEXT.encode()[: len(read)].decode(errors="replace")
    assert tokens.tokenizer.decode(read) == (text if tokenizer == "byte" else TEXT[: len(read)])


def test_a_window_is_one_piece_of_32_bit_numbers(tmp_path: Path) -> None:
    """A quarter of the bytes that inputs and targets of 64 bits would be, to be cut on the GPU."""
    tokens = made(tmp_path)
    windows = stack_items(tokens, [2, 0], training=True)
    assert windows.is_contiguous()
    assert windows.dtype == torch.int32
    assert windows.shape == (2, 9)
    assert tokens.tokenizer.decode(windows[0].tolist()) == TEXT[18:27]
    inputs_and_targets = 2 * (2 * 8 * 8)
    assert windows.nbytes / inputs_and_targets < 0.3


@pytest.mark.parametrize("windows", [1, 99, 100, 101, 199, 200, 1000, 12345])
@pytest.mark.parametrize("wanted", [0, 1, 7, 192])
def test_every_window_is_trained_on_or_validates_and_few_do(windows: int, wanted: int) -> None:
    val = min(windows // 100, wanted)
    places = [
        place_window(item, windows=windows, val=val, training=training)
        for training, count in ((False, val), (True, windows - val))
        for item in range(count)
    ]
    assert sorted(places) == list(range(windows))
    if val > 1:  # evenly over the text
        assert max(b - a for a, b in pairwise(places[:val])) == windows // val


def test_a_hundredth_at_most_is_withheld_and_no_more_than_is_wanted(tmp_path: Path) -> None:
    text = "word " * 2000
    make_tokens(Source(written(tmp_path, text)), "byte", tmp_path / "tokens")  # 1,111 windows
    kept = [open_folder(tmp_path / "tokens", 8, wanted).val_items for wanted in (192, 5, 0)]
    assert kept == [11, 5, 0]


@pytest.mark.parametrize("shard", [10**6, 100, 97, 9])
def test_an_epoch_reads_no_token_twice_however_the_files_are_cut(
    shard: int, tmp_path: Path
) -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 1050)))  # so a token is its own place
    make_tokens(Source(written(tmp_path, text)), "char", tmp_path / "t", shard_tokens=shard)
    tokens = open_folder(tmp_path / "t", 8)
    windows = [tokens.read_window(number).tolist() for number in range(tokens.windows)]
    assert {len(window) for window in windows} == {9}
    assert all(window == list(range(window[0], window[0] + 9)) for window in windows)
    starts = [window[0] for window in windows]
    assert all(later - earlier >= 9 for earlier, later in pairwise(starts))
    # At the end of each file, less than one window is left.
    files = len(list((tmp_path / "t").glob("tokens-*.bin")))
    assert 1050 - 9 * len(starts) < 9 * files


def test_the_first_preparation_is_kept_and_another_text_refused(tmp_path: Path) -> None:
    def prepared(*flags: str) -> str | None:
        config = parse_flags(["--out", str(tmp_path), *flags])
        return prepare_text(config, tokenizer="char", fetch=False)

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
        return prepare_text(config, tokenizer="char", fetch=False)

    with ThreadPoolExecutor(6) as threads:
        news = list(threads.map(prepare, range(6)))
    assert sum("20,000 tokens" in line for line in news if line) == 1
    assert sorted(path.name for path in (tmp_path / "at").iterdir()) == [".tokens.lock", "tokens"]


def test_an_interrupted_preparation_leaves_nothing_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Source.pieces

    def broken(self: Source) -> Iterator[source.Piece]:
        yield next(whole(self))
        raise KeyboardInterrupt

    text = Source(written(tmp_path))
    monkeypatch.setattr(Source, "pieces", broken)
    with pytest.raises(KeyboardInterrupt):
        make_tokens(text, "byte", tmp_path / "tokens")
    assert not (tmp_path / "tokens").exists()
    monkeypatch.undo()
    make_tokens(text, "byte", tmp_path / "tokens")
    assert not list(tmp_path.glob(".tmp-*"))
    verify_folder(tmp_path / "tokens")


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
        prepare_text(config, tokenizer="char", fetch=True)
    path.write_bytes(content[:-1])
    with pytest.raises(TrainerError, match="has 1049 bytes instead of 1050; remove"):
        open_folder(tmp_path / "tokens", 8)


def test_the_manifest_says_what_the_tokens_are(tmp_path: Path) -> None:
    made(tmp_path, shard=600)
    manifest = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    assert manifest["vocabulary"] == len(manifest["characters"]) == len(set(TEXT))
    assert (manifest["tokenizer"], manifest["dtype"], manifest["tokens"]) == ("char", "|u1", 1050)
    assert [shard["tokens"] for shard in manifest["shards"]] == [600, 450]


def test_a_text_in_pieces_is_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, TEXT.replace("\n", "\r\n") + "no end of line")
    for size in (1, 7, 4096):
        monkeypatch.setattr(source, "_PIECE", size)
        pieces = list(Source(path).pieces())
        assert "".join(piece.text for piece in pieces).encode() == Path(path).read_bytes()
        assert [piece.ends for piece in pieces] == [False] * (len(pieces) - 1) + [True]


def test_documents_end_with_the_token_for_it(tmp_path: Path) -> None:
    written(tmp_path / "texts", '{"text": "one"}\n{"text": "two", "id": 2}\n', "a.jsonl")
    written(tmp_path / "texts", "three", "b.txt")
    written(tmp_path / "texts", "not a text", "c.csv")
    texts = Source(str(tmp_path / "texts"))
    make_tokens(texts, "byte", tmp_path / "tokens")
    tokens = list((tmp_path / "tokens" / "tokens-00000.bin").read_bytes())
    assert tokens[::2] == [*b"one", 0, *b"two", 0, *b"three", 0]
    assert tokens[1::2] == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]  # 256 in two bytes


def test_the_text_inside_python_needs_no_file(tmp_path: Path) -> None:
    make_tokens(Source(None), "char", tmp_path / "tokens")
    tokens = open_folder(tmp_path / "tokens", 64)
    assert tokens.train_items > 300_000 / 65 * 0.98
    assert "assert" in tokens.tokenizer.decode(tokens.read_window(0).tolist())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "No such file"),
        ("empty", "no text in it"),
        ("binary", r"not UTF-8 text \(byte 2\)"),
        ("folder", r"no .txt, .jsonl or .bin file"),
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
        make_tokens(Source(str(tmp_path / name)), tokenizer, tmp_path / "tokens")


def test_a_text_shorter_than_a_sequence_is_refused_and_leaves_no_tokens(tmp_path: Path) -> None:
    text, refused = Source(written(tmp_path)), "has 1050 tokens, less than one sequence of 1050"
    with pytest.raises(TrainerError, match=refused):
        make_tokens(text, "char", tmp_path / "tokens", context=1050)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    make_tokens(text, "char", tmp_path / "tokens", context=1049)
    with pytest.raises(TrainerError, match=refused):
        open_folder(tmp_path / "tokens", 1050)


def test_a_prompt_that_the_text_has_no_characters_for_is_refused(tmp_path: Path) -> None:
    coder = made(tmp_path).tokenizer
    for character in "Q🙂":
        with pytest.raises(TrainerError, match=f"the character '{character}' is not in the text"):
            coder.encode([f"too {character}"])


@pytest.mark.parametrize("name", ["words", "tiktoken", "hf:", "tiktoken:absent-encoding"])
def test_an_unknown_tokenizer_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=f"--tokenizer {name}|pip install tiktoken"):
        make_tokens(Source(written(tmp_path)), name, tmp_path / "tokens")


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
    tokens = made(tmp_path, "tiktoken:pairs")
    assert tokens.vocabulary == 258
    read = [int(token) for number in range(100) for token in tokens.read_window(number)]
    assert 256 in read
    assert TEXT.startswith(tokens.tokenizer.decode(read[:-1]))


def test_the_tokenizer_of_a_model_is_kept_with_its_tokens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["<end>", "?", "über", "Ж", "and"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=model, eos_token="<end>")
    fast.save_pretrained(tmp_path / "model")
    make_tokens(Source(written(tmp_path)), f"hf:{tmp_path / 'model'}", tmp_path / "tokens")
    (tmp_path / "model").rename(tmp_path / "moved")
    tokens = open_folder(tmp_path / "tokens", 8)
    assert tokens.tokenizer.end == 0
    assert tokens.read_window(0).tolist()[:3] == [2, 3, 4]
    assert tokens.tokenizer.decode([2, 3, 4]) == "über Ж and"


def test_a_data_set_of_the_hub_is_read_row_by_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a module that stands for `datasets`, which is large."""

    def load_dataset(name: str, configuration: str | None, *, split: str) -> list[dict[str, str]]:
        assert configuration in ("small", "other")
        assert split == "train"
        if name != "me/stories":
            raise FileNotFoundError(f"{name} is not in the cache")
        if configuration == "other":
            return [{"words": "one"}]
        return [{"text": "one", "id": "1"}, {"text": "two", "id": "2"}]

    monkeypatch.setitem(sys.modules, "datasets", types.SimpleNamespace(load_dataset=load_dataset))
    pieces = list(Source("hf:me/stories:small").pieces())
    assert pieces == [source.Piece("one", True), source.Piece("two", True)]
    with pytest.raises(
        TrainerError, match="--data hf:me/others:small: me/others is not in the cac"
    ):
        list(Source("hf:me/others:small").pieces())
    with pytest.raises(TrainerError, match=r"no column `text`.*, but words"):
        list(Source("hf:me/stories:other").pieces())


@pytest.mark.parametrize(("fetch", "offline"), [(False, "1"), (True, "0")])
def test_only_prepare_lets_hugging_face_use_the_network(
    fetch: bool, offline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    config = parse_flags(["--out", str(tmp_path), "--data", written(tmp_path)])
    prepare_text(config, tokenizer="byte", fetch=fetch)
    assert os.environ["HF_HUB_OFFLINE"] == offline


def test_a_text_of_the_same_size_and_time_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = written(tmp_path)
    config = parse_flags(["--out", str(tmp_path), "--data", text])
    prepare_text(config, tokenizer="char", fetch=False)
    reads: list[str] = []
    monkeypatch.setattr(Source, "facts", lambda self: reads.append(str(self.data)))
    assert prepare_text(config, tokenizer="char", fetch=False) is None
    assert reads == []
    monkeypatch.undo()
    os.utime(text, ns=(1, 1))  # the same text all the same
    assert prepare_text(config, tokenizer="char", fetch=False) is None
    Path(text).write_text(TEXT[::-1], encoding="utf-8")
    with pytest.raises(TrainerError, match="holds the tokens of"):
        prepare_text(config, tokenizer="char", fetch=False)


def test_of_prompts_and_completions_only_completions_are_learnt(tmp_path: Path) -> None:
    rows = [{"prompt": "two and two", "completion": " is four"}, {"prompt": "", "completion": "so"}]
    text = "\n".join(map(json.dumps, rows))
    make_tokens(
        Source(written(tmp_path, text, "chat.jsonl")), "byte", tmp_path / "t", shard_tokens=13
    )
    tokens = Tokens(tmp_path / "t", 9, val_items=0)  # a window of ten in 13 tokens, one in 10
    first, second = stack_items(tokens, [0, 1], training=True).tolist()
    assert [~token for token in first] == list(b"two and tw"), "all of the prompt"
    assert second == [*b"s four", 256, *b"so", 256]
    assert count_targets(tokens, [0], training=True) == 0
    assert count_targets(tokens, [0, 1], training=True) == 9
    verify_folder(tmp_path / "t")
    mask = tmp_path / "t" / "masks-00000.bin"
    assert mask.read_bytes() == bytes(11) + bytes([1, 1])
    assert not (tmp_path / "t" / "masks-00001.bin").exists(), "where all are learnt"
    mask.write_bytes(bytes(13))
    with pytest.raises(TrainerError, match=r"masks-00000.bin has changed"):
        verify_folder(tmp_path / "t")


def test_tokens_that_others_have_made_are_used_where_they_lie(tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    plain = np.arange(200, dtype="<u2")
    (tmp_path / "made").mkdir()
    plain.tofile(tmp_path / "made" / "a.bin")
    header = np.zeros(256, dtype="<i4")
    header[0] = 20240520  # llm.c's
    (tmp_path / "made" / "b.bin").write_bytes(header.tobytes() + plain[::-1].tobytes())
    make_tokens(Source(str(tmp_path / "made")), "byte", tmp_path / "t")
    tokens = open_folder(tmp_path / "t", 99)
    assert [tokens.read_window(number)[0] for number in range(4)] == [0, 100, 199, 99]
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["manifest.json"]
    with pytest.raises(TrainerError, match="say with --tokenizer what these tokens"):
        make_tokens(Source(str(tmp_path / "made" / "a.bin")), "char", tmp_path / "other")
    (plain + 58).tofile(tmp_path / "made" / "c.bin")
    with pytest.raises(TrainerError, match="token 257 is not in the vocabulary of 257"):
        make_tokens(Source(str(tmp_path / "made" / "c.bin")), "byte", tmp_path / "other")


def test_a_data_set_on_disk_may_hold_text_or_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a module that stands for `datasets`, which is large."""
    rows = {"texts": [{"text": "one"}], "tokens": [{"input_ids": [1, 2, 256]}]}

    def load_from_disk(folder: str) -> Any:
        return {"train": rows[Path(folder).name]}

    module = types.SimpleNamespace(load_from_disk=load_from_disk)
    monkeypatch.setitem(sys.modules, "datasets", module)
    for name, expected in (("texts", [*b"one", 256]), ("tokens", [1, 2, 256])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dataset_dict.json").touch()
        make_tokens(Source(str(tmp_path / name)), "byte", tmp_path / f"t-{name}")
        tokens = open_folder(tmp_path / f"t-{name}", len(expected) - 1)
        assert tokens.read_window(0).tolist() == expected


def test_a_mixture_has_the_windows_of_all_its_folders(tmp_path: Path) -> None:
    for name in "ab":
        text = written(tmp_path, name * 1800, name)
        make_tokens(Source(text), "byte", tmp_path / f"t-{name}")
    mix = (f"{tmp_path}/t-a=3", f"{tmp_path}/t-b=1")
    both = Mixture(mix, 8, val_items=4)
    assert both.parts() == [(198, 3), (199, 1)]
    assert both.val_items == 3, "two of the first, one of the second"
    assert stack_items(both, [0, 197, 198, 396], training=True)[:, 0].tolist() == [97, 97, 98, 98]
    assert stack_items(both, [0, 1, 2], training=False)[:, 0].tolist() == [97, 97, 98]
    make_tokens(Source(str(tmp_path / "a")), "char", tmp_path / "t-c")
    with pytest.raises(TrainerError, match="t-c was made with the tokenizer char"):
        Mixture((mix[0], f"{tmp_path}/t-c=1"), 8, val_items=4)
    with pytest.raises(TrainerError, match="not a folder of prepared tokens; `prepare` makes one"):
        Mixture((mix[0], f"{tmp_path}/absent=1"), 8, val_items=4)


# A process that was forked begins with the peak of its parent as ru_maxrss, but not as VmHWM.
MEMORY = r"""
import re, sys
from jobgen.trainer.text.preparation import make_tokens
from jobgen.trainer.text.source import Source
from pathlib import Path
make_tokens(Source(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
print(int(re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.torch
@pytest.mark.parametrize("tokenizer", ["char", "byte", "hf"])
def test_memory_does_not_grow_with_the_text(
    tokenizer: str, tiny_model: str, tmp_path: Path
) -> None:
    sizes = (2, 6) if tokenizer == "hf" else (4, 32)  # MB
    name = f"hf:{tiny_model}" if tokenizer == "hf" else tokenizer
    used = []
    for size in sizes:
        text = tmp_path / f"{size}.txt"
        with text.open("w") as stream:
            for number in range(size * 10):
                stream.write(f"line {number} of words that are many \n" * (100_000 // 36))
        argv = [sys.executable, "-c", MEMORY, str(text), name, str(tmp_path / f"t{size}")]
        done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=ROOT)
        used.append(int(done.stdout))
    assert used[1] - used[0] < 20, used
    assert used[1] < 500, used
