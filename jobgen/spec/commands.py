"""Check the words of a program before anything runs: launchers among them, a shell's words, files.

jobgen starts one program on every node, for every process. A launcher among its words would start
more of them: separate process groups, each of which ends well and has trained alone.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence

from jobgen.errors import Position
from jobgen.spec.fields import ShellPath
from jobgen.spec.launchers import (
    find_launch,
    find_launcher,
    find_launcher_in_text,
    find_module_launcher,
    name_kind,
    read_names,
    show_program,
    split_words,
)
from jobgen.spec.tables import Conflict, explain, read_rows

_OF_SHELL = r"&&|\|\|?|;;?|&|[0-9]?[<>]{1,2}(&[0-9])?|2>&1"
_WITH_VALUE = r"--?[A-Za-z][\w.-]*:?[ \t]"  # an option and its value in one word


def check_words(key: str, words: Sequence[str]) -> Iterator[Conflict]:
    """Yield the words of `run.command` or `run.args` that are a shell's, or that it would part."""
    for index, (before, word) in enumerate(zip(("", *words), words, strict=False)):
        if word.isalnum():  # most are
            continue
        joined = before not in ("-c", "-e") and re.match(_WITH_VALUE, word)
        if joined or re.fullmatch(_OF_SHELL, word):
            for _, message, hint in _explain("word", word, words):
                yield f"{key}[{index}]", message, hint


def check_start(
    key: str, words: Sequence[str], *, own_launch: bool, one_node: bool
) -> Iterator[Conflict]:
    """Yield what is wrong with the words of `run.command`, or with the one of `run.module`.

    `own_launch` says that jobgen starts one process on each node, which may start more;
    `one_node`, that the job has one node.
    """
    first, named = words[0], key == "module"
    odd = r"\.py$|^python" if named else r"\s|^[A-Za-z_]\w*="
    launcher = find_module_launcher(first) if named else find_launcher([*first.split(), *words[1:]])
    if launcher and not own_launch:
        yield from _explain(key, first, words, launcher=launcher, one_node=one_node)
    elif re.search(odd, first) or first in read_names("shell_words"):
        yield from _explain(key, first, words)
    if not (named or is_shell_command(words)):  # whose words are for the shell
        yield from check_words(key, words)


def check_script(script: str) -> Iterator[Conflict]:
    """Yield what is wrong with the file of `run.script`, which Python is to run."""
    if re.fullmatch(r"(?!\w+://)\S+\.py", script):
        return
    line = _read_launch(script)
    yield from _explain("script", script, split_words(line), launcher=find_launcher_in_text(line))


def _read_launch(path: str) -> str:
    """Return how a shell script that is here starts something, without variables, or its path."""
    if not path.endswith((".sh", ".bash")) or not os.path.isfile(path):
        return path
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.sub(r"(?<=\.py) .*\$.*", "", find_launch(file.read())) or path


def _explain(
    key: str, text: str, words: Sequence[str], *, launcher: str = "", one_node: bool = False
) -> Iterator[Conflict]:
    """Yield what is wrong with a script, module, command or word of one, and what to write."""
    # Only an error needs the table.
    from jobgen.spec.table import find_rule
    from jobgen.spec.words import describe
    from jobgen.spec.yaml_nodes import Scalar

    lines = [word for word in words if re.search(r"^[\w./]+ ", word)]
    facts = describe(Scalar(Position(""), text, "str"), key) | {
        "quoted": repr(text),
        "line": " ".join(words),
        "launcher": launcher,
        "kind": name_kind(launcher) if launcher else "",
        "program": show_program(words),
        "one_node": "yes" if one_node else "",
        "lines": "yes" if len(lines) > 1 else "",
    }
    if answer := find_rule("program_rules", facts):
        yield key, answer["fault"], answer["say"]


def walk_texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text in a value of a spec, after its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from walk_texts(inner, f"{path}.{key}")
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from walk_texts(inner, f"{path}[{index}]")


def find_unexpanded(path: str, text: str) -> Iterator[Conflict]:
    """Yield a value that the program gets as it is, and that others fill in."""
    expands = isinstance(text, ShellPath)
    if set("%^" if expands else "$`~{%^").isdisjoint(text):
        return
    facts = {"path": path, "text": text}
    facts["also"] = "" if path.startswith("run.") else ", or export it in environment.setup"
    facts["line"] = repr(text) if re.search(r"[][{},#]|: ", text) else text
    facts["place"] = "in run.args, as no value of an array expands: " * path.startswith("array")
    for rule, form in read_rows("filled_in.txt", room="spec"):
        match = re.search(form, text) if rule == "text_job" or not expands else None
        if match:
            yield explain(rule, facts | match.groupdict())
            return


def is_shell_command(words: Sequence[str]) -> bool:
    """Return whether a command's words are for a shell, which expands `$`: bash, srun bash -c."""
    with_code = (one for one, option in itertools.pairwise(words) if re.fullmatch(r"-\w*c", option))
    starts = map(os.path.basename, (*words[:1], *with_code))
    return not read_names("shells").isdisjoint(starts)
