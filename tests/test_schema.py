"""The JSON Schemas: they say what jobgen checks, and agree with it about good and bad specs.

`jsonschema`, a validator that knows nothing of jobgen, speaks for the editors.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from spec_corpus import FRAME, GOOD, corpus
from spec_walk import Made, walk
from support import EXAMPLES, ROOT, jobgen, load

from jobgen import document, spec
from jobgen.bind import bind, fields, is_record
from jobgen.errors import SpecError
from jobgen.schema import _CONDITIONS, ROOTS, schema
from jobgen.site import SiteProfile
from jobgen.units import DURATION, MEMORY

SCHEMAS = {what: json.loads(schema(what)) for what in ROOTS}
JOB, SITE = (Draft7Validator(SCHEMAS[what]) for what in ("job", "site"))
PROFILES = sorted(ROOT.glob("jobgen/sites/*.yaml"))


def as_editors_read(node: document.Node) -> Any:
    """YAML as the data that an editor checks: YAML 1.2's core schema, keys as text."""
    if isinstance(node, document.Mapping):
        return {key: as_editors_read(item) for key, item in node.items.items()}
    if isinstance(node, document.Sequence):
        return [as_editors_read(item) for item in node.items]
    if node.kind == "int":
        return int(node.text, 0) if node.text[1:2] in ("o", "x") else int(node.text)
    if node.kind == "float":
        return float(node.text.replace(".inf", "inf").replace(".nan", "nan"))
    return {"str": node.text, "bool": node.text.lower() == "true", "null": None}[node.kind]


def in_schema(text: str) -> bool:
    """Whether the schema accepts a spec."""
    return JOB.is_valid(as_editors_read(document.parse(text, file="job.yaml")))


def problems(text: str) -> list[str]:
    """What jobgen finds wrong with a spec."""
    try:
        load(text)
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def records(cls: type) -> Iterator[type]:
    """A record and all records in it."""
    yield cls
    for field in fields(cls).values():
        for kind in field.kinds:
            for inner in (kind, *kind.members):
                if is_record(inner.type):
                    yield from records(inner.type)


@pytest.mark.parametrize("what", ROOTS)
def test_the_command_prints_a_schema_of_draft_07(what: str) -> None:
    code, out, err = jobgen("schema", what)
    assert (code, err) == (0, "")
    assert out == schema(what)
    Draft7Validator.check_schema(json.loads(out))
    assert json.loads(out)["$schema"] == "http://json-schema.org/draft-07/schema#"


def test_there_are_two_schemas() -> None:
    code, _, err = jobgen("schema", "plan")
    assert code == 2
    assert "'plan' is not one of 'job', 'site'" in err


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_valid(path: Path) -> None:
    JOB.validate(as_editors_read(document.read(str(path))))


@pytest.mark.parametrize("path", PROFILES, ids=lambda path: path.stem)
def test_every_site_profile_is_valid(path: Path) -> None:
    SITE.validate(as_editors_read(document.read(str(path))))


def test_a_spec_is_no_site_profile() -> None:
    assert not SITE.is_valid(as_editors_read(document.read(str(EXAMPLES[0]))))


@pytest.mark.parametrize("what", ROOTS)
def test_every_key_has_a_description_and_no_record_takes_another(what: str) -> None:
    objects = [SCHEMAS[what], *SCHEMAS[what]["definitions"].values()]
    for described in objects:
        assert described["description"]
        assert described["additionalProperties"] is False
        for key, value in described["properties"].items():
            assert value["description"], key


def test_what_an_editor_offers() -> None:
    keys = SCHEMAS["job"]["definitions"]["Resources"]["properties"]
    assert keys["walltime"]["examples"] == ["04:00:00", "4h", "90m", "1-12:00:00"]
    assert SCHEMAS["job"]["properties"]["scheduler"]["enum"] == ["slurm", "pbs", "local"]
    assert keys["walltime"]["pattern"] == f"^(?:{DURATION})$"
    assert keys["memory_per_node"]["pattern"] == f"^(?:{MEMORY})$"
    pbs = SCHEMAS["site"]["definitions"]["Pbs"]["properties"]
    assert pbs["account_option"]["default"] == "-A"


def test_whatever_a_record_says_of_several_keys_the_schema_says_too() -> None:
    found = {cls for root in ROOTS.values() for cls in records(root) if hasattr(cls, "conflicts")}
    # Launch has none of its own; the rest of JobSpec's is in the list of disagreements below.
    assert found == _CONDITIONS.keys()


@pytest.mark.parametrize("what", ROOTS)
def test_patterns_mean_the_same_in_python_and_in_an_editor(what: str) -> None:
    """Words, digits and boundaries are of ASCII in ECMA 262; Python alone has flags inside.

    Spaces differ in the byte order mark alone, which no key may hold in jobgen.
    """
    patterns = re.findall(r'"pattern": (".*")', schema(what))
    assert patterns
    for text in patterns:
        assert not re.search(r"\\[wWdDbBAZ]|\(\?[^:=!]|\(\?<", json.loads(text))


