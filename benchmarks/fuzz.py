"""Check that no input ends in a traceback: mutated specs, profiles, scripts, options, run folders.

    python benchmarks/fuzz.py --inputs 100000            # and --seed N for others

The commands run in this process, in an empty folder; nothing is submitted. The same seed gives the
same inputs. An input that breaks the rules is printed with its number, command line and file, and
the exit code is 1. `tests/test_fuzz.py` runs 2,000.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
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

SECONDS = 300  # after so long an input hangs

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
    ),
    "profile": ("sites test", "sites test --json", "render ../job.yaml --site mine"),
    "script": ("lint", "lint --json", "import", "check", "submit --dry-run --stale-ok"),
    "record": (
        *("list", "list --json", "status 7", "status --json", "logs 7", "logs --stderr", "wait 7"),
        *("diagnose 7", "diagnose --json", "report --text", "report --json", "top 7", "top --json"),
    ),
}
OPTIONS = (
    *("--json", "--site", "--scheduler", "--set", "--no-limits", "-o", "--out-dir", "--dry-run"),
    *("--stale-ok", "--help", "--version", "--wait=", "-", "--", "-x", "--jso", "-h"),
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
# What jobs leave below `runs`, and commands that were interrupted; one file at a time is damaged.
_TOKEN = "20260101-000000-0123456789ab"
_JOB: dict[str, object] = {
    **{"id": "7", "name": "a", "scheduler": "local", "folder": "/x", "submitted": 1.7e9},
    **{"argv": ["bash", "x"], "pid": None, "started": None, "tasks": 0, "links": []},
    **{"earlier": {}, "token": _TOKEN, "digest": "", "host": ""},
}
_INTENT = {"job": {**_JOB, "id": ""}, "jobs": 1, "pid": 0, "started": None, "boot": ""}
_FLIGHT = {"version": "2.4", "pg_config": {}, "entries": [{"process_group": ["0", "x"]}]}
_ERROR = {"message": {"message": "E: x", "extraInfo": {"py_callstack": "E: x", "timestamp": 1}}}
_USAGE = {"time": 1.7e9, "attempt": 0, "cpu_s": 2.5, "memory": 9, "most": 9, "processes": 1}
_CHECKED = {"node": "n1", "python": "3.11", "torch": "2.9", "gpus": [], "clock": 1.7e9}
_METRICS = (
    {"kind": "start", "attempt": 0, "step": 0, "time": 1.7e9, "world_size": 2, "unit": "tokens"},
    {"kind": "step", "step": 10, "time": 1.7e9, "loss": 2.5, "tokens": 99, "step_s": [0.1, 0.1]},
)
RUN_FILES = {
    "a/7/job.json": json.dumps(_JOB),
    "a/7/state.json": json.dumps({"state": "failed", "reason": "", "attempts": 1, "submitted": 1}),
    "a/7/plan.json": "",  # of the script, when the files are written
    "a/7/script": "",
    "a/7/attempts/0/script": "",
    "a/7/job.yaml": "name: a\n",
    "a/7/job.out": "jobgen: FAILED with exit code 1: rank 0 on n1\n",
    "a/7/attempts/0/outcome": "failed 1\n",
    "a/7/attempts/0/nodes": "n1\nn2\n",
    "a/7/attempts/0/failed": "0 1\n",
    "a/7/attempts/0/job": "7\n",
    "a/7/attempts/after-7": "8\n",
    "a/7/attempts/0/node-0.ended": "1\n",
    "a/7/errors/n1-0.json": json.dumps(_ERROR),
    "a/7/errors/n1-0-flight-0": json.dumps(_FLIGHT),
    "a/7/logs/n1/agent.log": "jobgen: n1; of start 0;\n  rank : 0 (x)\n  exitcode  : 1 (pid: 7)\n",
    "a/7/logs/n1/rank-0.err": "Traceback (most recent call last):\nValueError: x\n",
    "a/7/preflight/n1.json": json.dumps(_CHECKED),
    "a/7/usage/n1.jsonl": f"{json.dumps({**_USAGE, 'gpus': [{'use': 5, 'memory': 9}]})}\n" * 3,
    "a/7/metrics.jsonl": "".join(f"{json.dumps(line)}\n" for line in _METRICS),
    "a/7/status.json": json.dumps({"state": "failed", "step": 10, "resumable": True, "time": 1}),
    f"a/submissions/{_TOKEN}.json": json.dumps({**_INTENT, "source": "name: a\n"}),
    f"a/submissions/{_TOKEN}.sh": "true\n",
}
# Below the line of an unknown key: the keys that there are.
_NOTE = re.compile(r"(note|warning): |    \w+  +\S")


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
    """Yield inputs: their kind, the command line, and the content of the file that it names."""
    begin = seeds()
    kinds = ("spec", "spec", "spec", "profile", "script", "script", "words", "record", "record")
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        kind = rng.choice(kinds)
        if kind == "record":
            file = rng.choice([*RUN_FILES])
            begun = RUN_FILES[file] or begin["script"][-1].decode()
            yield f"record {file}", rng.choice(COMMANDS[kind]).split(), mutated(begun.encode(), rng)
        elif kind == "words":
            argv = [word for _ in range(rng.randrange(1, 6)) for word in _word(rng)]
            yield kind, argv, mutated(rng.choice(begin["spec"]), rng)
        else:
            content = mutated(rng.choice(begin[kind]), rng)
            if rng.random() < 0.05:
                content = rng.randbytes(rng.randrange(200))
            elif rng.random() < 0.05:
                content = " ".join(rng.choices(WORDS, k=rng.randrange(20))).encode()
            argv = rng.choice(COMMANDS[kind]).split()
            if kind == "spec" and argv[0] != "check":
                argv += _choose_options(rng)
            yield kind, argv, content


def _choose_options(rng: random.Random) -> list[str]:
    """Return options of a command that takes a spec."""
    options = []
    if rng.random() < 0.5:
        options += ["--site", rng.choice([*search.list_names(), "nowhere", "mine"])]
    elif rng.random() < 0.5:
        options += ["--scheduler", rng.choice(("slurm", "pbs", "local"))]
    if rng.random() < 0.2:
        options += ["--set", f"{rng.choice(WORDS)}={rng.choice(WORDS)}"]
    if rng.random() < 0.3:
        options += ["--no-limits"]
    return options


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
    "script": {0, 2, 3, 4, 8, 9},
    "words": {0, 2, 3, 4, 6, 8, 9},
    "record": {0, 2, 6, 7},
}


def run(count: int, *, seed: int = 0) -> tuple[list[Broken], Counter[int], float]:
    """The inputs that break a rule, how many ended with which exit code, the longest in seconds."""
    broken: list[Broken] = []
    codes: Counter[int] = Counter()
    longest = 0.0
    before = os.getcwd(), dict(os.environ), signal.signal(signal.SIGALRM, _too_long)
    read_once = search._read
    # Thousands of folders come and go, which takes a disk longer than the commands.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        os.chdir(folder)
        Path("sites").mkdir()
        os.environ |= {"JOBGEN_SITE_PATH": f"{folder}/sites", "XDG_CONFIG_HOME": folder}
        search._read = lambda file, below: (  # a file that is not shipped changes each time
            read_once if file.startswith(search.BUILT_IN) else read_once.__wrapped__
        )(file, below)
        Path("good.yaml").write_bytes((ROOT / "examples" / "portable.yaml").read_bytes())
        try:
            for number, (kind, argv, content) in enumerate(inputs(count, seed)):
                began = time.process_time()
                code, why = _run_one(kind, argv, content)
                longest = max(longest, time.process_time() - began)
                codes[code] += 1
                if why:
                    broken.append(Broken(number, argv, content, why))
        finally:
            os.chdir(before[0])
            os.environ.clear()
            os.environ.update(before[1])
            signal.signal(signal.SIGALRM, before[2])
            search._read = read_once
    return broken, codes, longest


def _too_long(_signal: int, _frame: FrameType | None) -> None:
    raise HangsError(f"longer than {SECONDS} s")


def _run_one(kind: str, argv: list[str], content: bytes) -> tuple[int, str]:
    """The exit code, and which rule is broken; empty if none is."""
    for path in ("sites/mine.yaml", "job.yaml", "a.sbatch"):
        Path(path).unlink(missing_ok=True)
    kind, _, damaged = kind.partition(" ")
    shutil.rmtree("runs", ignore_errors=True)
    if damaged:
        _write_run(damaged, content)
    else:
        Path(NAMES[kind]).write_bytes(content)
    words = [word.replace("../job.yaml", "good.yaml") for word in argv]
    if kind not in ("words", "record") and "good.yaml" not in words:
        words.append(NAMES[kind])
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


def _write_run(damaged: str, content: bytes) -> None:
    """Write run folders of which one file is damaged."""
    for file, text in RUN_FILES.items():
        path = Path("runs", file)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if file == damaged else text.encode())


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
