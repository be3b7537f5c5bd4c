"""The job spec: what its keys may hold, and what is said of what they may not."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import EXAMPLES, MINIMAL, complaint, edited, jobgen, load

from jobgen.errors import SpecError, UsageError

NODES = ("nodes: 2", "nodes: {}")
TIME = ("nodes: 2", "walltime: {}")
DURATION = "is not a duration; write e.g. 04:00:00 or 4h"
DIRECTIVE = "is not a directive; begin it with '#PBS ' or '#SBATCH ' and use plain ASCII"
LABEL = "is not a name that a directive can carry; use letters, digits and any of _ . @ : + / -"
NAME = "is not a job name; use up to 100 letters, digits, '.', '_' and '-', a letter or digit first"
LOWER = "would not arrive: names in lower case are the script's own; write"
TAKEN = "would not arrive: the script, bash or torchrun sets it; remove it, or choose another name"
PLAIN = "is not a plain whole number; write it in decimal, without leading zeros"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("two", "expected a whole number, got text ('two'); write cpus_per_node: 2"),
        ("'2'", "expected a whole number, got text ('2'); write it without quotes"),
        ("on", "expected a whole number, got text ('on'); write the number"),
        ("1_000", "expected a whole number, got text ('1_000'); write cpus_per_node: 1000"),
        ("2.0", "expected a whole number, got a number ('2.0'); write cpus_per_node: 2"),
        ("1e3", "expected a whole number, got a number ('1e3')"),
        ("true", "expected a whole number, got true or false ('true'); write the number"),
        ("[2]", "expected a whole number, got a list"),
        ("{a: 2}", "expected a whole number, got keys and values"),
        ("~", "is empty; give it a value or remove the key"),
        ("010", f"'010' {PLAIN}"),
        ("0x10", f"'0x10' {PLAIN}"),
        ("0o10", f"'0o10' {PLAIN}"),
        ("0", "0 is less than 1; write 1 or more"),
        ("-1", "-1 is less than 1; write 1 or more"),
        ("100001", "100001 is more than 100000; write 100000 or less"),
    ],
)
def test_a_number_that_is_none(value: str, message: str) -> None:
    text = edited(("nodes: 2", f"cpus_per_node: {value}"))
    assert complaint(text) == f"job.yaml:3:28: resources.cpus_per_node: {message}"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("7200", "'7200' has no unit; write 2h if these are seconds, or 7200m"),
        ("010", "'010' has no unit; write e.g. 010s, 010m or 010h"),
        ("10:00", "'10:00' could be HH:MM or MM:SS; write 10h or 10m"),
        ("1:75:00", "'1:75:00' has minutes or seconds over 59; write 2h15m"),
        ("on", f"'on' {DURATION}"),
        ("true", f"'true' {DURATION}"),
        ("1.5", f"'1.5' {DURATION}"),
        ("2030-01-01", f"'2030-01-01' {DURATION}"),
        ("2030-01-01 10:00:00", f"'2030-01-01 10:00:00' {DURATION}"),
        ("[1h]", "expected e.g. 04:00:00, got a list"),
        ("null", "is empty; give it a value or remove the key"),
    ],
)
def test_a_walltime_is_never_read_as_something_else(value: str, message: str) -> None:
    text = edited((TIME[0], TIME[1].format(value)))
    assert complaint(text) == f"job.yaml:3:23: resources.walltime: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "nmae: x",
            "5:1: nmae: unknown key; did you mean 'name'? it is already there: keep one of the two",
        ),
        (
            "zzz: x",
            "5:1: zzz: unknown key; jobgen does not use it; an argument of the program goes into "
            "run.args, an option of sbatch or qsub into directives; the choices are",
        ),
        (
            "launch: {rendezvus: c10d}",
            "5:10: launch.rendezvus: unknown key; did you mean 'rendezvous'?",
        ),
        (
            "account: 123",
            "5:10: account: expected text, got a number ('123'); put it in quotes: '123'",
        ),
        (
            "queue: true",
            "5:8: queue: expected a list, got true or false ('true'); write a list, such as queue:"
            " [NAME, NAME], or leave it out",
        ),
        (
            "queue: a&b",
            f"5:8: queue: 'a&b' {LABEL}",
        ),
        (
            "launch: {mode: per_gpu}",
            "5:16: launch.mode: unknown value 'per_gpu'; write direct",
        ),
        (
            "launch: {mode: direct, max_restarts: 1}",
            "5:38: launch.max_restarts: is torchrun's, and mode is direct; leave it out, or write"
            " launch.mode: torchrun",
        ),
        (
            "launch: [c10d]",
            "5:9: launch: expected keys and values, got a list; write it as in"
            " launch: {mode: torchrun}",
        ),
        (
            "launch: {processes_per_node: [1, x]}",
            "5:34: launch.processes_per_node[1]: expected a whole number, got text ('x')",
        ),
        (
            "environment: {venv: v, conda: c}",
            "5:31: environment.conda: is given together with venv; "
            "give at most one of venv, uv, conda and stage",
        ),
        (
            "environment: {variables: {A-B: x}}",
            "5:27: environment.variables: 'A-B' is not the name of an environment variable; "
            "name it A_B",
        ),
        (
            "environment: {from_shell: [A_KEY=s3cret]}",
            "5:28: environment.from_shell[0]: 'A_KEY=...' is not the name of an environment "
            "variable; write the name alone, A_KEY, and set it in your shell",
        ),
        (
            "environment: {variables: {http_proxy: x, WANDB_MODE: offline, n: x}}",
            f"5:66: environment.variables.n: {LOWER} N",
        ),
        (
            'directives: ["-l x"]',
            f"5:14: directives[0]: '-l x' {DIRECTIVE}",
        ),
    ],
)
def test_a_line_that_is_wrong(line: str, message: str) -> None:
    first, *rows = complaint(edited(("", line + "\n"))).splitlines()
    assert first == f"job.yaml:{message}"
    assert all(row.startswith("    ") for row in rows)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "name: a",
            "name: a b",
            f"1:7: name: 'a b' {NAME}; write e.g. a-b",
        ),
        (
            "name: a",
            "name: -a",
            f"1:7: name: '-a' {NAME}; write e.g. a",
        ),
        ("name: a\n", "", "1:1: name: is missing; it is required, as in name: gpt"),
        (
            "run: {module: m}\n",
            "",
            "1:1: run: is missing; it is required, as in run: {script: train.py}",
        ),
        ("local", "on", "2:12: scheduler: unknown value 'on'; write one of slurm, pbs, local"),
        (
            "{module: m}",
            "{}",
            "4:6: run: has none of module, script, command and body; give exactly one of them",
        ),
        (
            "{module: m}",
            "{module: m, script: s}",
            "4:26: run.script: is given together with module; "
            "give exactly one of module, script, command and body",
        ),
        (
            "{module: m}",
            "{module: m.py; ls}",
            "4:15: run.module: 'm.py; ls' is not a Python module",
        ),
        (
            "{module: m}",
            "{command: ls -l | wc}",
            "4:16: run.command: 'ls -l | wc' needs a shell; write [bash, -c, 'ls -l | wc']",
        ),
        (
            "{module: m}",
            "{module: m, args: {a b: 1}}",
            "4:25: run.args: 'a b' is not the name of an option; name it a_b",
        ),
        (
            "{module: m}",
            "{module: m, args: {a: [x, -y]}}",
            "4:28: run.args.a: a value in this list begins with '-' and would be read as an "
            "option; write args as a list of words",
        ),
        (
            "{module: m}",
            "{module: m, args: {a: [{value: c, expands: true}]}}",
            "4:40: run.args.a[0].expands: unknown key; did you mean 'expand'?",
        ),
        (
            "nodes: 2",
            "nodes: 2, cpus_per_node: 2, cpus_per_gpu: 1",
            "3:38: resources.cpus_per_node: is given together with cpus_per_gpu; "
            "give at most one of cpus_per_gpu and cpus_per_node",
        ),
        (
            "nodes: 2",
            "nodes: 3, gpus_per_node: [8, 2]",
            "3:38: resources.gpus_per_node: lists 2 nodes, resources.nodes says 3; "
            "write one number for all nodes, or a list of 3; or leave resources.nodes out",
        ),
        (
            "nodes: 2",
            "nodes: 1, gpus_per_node: [0, 1]",
            "3:38: resources.gpus_per_node: gives 2 nodes a number each, and resources.nodes says "
            "1; for 2 GPUs on each node write gpus_per_node: 2",
        ),
        (
            "nodes: 2",
            "nodes: 2, num_nodes: 4",
            "3:23: resources.num_nodes: unknown key; did you mean 'nodes'? it is already there: "
            "keep one of the two",
        ),
        (
            "nodes: 2",
            "memory_per_node: 180",
            "3:30: resources.memory_per_node: '180' has no unit; write e.g. 180GB or 180MB",
        ),
        (
            "nodes: 2",
            "memory_per_node: lots",
            "3:30: resources.memory_per_node: 'lots' is not an amount of memory; "
            "write e.g. 180GB or 512MB",
        ),
    ],
)
def test_a_value_that_is_wrong(old: str, new: str, message: str) -> None:
    assert complaint(edited((old, new))) == f"job.yaml:{message}"


SEVERAL = """\
nam: a
resources:
  nodes: 0
  gpus_per_node: many
  walltime: 5
