"""What cannot be read as YAML, or is no job spec's YAML: each fault with its place."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import EXAMPLES, MINIMAL, complaint, edited, jobgen, load

EMPTY = (
    "job.yaml:1:1: is empty; write at least name, run, resources; `jobgen init new.yaml` writes one"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", EMPTY, id="empty file"),
        pytest.param("# nothing\n", EMPTY, id="comments only"),
        pytest.param("---\n", EMPTY, id="empty document"),
        pytest.param("~\n", EMPTY, id="null"),
        pytest.param(
            "name\n", "job.yaml:1:1: holds text ('name'), not keys and values", id="scalar"
        ),
        pytest.param("- a\n", "job.yaml:1:1: holds a list, not keys and values", id="list"),
        pytest.param(
            "name: a\nresources:\n\tnodes: 2\n\twalltime: 2h\n",
            "job.yaml:3:1: a tab; indent with spaces\njob.yaml:4:1: a tab; indent with spaces",
            id="every line that a tab indents",
        ),
        pytest.param(
            edited(("", "name: b\n")),
            "job.yaml:5:1: duplicate key 'name'; line 1 already has it; merge them",
            id="duplicate key",
        ),
        pytest.param(
            "a: " + "[" * 500_000,
            "job.yaml:1:35: is nested deeper than 32 levels",
            id="nesting that would overflow the stack",
        ),
        pytest.param(
            "a: " + "[" * 10_000_000,
            "job.yaml: is larger than 1 MiB; a job spec is a short file",
            id="10 MB of nesting",
        ),
        pytest.param(
            edited(("", "environment: &here {modules: *here}\n")),
            "job.yaml:5:14: an alias that holds itself",
            id="alias that holds itself",
        ),
        pytest.param(
            edited(("", "account: *nowhere\n")),
            "job.yaml:5:10: a value that begins with *, which means something else in YAML;"
            " put it in quotes: '*nowhere'",
            id="undefined alias",
        ),
        pytest.param(
            edited(("", "account: !secret x\n")),
            "job.yaml:5:10: unknown tag '!secret'; write the value itself, or extends: FILE"
            " for another spec",
            id="tag of a scalar",
        ),
        pytest.param(
            edited(("", "environment: !!python/object:os.system {}\n")),
            "job.yaml:5:14: unknown tag 'tag:yaml.org,2002:python/object:os.system'; "
            "write the value itself, or extends: FILE for another spec",
            id="tag of a mapping",
        ),
        pytest.param(
            edited(("", "---\nname: b\n")),
            "job.yaml:5:1: begins a second document; write one spec in each file"
            "; one waits for the other by after: {afterok: [ID]}",
            id="second document",
        ),
        pytest.param(
            MINIMAL.encode() + b"account: caf\xe9\n",
            "job.yaml:5:13: byte 0xe9 is not UTF-8; save the file as UTF-8",
            id="Latin-1",
        ),
        pytest.param(
            MINIMAL.encode("utf-16"),
            "job.yaml:1:1: byte 0xff is not UTF-8; save the file as UTF-8",
            id="UTF-16",
        ),
        pytest.param(
            "# é and →\n" + edited(("", "account: é\x07b\n")),
            "job.yaml:6:11: character '\\x07' is not allowed in YAML",
            id="control character, its column counted in characters",
        ),
        pytest.param(
            edited(("", 'account: "a\\u001bb"\n')),
            "job.yaml:5:10: account: holds the control character '\\x1b'",
            id="control character by an escape",
        ),
        pytest.param(
            '"a\\nb": 1\n' + MINIMAL,
            "job.yaml:1:1: key 'a\\nb' holds a control character",
            id="control character in a key",
        ),
        pytest.param("? [a, b]\n: c\n", "job.yaml:1:3: a key must be text", id="list as key"),
        pytest.param(
            "{{ a }}: c\n",
            "job.yaml:1:2: {{ a }} is a template to fill in; write the value in its place",
            id="template as key",
        ),
        pytest.param(
            "name: {{ a }}\nqueue: [{{ b }}]\nsite: {{ c }}-x\n",
            "job.yaml:1:8: {{ a }} is a template to fill in; write the value in its place\n"
            "job.yaml:2:10: {{ b }} is a template to fill in; write the value in its place\n"
            "job.yaml:3:8: {{ c }} is a template to fill in; write the value in its place",
            id="several templates",
        ),
        pytest.param(
            edited(("", "<<: {account: x}\n")),
            "job.yaml:5:1: merge keys ('<<') are not supported; write the keys out",
            id="merge key",
        ),
        pytest.param(
            edited(("", "account:\n")),
            "job.yaml:5:9: account: is empty; give it a value or remove the key",
            id="null value",
        ),
        pytest.param(
            edited(("", "environment: {venv: ~}\n")),
            "job.yaml:5:21: environment.venv: is empty; ~ alone is YAML's word for nothing: write "
            "a path such as ~/NAME, or remove the key",
            id="null path",
        ),
        pytest.param(
            "name: [a\n",
            "job.yaml:1:7: a list that does not end; write ] behind its last value",
            id="unclosed list",
        ),
        pytest.param(
            "name: 'a\n",
            "job.yaml:1:7: a quote that does not end; write another ' behind the value",
            id="unclosed quotes",
        ),
    ],
)
def test_each_fault_has_its_place(content: str | bytes, message: str) -> None:
    assert complaint(content) == message


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("\ufeff" + MINIMAL, id="byte order mark"),
        pytest.param(MINIMAL.replace("\n", "\r\n"), id="DOS line ends"),
        pytest.param(MINIMAL + "...\n", id="end marker"),
        pytest.param("---\n" + MINIMAL, id="start marker"),
        pytest.param(MINIMAL.replace("nodes: 2", "nodes:\t2"), id="tab after a colon"),
        pytest.param(MINIMAL.replace("name: a", "name: !!str a"), id="tag of the core schema"),
        pytest.param(
            MINIMAL.replace("{nodes: 2}", "&r {nodes: 2}"), id="anchor that nobody mentions"
        ),
    ],
)
def test_what_is_no_fault(content: str) -> None:
    assert load(content).spec == load(MINIMAL).spec


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("folder.yaml", "folder.yaml: Is a directory; name the YAML file in it"),
        (
            "nothing.yaml",
            "nothing.yaml: No such file or directory; `jobgen init` writes a first spec",
        ),
        ("a\nb.yaml", r"'a\nb.yaml': this name cannot stand in a comment of a script"),
    ],
)
def test_a_file_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder.yaml").mkdir()
    assert jobgen("render", path) == (3, "", message + "\n")


@pytest.mark.parametrize("kind", ["list", "mapping"])
def test_many_aliases_of_aliases_cost_nothing(kind: str) -> None:
    shape = "[{}]" if kind == "list" else "{{{}}}"
    name = (lambda n, m: "") if kind == "list" else (lambda n, m: f"{'abcdefghi'[m]}: ")
    lines = ["a0: &a0 " + shape.format(", ".join(f"{name(0, m)}x" for m in range(9)))]
    for n in range(1, 30):
        items = (f"{name(n, m)}*a{n - 1}" for m in range(9))
        lines.append(f"a{n}: &a{n} " + shape.format(", ".join(items)))
    told = "holds more than 100,000 values, counted as often as aliases repeat them"
    assert complaint("\n".join(lines)) == f"job.yaml: {told}"


def test_pyyaml_without_libyaml_reads_the_same() -> None:
    program = (
        "import sys\n"
        "if sys.argv.pop(1) == 'pure': sys.modules['yaml._yaml'] = None\n"
        "from jobgen.spec.load import load\n"
        "for path in sys.argv[1:]: print(load(path))\n"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program, which, *EXAMPLES],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for which in ("pure", "libyaml")
    }
    assert len(printed) == 1
    assert printed.pop().count("LoadedSpec") == len(EXAMPLES)