CORPUS = list(corpus())


def test_the_corpus_is_large_and_even() -> None:
    assert len(CORPUS) == len({text for text, _ in CORPUS}) >= 250
    assert sum(good for _, good in CORPUS) >= 80


@pytest.mark.parametrize(("text", "good"), CORPUS)
def test_schema_and_jobgen_accept_and_refuse_the_same(text: str, good: bool) -> None:
    found = problems(text)
    assert (in_schema(text), not found) == (good, good), found


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # Lists against each other, and against a number.
        ("{}", "{nodes: 3, gpus_per_node: [8, 2]}", "lists 2 nodes, resources.nodes says 3"),
        (
            "{}",
            "{gpus_per_node: [8, 2]}\nlaunch: {processes_per_node: [1]}",
            "lists 1 nodes, resources.gpus_per_node says 2",
        ),
        # Arithmetic on text.
        ("{}", "{memory_per_node: 1.1GB}", "is not a whole number of KB"),
        # How a number was written: an editor sees its value only.
        ("{}", "{nodes: 010}", "is not a plain whole number"),
        ("{}", "{nodes: 0x10}", "is not a plain whole number"),
        ("{}", "{nodes: 0o10}", "is not a plain whole number"),
        ("{}", "{cpus_per_node: 2.0}", "expected a whole number, got a number"),
        ("{}", "{cpus_per_node: 1e3}", "expected a whole number, got a number"),
        ("{module: m}", "{module: m, args: {a: [-0]}}", "begins with '-'"),
    ],
)
def test_what_draft_07_cannot_say(old: str, new: str, message: str) -> None:
    text = FRAME.format_map(GOOD).replace(old, new)
    assert in_schema(text)
    (problem,) = problems(text)
    assert message in problem


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{a: 1, a: 2}", "duplicate key 'a'"),
        ("{'<<': 1}", "merge keys ('<<') are not supported"),
        ('{"a\\u200b": 1}', "holds a control character"),
        ("{a: !!binary x}", "unknown tag"),
    ],
)
def test_what_is_wrong_with_the_yaml_is_no_business_of_a_schema(args: str, message: str) -> None:
    text = FRAME.format_map({**GOOD, "run": f"{{module: m, args: {args}}}"})
    assert JOB.is_valid({"name": "a", "resources": {}, "run": {"module": "m", "args": {"a": 1}}})
    (problem,) = problems(text)
    assert message in problem


LETTERS = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])
TEXT = st.sampled_from(["a", "", "-a", "4h", "2:00:00", "8GB", "no", "a b", "a\n", "\t", "é"])
SCALAR = (
    st.sampled_from([None, True, False, 0, 1, 2, -1, 100_000, 100_001, 0.5, -0.5])
    | TEXT
    | st.text(LETTERS, max_size=3)
)
KEY = st.sampled_from(["a", "A", "n", "RANK", "-x", "1", "a b", ""])
ANY = st.recursive(
    SCALAR,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=2),
    max_leaves=4,
)


def one_of_keys(cls: type) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings of a record's own keys, and sometimes of another, to what may fit."""
    # What a spec extends is another file, which jobgen looks for.
    keys = {name: VALUES.get(name, ANY) | ANY for name in fields(cls) if name != "extends"}
    optional = {**keys, "other": ANY} if cls is spec.Launch else keys
    return st.fixed_dictionaries({}, optional=optional)


WORDS = st.lists(TEXT | st.integers(-2, 9), max_size=3)
COUNT = st.integers(-1, 5)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.just("a"),
    "nodes": COUNT,
    "gpus_per_node": COUNT | st.lists(COUNT, max_size=3),
    "processes_per_node": COUNT | st.lists(COUNT, max_size=3),
    "cpus_per_gpu": COUNT,
    "cpus_per_node": COUNT,
    "memory_per_node": st.sampled_from(["8GB", "1.5T", "8", "0G"]),
    "walltime": st.sampled_from(["4h", "2:00:00", "7200", "90:00"]),
    "modules": WORDS
    | st.fixed_dictionaries(
        {}, optional={"first": st.sampled_from(["purge", "x"]), "use": WORDS, "load": WORDS}
    ),
    "container": st.fixed_dictionaries(
        {"image": TEXT},
        optional={
            "runtime": st.sampled_from(["edf", "pyxis", "x"]),
            "binds": st.lists(st.sampled_from(["/a", "/a:/b", "a,b", ":", "-a"]), max_size=2),
            "options": WORDS,
        },
    ),
    "variables": st.dictionaries(KEY, SCALAR, max_size=2),
    "module": st.sampled_from(["m", "a.b", "a b"]),
    "command": WORDS,
    "args": WORDS | st.dictionaries(KEY, SCALAR | WORDS, max_size=2),
    "mode": st.just("torchrun"),
    "rendezvous": st.sampled_from(["c10d", "static", "x"]),
    "scheduler": st.sampled_from(["slurm", "lsf"]),
    "directives": st.lists(st.sampled_from(["#PBS -m e", "#SBATCH -C a", "-C a"]), max_size=2),
}
GOOD_JOB = {"name": "a", "resources": {}, "run": {"module": "m"}}
# One key of the spec at a time: a record of its own keys, or any.
PARTS = {
    name: one_of_keys(field.kinds[0].type)
    for name, field in fields(spec.JobSpec).items()
    if is_record(field.kinds[0].type)
}
PART = st.one_of(
    *(part.map(lambda value, name=name: {name: value}) for name, part in PARTS.items()),
    one_of_keys(spec.JobSpec),
)
# Of what draft-07 cannot say, all that these strategies make.
LIST_LENGTH = re.compile(r": lists [1-9]\d* nodes, |: extends: there is no file ")
NAMES_NOTHING = re.compile(r": no such (source|queue|type) |is no (range|regular expression)")