run: {module: m, script: s}
launch: {mode: x, interface: a b}
"""

SEVERAL_PROBLEMS = """\
job.yaml:1:1: nam: unknown key; did you mean 'name'?
job.yaml:3:10: resources.nodes: 0 is less than 1; write 1 or more
job.yaml:4:18: resources.gpus_per_node: expected a whole number or a list, got text ('many')
job.yaml:5:13: resources.walltime: '5' has no unit; write e.g. 5s, 5m or 5h
job.yaml:6:26: run.script: is given together with module; \
give exactly one of module, script, command and body
job.yaml:7:16: launch.mode: unknown value 'x'; write one of torchrun, direct, plain, ray
job.yaml:7:30: launch.interface: 'a b' is not the name of a network interface
"""


@pytest.mark.parametrize("command", [["render"], ["check"], ["submit"], ["submit", "--dry-run"]])
def test_all_problems_of_a_file_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(SEVERAL)
    assert jobgen(*command) == (3, "", SEVERAL_PROBLEMS)


def test_unknown_keys_beyond_a_number_are_counted() -> None:
    last = len(MINIMAL.splitlines())
    told = complaint(MINIMAL + "".join(f"k{n}: a\n" for n in range(60))).splitlines()
    assert told[-2].startswith(f"job.yaml:{last + 50}:1: k49: unknown key; ")
    assert told[-1] == f"job.yaml:{last + 51}:1: k50: unknown keys from here on: 10"


def test_problems_of_several_files_are_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.yaml", "a.yaml"):
        Path(name).write_text(edited(("nodes: 2", "nodes: 0")))
    code, out, err = jobgen("render", "--out-dir", "scripts", "b.yaml", "a.yaml")
    assert (code, out) == (3, "")
    assert err == (
        "a.yaml:3:20: resources.nodes: 0 is less than 1; write 1 or more\n"
        "b.yaml:3:20: resources.nodes: 0 is less than 1; write 1 or more\n"
    )
    assert not Path("scripts").exists()


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("name=b", "name", "b"),
        ("resources.nodes=4", "resources.nodes", 4),
        ("resources.gpus_per_node=[8, 2]", "resources.gpus_per_node", (8, 2)),
        ("resources.walltime=2:00:00", "resources.walltime", 7200),
        ("resources={nodes: 2, walltime: 1h}", "resources.walltime", 3600),
        ("resources.nodes=null", "resources.nodes", None),
        ("resources.nodes=", "resources.nodes", None),
        ("environment.variables.A=a=b", "environment.variables", {"A": "a=b"}),
        ("environment.modules=null", "environment.modules", None),  # it was not there
    ],
)
def test_set_changes_one_value(override: str, path: str, value: object) -> None:
    found = load(MINIMAL, override).spec
    for key in path.split("."):
        found = getattr(found, key)
    assert found == value


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("name=null", "job.yaml:1:1: name: is missing; it is required, as in name: gpt"),
        ("name.x=1", "--set 'name.x=1': name is text ('a')"),
        (
            "resources.node=4",
            "--set resources.node: unknown key; did you mean 'nodes'?",
        ),
        (
            "resources.nodes=four",
            "--set resources.nodes: expected a whole number or keys "
            "and values, got text ('four'); write nodes: 4",
        ),
        (
            "resources={nodes: x}",
            "--set resources:1:9: resources.nodes: expected a whole number or keys "
            "and values, got text ('x')",
        ),
        (
            "resources.nodes=[",
            "--set resources.nodes:1:1: a list that does not end; write ] behind its last value",
        ),
        ("name=*a", "--set name:1:1: found undefined alias"),
    ],
)
def test_a_bad_value_in_set(override: str, message: str) -> None:
    assert complaint(MINIMAL, override) == message


@pytest.mark.parametrize("override", ["name", "=a", "a..b=1", ".name=b", "name=a\nb", "name=\x1b"])
def test_set_without_path_or_value_is_wrong_usage(override: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(MINIMAL, override)
    form = "name=VALUE" if override == "name" else "resources.nodes=4"
    assert str(caught.value) == f"--set {override!r}: write it as {form}, on one line"


def test_set_leaves_alone_what_an_alias_shares() -> None:
    text = edited(
        ("m}", "m, args: *v}"), ("name: a\n", "name: a\nenvironment: {variables: &v {A: b}}\n")
    )
    found = load(text, "run.args.A=c").spec
    assert (found.run.args, found.environment.variables) == ({"A": "c"}, {"A": "b"})


def test_the_digest_is_of_the_content_not_of_its_layout() -> None:
    digest = load(MINIMAL).digest
    assert re.fullmatch("[0-9a-f]{16}", digest)
    assert load("# a comment\n" + MINIMAL.replace("name: a", "name:   'a'")).digest == digest
    assert load(MINIMAL.replace("name: a", "name: b")).digest != digest
    assert load(MINIMAL, "name=b").digest == load(MINIMAL.replace("name: a", "name: b")).digest


VALUES = ["2:00:00", "010", "on", "null", "{a: b}", "[a, [b]]", "name: ", "resources: ", "é", "😀"]
SYNTAX = ["&a ", "*a ", "!!map ", "<<: ", "\n---\n", "\n- ", "? ", "\x00", "\x1b", "\ufeff"]
SIGNS = "[]{}:,-?&*!|>'\"%@`#~\n\t \\"
PIECES = st.sampled_from([*VALUES, *SYNTAX, *SIGNS]) | st.characters(codec="utf-8")
MUTATION = st.tuples(st.integers(0, 10_000), st.integers(0, 12), st.lists(PIECES, max_size=3))


def mutate(text: str, mutations: list[tuple[int, int, list[str]]]) -> str:
    """`text` with some characters from some place on replaced, time after time."""
    for start, removed, pieces in mutations:
        start %= len(text) + 1
        text = text[:start] + "".join(pieces) + text[start + removed :]
    return text


def loads_or_is_refused(content: str | bytes, *overrides: str) -> None:
    """Nothing but a spec or located problems comes out of `content`, a line each.

    Below the line of an unknown key, indented, may stand the keys that there are.
    """
    problems, text = [], ""
    try:
        load(content, *overrides)
    except SpecError as error:
        problems, text = error.problems, str(error)
    except UsageError:
        assert overrides
    assert text == "\n".join(map(str, problems))
    first = [line for line in text.splitlines() if not line.startswith("    ")]
    for _, line in zip(problems, first, strict=True):
        assert line.isprintable()
        assert re.match(r"(job\.yaml|--set .*?)(:\d+:\d+)?: .", line)


@given(
    st.sampled_from([MINIMAL, *(path.read_text() for path in EXAMPLES)]),
    st.lists(MUTATION, min_size=1, max_size=5),
)
def test_a_damaged_spec_loads_or_is_refused(
    text: str, mutations: list[tuple[int, int, list[str]]]
) -> None:
    loads_or_is_refused(mutate(text, mutations))


@given(st.text() | st.binary() | st.lists(PIECES, max_size=40).map("".join))
@example("a: '\u2028\x00")
def test_anything_at_all_loads_or_is_refused(content: str | bytes) -> None:
    loads_or_is_refused(content)


@given(
    st.lists(
        st.text()
        | st.builds(
            "{}={}".format,
            st.sampled_from(["name", "resources.nodes", "run.args.x", "environment"]),
            st.lists(PIECES, max_size=6).map("".join),
        ),
        max_size=2,
    )
)
def test_any_override_at_all_is_taken_or_refused(overrides: list[str]) -> None:
    loads_or_is_refused(MINIMAL, *overrides)


@pytest.mark.parametrize("value", ["stage: -x", "conda: --help"])
def test_a_name_that_a_command_would_read_as_an_option(value: str) -> None:
    assert "begins with '-'" in complaint(edited(("", f"environment: {{{value}}}\n")))
