"""The JSON Schemas: made from what jobgen checks, so an editor never marks what jobgen accepts.

`jsonschema`, a validator that knows nothing of jobgen, speaks for the editors.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from npm import fetch_package
from spec_corpus import corpus
from support import EXAMPLES, ROOT, jobgen, load

from jobgen.cli.editors import write_schema
from jobgen.errors import SpecError
from jobgen.sites.profile import SiteProfile
from jobgen.spec import model, yaml_nodes
from jobgen.spec.bind import bind
from jobgen.spec.fields import is_record, read_fields
from jobgen.spec.json_schema import make_schema
from jobgen.spec.units import DURATION, MEMORY

ROOTS = {"job": model.JobSpec, "site": SiteProfile}
TEXTS = {what: make_schema(cls, title=f"jobgen {what}") for what, cls in ROOTS.items()}
SCHEMAS = {what: json.loads(text) for what, text in TEXTS.items()}
JOB, SITE = (Draft7Validator(SCHEMAS[what]) for what in ("job", "site"))
PROFILES = sorted((ROOT / "jobgen" / "sites" / "data").glob("*.yaml"))
# What takes more than a look at one record: the schema lets it pass, `jobgen check` does not.
BEYOND = re.compile(
    r"has none of (module|values)|whose value cannot be a list|do not work with"
    r"|has no effect: the job|lists \d+ nodes|lists nodes|would not arrive"
    r"|read as an option"
    r"|cannot differ|names the same as|lists an event twice|is torchrun's"
    r"|is empty|is an empty list|has lists of different length"
    r"|makes .* tasks|has \d+ tasks"
    r"|needs a shell|a quote that does not end|would start|not a program|is one word"
    r"|is a file, not a module|is not a Python file"
    r"|is not a whole number of KB|plain whole number|expected a whole number, got a number"
)


def as_editors_read(node: yaml_nodes.Node) -> Any:
    """YAML as the data that an editor checks: YAML 1.2's core schema, keys as text."""
    if isinstance(node, yaml_nodes.Mapping):
        return {key: as_editors_read(item) for key, item in node.items.items()}
    if isinstance(node, yaml_nodes.Sequence):
        return [as_editors_read(item) for item in node.items]
    if node.kind == "int":
        return int(node.text, 0) if node.text[1:2] in ("o", "x") else int(node.text)
    if node.kind == "float":
        return float(node.text.replace(".inf", "inf").replace(".nan", "nan"))
    return {"str": node.text, "bool": node.text.lower() == "true", "null": None}[node.kind]


def in_schema(text: str) -> bool:
    """Whether the schema accepts a spec."""
    return JOB.is_valid(as_editors_read(yaml_nodes.parse(text, file="job.yaml")))


def problems(text: str) -> list[str]:
    """What jobgen finds wrong with a spec."""
    try:
        load(text)
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def profile_problems(text: str) -> list[str]:
    """What jobgen finds wrong with a site profile."""
    try:
        bind(yaml_nodes.parse(text, file="a.yaml"), SiteProfile)
    except SpecError as error:
        return [str(problem) for problem in error.problems]
    return []


def test_the_command_prints_schemas_of_draft_07() -> None:
    for what in TEXTS:
        assert jobgen("schema", what) == (0, write_schema(what), "")
        Draft7Validator.check_schema(SCHEMAS[what])
    assert jobgen("schema", "plan")[0] == 2


def test_every_example_and_profile_is_valid() -> None:
    assert len(PROFILES) >= 20
    for path in EXAMPLES:
        JOB.validate(as_editors_read(yaml_nodes.read(str(path))))
    for path in PROFILES:
        SITE.validate(as_editors_read(yaml_nodes.read(str(path))))
    assert not SITE.is_valid(as_editors_read(yaml_nodes.read(str(EXAMPLES[0]))))


def test_every_key_has_a_description_and_no_record_takes_another() -> None:
    for schema in SCHEMAS.values():
        for described in (schema, *schema["definitions"].values()):
            assert described["description"]
            assert described["additionalProperties"] is False
            for key, value in described["properties"].items():
                assert value["description"], key


def test_what_an_editor_offers() -> None:
    keys = SCHEMAS["job"]["definitions"]["Resources"]["properties"]
    assert keys["walltime"]["examples"] == ["04:00:00", "4h", "90m", "1-12:00:00"]
    scheduler = SCHEMAS["job"]["properties"]["scheduler"]
    assert scheduler["anyOf"][0] == {"enum": ["slurm", "pbs", "local"]}
    assert keys["walltime"]["pattern"] == f"^(?:{DURATION})$"
    assert keys["memory_per_node"]["pattern"] == f"^(?:{MEMORY})$"
    pbs = SCHEMAS["site"]["definitions"]["PbsDialect"]["properties"]
    assert pbs["account_option"]["default"] == "-A"


def test_patterns_mean_the_same_in_python_and_in_an_editor() -> None:
    """Words, digits and boundaries are of ASCII in ECMA 262; Python alone has flags inside.

    Spaces differ in the byte order mark alone, which no key may hold in jobgen.
    """
    for text in TEXTS.values():
        patterns = re.findall(r'"pattern": (".*")', text)
        assert patterns
        for pattern in patterns:
            assert not re.search(r"\\[wWdDbBAZ]|\(\?[^:=!]|\(\?<", json.loads(pattern))


def test_schema_and_jobgen_accept_and_refuse_the_same() -> None:
    """Of some 300 specs: what jobgen alone refuses is of the kinds that a schema cannot tell."""
    specs = dict(corpus())
    assert len(specs) >= 250
    assert sum(specs.values()) >= 80
    wrong = {}
    for text, good in specs.items():
        faults = problems(text)
        as_expected = bool(faults) != good
        beyond = any(BEYOND.search(fault) for fault in faults)
        if not as_expected or (in_schema(text) != good and not (beyond and in_schema(text))):
            wrong[text] = (good, in_schema(text), faults)
    assert not wrong
    refused = sum(not good and not in_schema(text) for text, good in specs.items())
    assert refused >= 130, refused