@settings(max_examples=800, deadline=None)
@given(PART, PART)
def test_schema_and_jobgen_agree_on_what_a_machine_thinks_of(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    job = {**GOOD_JOB, **one, **other}
    found = [problem for problem in problems(json.dumps(job)) if not LIST_LENGTH.search(problem)]
    assert JOB.is_valid(job) == (not found), found


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries(
        {"scheduler": st.sampled_from(["slurm", "pbs", "lsf"])},
        optional={name: ANY for name in SiteProfile._fields if name != "scheduler"},
    )
    | st.dictionaries(KEY, ANY, max_size=2)
)
def test_schema_and_jobgen_agree_on_site_profiles(profile: dict[str, Any]) -> None:
    found = profile_problems(json.dumps(profile))
    rest = [problem for problem in found if not NAMES_NOTHING.search(problem)]
    if rest or not found:  # of a name alone the schema may know that there is nothing to name
        assert SITE.is_valid(profile) == (not rest), rest


WALKED = {
    "job": list(walk(spec.JobSpec, JOB.is_valid)),
    "site": list(walk(SiteProfile, SITE.is_valid)),
}


def agreed(what: str, made: Made) -> bool:
    """Whether a document is good, once schema and jobgen have said the same of it."""
    text = json.dumps(made.document)
    found = problems(text) if what == "job" else profile_problems(text)
    beyond = LIST_LENGTH if what == "job" else NAMES_NOTHING
    valid = (JOB if what == "job" else SITE).is_valid(made.document)
    if valid:
        assert [problem for problem in found if not beyond.search(problem)] == [], made
    else:
        assert found, made
    return valid


@pytest.mark.parametrize("what", ROOTS)
def test_schema_and_jobgen_agree_on_every_key_there_is(what: str) -> None:
    """With values that fit its annotation and values that do not, whatever the key."""
    verdicts: dict[str, set[bool]] = {}
    for made in WALKED[what]:
        verdicts.setdefault(made.path, set()).add(agreed(what, made))
    assert verdicts.keys() == set(paths(ROOTS[what]))
    assert [path for path, seen in verdicts.items() if seen != {True, False}] == []
    assert len(WALKED[what]) >= 500


def paths(cls: type, above: str = "") -> Iterator[str]:
    """Every key of a record and of the records in it."""
    for name, field in fields(cls).items():
        yield above + name
        for kind in field.kinds:
            for inner in (kind, *kind.members):
                if is_record(inner.type):
                    yield from paths(inner.type, f"{above}{name}.")


def profile_problems(text: str) -> list[str]:
    """What jobgen finds wrong with a site profile."""
    try:
        bind(document.parse(text, file="a.yaml"), SiteProfile)
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("more", "good"),
    [
        ("queues: {a: {limits: [{nodes: [1], walltime: 4h}]}}", True),
        ("queues: {a: {limits: [{nodes: [1, 2], walltime: [1h, 4h]}]}}", True),
        ("queues: {a: {limits: [{nodes: []}]}}", False),
        ("queues: {a: {limits: [{cpus: [1, 2, 3]}]}}", False),
        ("queues: {a: {limits: [{walltime: [1h]}]}}", False),
        ("gpu_type: a", False),
        ("gpu_type: a\ngpu_types: {a: {gpus: 4}}", True),
        ("cited: {node: a}", False),
        ("cited: {}", True),
        ("as_of: 2026-13", False),
    ],
)
def test_schema_and_jobgen_agree_on_facts_of_a_site(more: str, good: bool) -> None:
    text = f"scheduler: slurm\n{more}"
    found = profile_problems(text)
    valid = SITE.is_valid(as_editors_read(document.parse(text, file="a.yaml")))
    assert (valid, not found) == (good, good), found


@pytest.mark.parametrize(
    "more",
    [
        "node: {source: a}",
        "queues: {a: {routed_from: b}}",
        "queues: {a: {limits: [{nodes: [2, 1]}]}}",
    ],
)
def test_what_draft_07_cannot_say_of_a_site(more: str) -> None:
    text = f"scheduler: slurm\n{more}"
    assert SITE.is_valid(as_editors_read(document.parse(text, file="a.yaml")))
    assert len(profile_problems(text)) == 1
