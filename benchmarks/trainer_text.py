"""How much memory does it take to make a large text tokens, with each kind of tokenizer?

A text of 1 GB is written, and `prepare` run on it in a process of its own for each tokenizer: the
text's characters, bytes, an encoding of tiktoken. The last one is made here, of 8,000 tokens
learned from Python's manual and with GPT-2's way to cut words: nothing is fetched.

    python benchmarks/trainer_text.py [--megabytes 1000] [--only byte]

Exit status 1 when one holds 500 MB or more at any time.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
MOST = 500  # MB
VOCABULARY = 8000
# How GPT-2 cuts a text into words.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def write_text(path: Path, megabytes: int) -> None:
    """Write Python's manual again and again, each line with another number."""
    from pydoc_data.topics import topics

    lines = "\n".join(topics[name] for name in sorted(topics)).splitlines()
    written = number = 0
    with path.open("w") as stream:
        while written < megabytes * 10**6:
            for line in lines:
                written += stream.write(f"{line} {number * 7919 % 1000003}\n")
                number += 1


def make_tokenizer(folder: Path) -> None:
    """Train a tokenizer as GPT-2's, and save it."""
    from pydoc_data.topics import topics

    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    coder = ByteLevelBPETokenizer()
    coder.train_from_iterator(
        topics.values(), VOCABULARY, show_progress=False, special_tokens=["<|endoftext|>"]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=coder._tokenizer, eos_token="<|endoftext|>")
    fast.save_pretrained(folder)


def describe_encoding(folder: Path) -> dict[str, Any]:
    """Return the same as an encoding of tiktoken."""

    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    # GPT-2 writes bytes as characters: the printable ones as they are, others from U+0100 on.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    bytes_of = {chr(byte): byte for byte in plain}
    bytes_of |= {chr(256 + place): byte for place, byte in enumerate(others)}
    ranks = {bytes([byte]): byte for byte in range(256)}
    for merge in model["merges"]:
        both = "".join(merge if isinstance(merge, list) else merge.split(" "))
        ranks.setdefault(bytes(bytes_of[each] for each in both), len(ranks))
    special = {"<|endoftext|>": len(ranks)}
    return {
        "name": "manual",
        "pat_str": PATTERN,
        "mergeable_ranks": ranks,
        "special_tokens": special,
    }


def prepare(folder: Path, tokenizer: str) -> None:
    """Be the process that makes tokens; print the most memory it has held, kB."""
    if tokenizer.startswith("tiktoken"):
        from tiktoken import registry

        registry.ENCODING_CONSTRUCTORS = {"manual": lambda: describe_encoding(folder / "model")}
    from jobgen.trainer import __main__

    sys.argv[1:] = ["prepare", "--data", str(folder / "text"), "--tokenizer", tokenizer]
    sys.argv += ["--tokens", str(folder / "tokens"), "--out", str(folder / "run")]
    status = __main__.main()
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert found
    print(f"\n{found[1]}", flush=True)
    os._exit(status)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--only", metavar="TOKENIZER", help="char, byte or tiktoken")
    options = parser.parse_args()
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="trainer-text-") as name:
        folder = Path(name)
        write_text(folder / "text", options.megabytes)
        make_tokenizer(folder / "model")
        for tokenizer in ("char", "byte", "tiktoken:manual"):
            kind = tokenizer.partition(":")[0]
            if options.only not in (None, kind):
                continue
            began = time.monotonic()
            argv = [sys.executable, __file__, "--prepare", name, tokenizer]
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
            shutil.rmtree(folder / "tokens")
            held = int(done.stdout.split()[-1]) / 1000
            worst = max(worst, held)
            took = time.monotonic() - began
            print(f"{kind:9} {held:5.0f} MB, {took:5.0f} s for {options.megabytes} MB", flush=True)
    if worst >= MOST:
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--prepare"]:
        prepare(Path(sys.argv[2]), sys.argv[3])
    main()
