"""Scripts that people have, torn: of a line, words are dropped, doubled, cut or put before it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

WRAPPERS = (
    *("perf stat -e cycles", "strace -f", "nice", "time -v", "catchsegv", "srun", "mpirun -np"),
    *("env", "timeout 5", "numactl", "singularity exec", "conda run", "uv run", "python -m", "-c"),
    *("nohup", "exec", "bash", "bash -c", "ssh", "eval", "sudo", "cd &&", "A=", "!", "\\", "$A"),
    *(
        "torchrun",
        "accelerate launch",
        "export",
        "#SBATCH",
        "#PBS -l",
        "module",
        "source",
        "find .",
    ),
)


def tear(text: str, rng: random.Random) -> str:
    """Return a script with some lines torn."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        lines = text.split("\n")
        at = rng.choice([n for n, line in enumerate(lines) if line.strip()] or [0])
        lines[at] = rng.choice(_TEARS)(lines[at], rng)
        text = "\n".join(lines)
    return text


def _drop(line: str, rng: random.Random) -> str:
    words = line.split(" ")
    del words[rng.randrange(len(words))]
    return " ".join(words)


def _double(line: str, rng: random.Random) -> str:
    words = line.split(" ")
    at = rng.randrange(len(words))
    return " ".join([*words[:at], words[at], *words[at:]])


def _empty(line: str, rng: random.Random) -> str:
    """Leave an option or an assignment without its value."""
    values = [*re.finditer(r"(?<==)\S+|(?<=\s)(?<!\s\s)(?!-)\S+", line)]
    match = rng.choice(values) if values else None
    return line[: match.start()] + line[match.end() :] if match else line


def _wrap(line: str, rng: random.Random) -> str:
    blank = line[: len(line) - len(line.lstrip())]
    return f"{blank}{rng.choice(WRAPPERS)} {line.lstrip()}"


def _put(line: str, rng: random.Random) -> str:
    words = line.split(" ")
    words.insert(rng.randrange(len(words) + 1), rng.choice(WRAPPERS))
    return " ".join(words)


def _cut(line: str, rng: random.Random) -> str:
    return line[: rng.randrange(len(line) + 1)]


def _quote(line: str, rng: random.Random) -> str:
    return re.sub(r"\S+", lambda x: rng.choice((x[0], x[0], "''", '""')), line)


_TEARS: tuple[Callable[[str, random.Random], str], ...]
_TEARS = (_drop, _drop, _double, _empty, _empty, _wrap, _wrap, _put, _cut, _quote)