def test_keys_that_exclude_each_other_are_declared_once() -> None:
    """Every record that bounds its keys is refused by both where it has them all."""
    seen = 0
    for root in ROOTS.values():
        for cls in {cls for cls in walk_classes(root) if hasattr(cls, "key_limits")}:
            for keys, least, most in cls.key_limits:  # type: ignore[attr-defined]
                definition = SCHEMAS["job"]["definitions"] | SCHEMAS["site"]["definitions"]
                definition |= {"JobSpec": SCHEMAS["job"]}
                own = definition[cls.__name__].items()
                conditions = {k: v for k, v in own if k in ("allOf", "dependencies")}
                validator = Draft7Validator(conditions)
                assert validator.is_valid({keys[0]: 1})
                assert validator.is_valid(dict.fromkeys(keys, 1)) == (len(keys) <= most), cls
                assert validator.is_valid({}) == (least == 0 or most == 1), cls
                seen += 1
    assert seen >= 6


def walk_classes(cls: type) -> list[type]:
    """Return a record's class and those of all records in it."""
    classes = [cls]
    for field in read_fields(cls).values():
        for kind in field.kinds:
            for inner in (kind, *kind.members):
                if is_record(inner.type):
                    classes += walk_classes(inner.type)
    return classes


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
    keys = {name: VALUES.get(name, ANY) | ANY for name in read_fields(cls) if name != "extends"}
    optional = {**keys, "other": ANY} if cls is model.Launch else keys
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
    for name, field in read_fields(model.JobSpec).items()
    if is_record(field.kinds[0].type)
}
PART = st.one_of(
    *(part.map(lambda value, name=name: {name: value}) for name, part in PARTS.items()),
    one_of_keys(model.JobSpec),
)


@given(PART, PART)
def test_the_schema_accepts_whatever_jobgen_accepts(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    job = {**GOOD_JOB, **one, **other}
    assert problems(json.dumps(job)) or JOB.is_valid(job)


@given(
    st.fixed_dictionaries(
        {"scheduler": st.sampled_from(["slurm", "pbs", "lsf"])},
        optional={name: ANY for name in SiteProfile._fields if name != "scheduler"},
    )
)
def test_the_schema_accepts_whatever_profile_jobgen_accepts(profile: dict[str, Any]) -> None:
    assert profile_problems(json.dumps(profile)) or SITE.is_valid(profile)


# draft-07's own, of which a strict validator such as ajv knows no other.
KEYWORDS = {
    *("$schema", "$comment", "$ref", "title", "description", "definitions", "type", "properties"),
    *(
        "additionalProperties",
        "dependencies",
        "propertyNames",
        "required",
        "not",
        "anyOf",
        "allOf",
        "if",
        "then",
    ),
    *("pattern", "enum", "examples", "default", "items", "minItems", "maxItems", "minimum"),
    "maximum",
}


def list_keywords(schema: Any) -> Iterator[str]:
    for key, value in schema.items() if isinstance(schema, dict) else ():
        yield key
        if key in ("properties", "definitions", "dependencies"):
            for inner in value.values():
                yield from list_keywords(inner)
        elif key not in ("default", "enum", "examples"):
            for inner in value if isinstance(value, list) else [value]:
                yield from list_keywords(inner)


def test_a_strict_validator_knows_every_word_of_the_schemas() -> None:
    for what in ROOTS:
        assert set(list_keywords(json.loads(write_schema(what)))) <= KEYWORDS


AJV_VERSION = "8.20.0"
# Compiles a schema with all rules of strict mode; says of each document whether it is valid.
IN_AJV = """\
const Ajv = require(process.argv[1]).default;
const [schema, documents] = JSON.parse(require("fs").readFileSync(0));
const ajv = new Ajv({strict: true});
const validate = ajv.compile(schema);
console.log(JSON.stringify(documents.map(document => validate(document))));
"""


@pytest.mark.slow
def test_ajv_takes_both_schemas_in_strict_mode_and_finds_as_jsonschema_does() -> None:
    package = fetch_package("ajv", AJV_VERSION)
    jobs, profiles = [], []
    for text, _ in corpus():
        try:
            jobs.append(as_editors_read(yaml_nodes.parse(text, file="job.yaml")))
            json.dumps(jobs[-1], allow_nan=False)
        except SpecError:
            continue
        except ValueError:  # JSON has no such number
            jobs.pop()
    for path in PROFILES:
        profiles.append(as_editors_read(yaml_nodes.read(str(path))))
        profiles.append({**profiles[-1], "scheduler": "lsf"})
    assert len(jobs) >= 250
    for what, validator, documents in (("job", JOB, jobs), ("site", SITE, profiles)):
        done = subprocess.run(
            ["node", "-e", IN_AJV, str(package)],
            input=json.dumps([json.loads(write_schema(what)), documents]),
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == list(map(validator.is_valid, documents)), what


def test_a_missing_key_is_called_by_its_name() -> None:
    validator = Draft7Validator(json.loads(write_schema("job")))
    (error,) = validator.iter_errors({"name": "a", "resources": {}})
    assert error.message == "'run' is a required property"
    assert not list(validator.iter_errors({"extends": "base.yaml"}))


def test_an_editor_completes_sites_and_queues() -> None:
    keys = json.loads(write_schema("job", queues=["b", "a"]))["properties"]
    assert "nci-gadi" in keys["site"]["examples"]
    assert keys["queue"]["examples"] == ["a", "b"]
