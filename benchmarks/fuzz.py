"""No input may end in a traceback: specs, site profiles, scripts and command lines, mutated.

    python benchmarks/fuzz.py --inputs 100000            # and --seed N for others

The commands run in this process, in an empty folder; nothing is submitted. The same seed gives the
same inputs. What breaks the rules is printed with its number, its command line and its file, and
the exit code is 1. The tests run some 10,000 (`tests/test_fuzz.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "helpers")]

from spec_corpus import corpus

from jobgen.cli.main import main as jobgen
from jobgen.sites import search

SECONDS = 20  # after so long an input hangs

# What YAML and the shell read in ways of their own.
ODD = (
    """
~|null|yes|Off|.inf|-.nan|0o17|0x1F|0b1|1_000|1e400|-0|+1|190:20:30|2030-01-01T00:00:00Z|=|<<|*a|&a
&a [*a]|!!python/object:os.system|!!binary aGk=|!!set {a, b}|!local x|%YAML 1.1|---|...|? a|- a|: b
[[[[[[[[[[|}}}}|{a: {a: {a: {a: a}}}}|{? a : b}|[a, ]|{,}|'|"|"\\x00"|"\\ud800"|"\\U0010ffff"|@a|`a`
#|a #b|a: b: c|!|!!|*|&|>-|'''|"\\|$HOME|${HOME}|$(id)|`id`|$((1/0))|'$'|;|&&|<<EOF|\\|..|/|-|--
999999999999999999999999|-99999999999999999999|0.1e-400|1e3|1.5.2|00|007|1,5|٣|½|é|😀|a\u202eb
\ufeff|\u200b|\u00a0|\u2028|\x85|\x7f|\x00|\x1b[31m|\t|\r|\r\n|\n|  |%s|%(a)s|{0}|{{ a }}|{% if %}
""".strip("\n")
    .replace("\n", "|")
    .split("|")
)
WORDS = [
    *ODD,
    "name",
    "resources",
    "nodes",
    "run",
    "gpus_per_node",
    "4h",
    "8GB",
    "slurm",
    "site",
    "",
]
SAFE = [word for word in WORDS if "/" not in word and ".." not in word and "\0" not in word]
COMMANDS = {
    "spec": (
        "render",
        "explain",
        "explain --json",
        "check",
        "submit --dry-run",
        "explain --svg a.svg",
    ),
    "profile": ("sites test", "sites test --json", "render ../job.yaml --site mine"),
    "script": ("lint", "lint --json", "import", "check", "submit --dry-run --stale-ok"),
}
OPTIONS = (
    *("--json", "--site", "--scheduler", "--set", "--no-limits", "-o", "--out-dir", "--dry-run"),
    *("--svg", "--stale-ok", "--help", "--version", "--wait=", "-", "--", "-x", "--jso", "-h"),
)
VERBS = (
    *("render", "check", "explain", "lint", "import", "sites", "schema", "completion", "status"),
    *(
        "cancel",
        "nothing",
        "show",
        "test",
        "job",
        "bash",
        "submit --dry-run",
        "job.yaml",
        "a.sbatch",
    ),
)
# A line on stderr where a spec or profile is invalid: file:line:column, then what is wrong. There
# is no line where the whole file is meant, or a site that nobody knows.
_PLACE = {
    "spec": re.compile(r"(--set .+|job\.yaml|mine|nowhere)(:[1-9]\d*:[1-9]\d*)?: \S"),
    "profile": re.compile(r"((sites/|/\S+/)?mine\.yaml|good\.yaml)(:[1-9]\d*:[1-9]\d*)?: \S"),
    "script": re.compile(r"\S.*\.sbatch(:[1-9]\d*:[1-9]\d*)?: \S|--set .+: \S"),
    "words": re.compile(r".+: \S"),
}
_NOTE = re.compile(r"(note|warning): ")


class Broken(NamedTuple):
    """An input that breaks a rule."""

    number: int
    argv: list[str]
    content: bytes
    why: str

    def __str__(self) -> str:
        return f"input {self.number}: jobgen {self.argv!r}\n{self.content!r}\n{self.why}\n"


class HangsError(Exception):
    """The time for one input is over."""


def seeds() -> dict[str, list[bytes]]:
    """Files to begin with, by what they are."""
    specs = [text.encode() for text, _ in corpus()]
    specs += [path.read_bytes() for path in sorted(ROOT.glob("examples/*.yaml"))] * 20
    profiles = [path.read_bytes() for path in sorted(ROOT.glob("jobgen/sites/data/*.yaml"))]
    places = (
        "tests/batchscript/of_others/*",
        "tests/batchscript/faulty/*",
        "examples/*.sbatch",
        "examples/*.pbs",
    )
    scripts = [path.read_bytes() for place in places for path in sorted(ROOT.glob(place))]
    return {"spec": specs, "profile": profiles, "script": scripts}


def mutated(data: bytes, rng: random.Random) -> bytes:
    """`data` with some changes, of bytes, words or lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        data = rng.choice(MUTATIONS)(data, rng)
    return data[:60_000]


def _byte(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((0, 1, 1, 4))) + data[at + rng.randrange(3) :]


def _odd(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(WORDS).encode("utf-8", "surrogatepass") + data[at:]


def _token(data: bytes, rng: random.Random) -> bytes:
    tokens = list(re.finditer(rb"[^\s:,\[\]{}=]+", data)) or [re.search(b"", data)]
    token = rng.choice(tokens)
    assert token
    return data[: token.start()] + rng.choice(WORDS).encode() + data[token.end() :]


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    change = rng.randrange(4)
    if change == 0:
        lines[first], lines[second] = lines[second], lines[first]
    elif change == 1:
        del lines[first : first + 1 + rng.randrange(3)]
    elif change == 2:
        lines.insert(first, lines[second])
    else:
        lines[first] = b" " * rng.randrange(5) + lines[first].strip()
    return b"\n".join(lines)


def _cut(data: bytes, rng: random.Random) -> bytes:
    first, last = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return rng.choice(
        (data[:first], data[first:], data[:first] + data[last:], data[first:last] * 2)
    )


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(_byte, _odd, _odd, _token, _token, _token, _lines, _lines, _cut),
)


def inputs(count: int, seed: int) -> Iterator[tuple[str, list[str], bytes]]:
    """What is put in: its kind, the command line, and the content of the file that it names."""
    begin = seeds()
    sites = [*search.list_names(), "nowhere", "mine"]
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = rng.choice(("spec", "spec", "spec", "profile", "script", "script", "words"))
        if kind == "words":
            argv = [word for _ in range(rng.randrange(1, 6)) for word in _word(rng)]
            yield kind, argv, mutated(rng.choice(begin["spec"]), rng)
            continue
        content = mutated(rng.choice(begin[kind]), rng)
        if rng.random() < 0.05:
            content = rng.randbytes(rng.randrange(200))
        elif rng.random() < 0.05:
            content = " ".join(rng.choices(WORDS, k=rng.randrange(20))).encode()
        argv = rng.choice(COMMANDS[kind]).split()
        if kind == "spec" and argv[0] != "check":
            if rng.random() < 0.5:
                argv += ["--site", rng.choice(sites)]
            elif rng.random() < 0.5:
                argv += ["--scheduler", rng.choice(("slurm", "pbs", "local"))]
            if rng.random() < 0.2:
                argv += ["--set", f"{rng.choice(WORDS)}={rng.choice(WORDS)}"]
            if rng.random() < 0.3:
                argv += ["--no-limits"]
        yield kind, argv, content


def _word(rng: random.Random) -> list[str]:
    if rng.random() < 0.4:
        return rng.choice(VERBS).split()
    if rng.random() < 0.5:
        return [rng.choice(OPTIONS)]
    return [rng.choice(SAFE) + rng.choice(("", "", "=", rng.choice(SAFE)))]


NAMES = {
    "spec": "job.yaml",
    "profile": "sites/mine.yaml",
    "script": "a.sbatch",
    "words": "job.yaml",
}
CODES = {
    "spec": {0, 2, 3, 4},
    "profile": {0, 3},
    "script": {0, 2, 3, 4, 8},
    "words": {0, 2, 3, 4, 6, 8},
}


def run(count: int, *, seed: int = 0) -> tuple[list[Broken], Counter[int], float]:
    """The inputs that break a rule, how many ended with which exit code, the longest in seconds."""
    broken: list[Broken] = []
    codes: Counter[int] = Counter()
    longest = 0.0
    before = os.getcwd(), dict(os.environ), signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("sites").mkdir()
        os.environ |= {"JOBGEN_SITE_PATH": f"{folder}/sites", "XDG_CONFIG_HOME": folder}
        Path("good.yaml").write_bytes((ROOT / "examples" / "portable.yaml").read_bytes())
        try:
            for number, (kind, argv, content) in enumerate(inputs(count, seed)):
                began = time.perf_counter()
                code, why = _run_one(kind, argv, content)
                longest = max(longest, time.perf_counter() - began)
                codes[code] += 1
                if why:
                    broken.append(Broken(number, argv, content, why))
        finally:
            os.chdir(before[0])
            os.environ.clear()
            os.environ.update(before[1])
            signal.signal(signal.SIGALRM, before[2])
    return broken, codes, longest


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise HangsError(f"longer than {SECONDS} s")


def _run_one(kind: str, argv: list[str], content: bytes) -> tuple[int, str]:
    """The exit code, and which rule is broken; empty if none is."""
    for path in ("sites/mine.yaml", "job.yaml", "a.sbatch"):
        Path(path).unlink(missing_ok=True)
    file = NAMES[kind]
    Path(file).write_bytes(content)
    search._read.cache_clear()
    words = [word.replace("../job.yaml", "good.yaml") for word in argv]
    if kind != "words" and "good.yaml" not in words:
        words.append(file)
    out, err, old = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["jobgen", *words]
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            jobgen()
    except SystemExit as end:
        return int(end.code or 0), _rule(kind, int(end.code or 0), err.getvalue())
    except BaseException:
        return 1, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.argv = old
    return 0, "main() returned"


def _rule(kind: str, code: int, said: str) -> str:
    """Which rule an exit code and stderr break."""
    if code not in CODES[kind]:
        return f"exit code {code}: {said}"
    if "Traceback" in said:
        return said
    if code and not said.strip():
        return f"exit code {code} without a word"
    if code == 3:
        for line in said.splitlines():
            if not _PLACE[kind].match(line) and not _NOTE.match(line):
                return f"names no place: {line!r} of {said!r}"
    return ""


def main() -> None:
    """Run, print what was found, and exit with 1 if that is anything."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="which")
    args = parser.parse_args()
    began = time.perf_counter()
    broken, codes, longest = run(args.inputs, seed=args.seed)
    for found in broken:
        print(found)
    seconds = time.perf_counter() - began
    ended = ", ".join(f"{count} with {code}" for code, count in sorted(codes.items()))
    print(f"{args.inputs} inputs in {seconds:.0f} s, the longest {longest:.2f} s; ended: {ended}")
    if broken:
        sys.exit(f"{len(broken)} break the rules")


if __name__ == "__main__":
    main()
