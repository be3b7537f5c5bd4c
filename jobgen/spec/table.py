"""The table of words that people write instead of jobgen's own: `data/words.yaml`, as plain data.

Everything in it is text. It is read when something is wrong, and not before.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from string import Template
from typing import Any

from jobgen.output import Offered, offer_line
from jobgen.spec.launchers import split_words
from jobgen.spec.tables import read_table

# No spec has more characters.
_MOST_TEXT = 100_000


@cache
def load_table() -> dict[str, Any]:
    """Return the sections of the table by their names."""
    table = read_table("words.yaml")
    inside = [
        {"within": place, "words": words, "use": f"$path.{name}"}
        for place, rows in table["inside"].items()
        for name, words in rows.items()
    ]
    keys = [{"words": words, "use": path} for path, words in table["keys"].items()]
    options = [
        {"words": words, "say": f"write directives: ['{form}']", "use": "directives"}
        for form, words in table["options"].items()
    ]
    table["key_rules"] = inside + table["key_rules"] + table["answers"] + keys + options
    table["prompt_options"].sort(key=lambda row: "matches" not in row)
    return table


@cache
def list_words(*, keys: bool) -> set[str]:
    """Return the words that have a row for an option, and those for a key: none is misspelt."""
    table = load_table()
    rows = table["prompt_options"] + (table["key_rules"] if keys else [])
    words = {word for row in rows for word in row.get("words", "").split()}
    return words | {path.rpartition(".")[2] for path in table["keys"] if keys}


def list_section(*sections: str) -> set[str]:
    """Return the words of sections of the table."""
    return {word for section in sections for word in load_table()[section].split()}


@cache
def list_commands() -> set[str]:
    """Return the words that have a row for a command."""
    return {word for row in load_table()["commands"] for word in row.get("words", "").split()}


# In a sentence, a line to type: a command, and behind it its options or what was typed.
_LINE = re.compile(r"(\bjobgen [a-z]+ (?=[$-])[^`;]*)")
_QUOTED = re.compile(r"'[^']*'|\$\{\w+\}|\$\w+")  # what is one word of it


def fill(sentence: str, values: Mapping[str, str], *, line: bool = False) -> str:
    """Return a sentence with its values, without [[parts]] that lack one; what else has $ stays.

    In a line to type, as all of it is with `line`, each value is quoted as a shell needs it. $NEW
    is a new spec, which has the `stem` of a file that was typed.
    """
    forms = {"NEW": name_new(values.get("stem") or "new")} if "$NEW" in sentence else {}
    shell = dict[str, str]()
    for name, value in values.items():
        text = value.replace("\0", " ").strip()
        text = text if text.isprintable() else "..."
        if isinstance(value, Offered):
            shell[name], text = Offered(text), " ".join(shlex.split(text))
        forms |= _spell(name, text)
    lacking = "|".join(["-", *(name for name, text in forms.items() if text in ("", "NAME"))])
    parts = rf"\[\[[^]]*\$\{{?(?:{lacking})\b[^]]*\]\]|\[\[|\]\]"
    pieces = _LINE.split(re.sub(parts, "", sentence))
    for at, piece in enumerate(pieces):
        if line or at % 2:
            pieces[at] = _QUOTED.sub(lambda one: _fill_word(one[0], forms, shell), piece)
        else:
            pieces[at] = Template(piece).safe_substitute(forms | shell)
    return "".join(pieces)


def _spell(name: str, text: str) -> dict[str, str]:
    """Return a value in all forms that a sentence may ask for, by their names."""
    items = ", ".join(re.split(r"[:,] *|(?<!\d[eE])\+", text))
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", plain).strip("-._")
    forms = {name: text, f"lower_{name}": text.lower(), f"upper_{name}": text.upper()}
    forms |= {f"{name}_list": items, f"lower_{name}_list": items.lower()}
    forms |= {f"{name}_slug": slug, f"lower_{name}_slug": slug.lower()}
    forms[f"{name}_lists"] = re.sub(r": (?:'(.*?)'|([^'[,]+))", r": [\1\2]", text)
    forms[f"{name}_words"] = ", ".join(split_words(text))
    forms[f"{name}_keys"] = text.replace("=", ": ").replace(",", ", ")
    return forms


def _fill_word(word: str, values: Mapping[str, str], offered: Mapping[str, str]) -> str:
    """Return a word of a line to type with its values, quoted where a shell needs that."""
    plain, name = word.strip("'"), word.strip("${}")
    text = Template(plain).safe_substitute(values)
    return offered.get(name, word if text == plain else text and offer_line(text))


def _close(text: str) -> Offered:
    """Return a part of words to type as such words: a name in quotes may have been cut off."""
    for whole in (text, f"{text}'", f"'{text}"):
        with suppress(ValueError):
            return Offered(whole if shlex.split(whole) else "")
    return offer_line(text)


def join_words(words: Iterable[str]) -> Offered:
    """Return words as a rule reads them: to type, with no blank in any."""
    return Offered(" ".join(offer_line(one).replace(" ", "\0") for one in words))


# What a condition of a rule is compared with, where that has another name; conditions that are
# regular expressions for the whole of it, or for a part; and what a rule answers.
_FACTS = {"form": "word", "matches": "plain"}
_WHOLE = ("form", "key", "means", "at", "path", "message", "beside")
_PARTS = ("matches", "line", "source")
_ANSWERS = ("say", "type", "use", "fault", "unfold")


def find_rule(section: str, facts: Mapping[str, str]) -> dict[str, str]:
    """Return what the first rule of a section that holds for the facts answers; empty without one.

    As `read` it has what the rule's regular expressions have found, and their groups by name.

    Other conditions list words, one of which is the fact's; `needs` names a fact that is not empty.
    """
    for rule in load_table()[section]:
        values = dict(facts)
        if all(_holds(name, rule[name], facts, values) for name in rule if name not in _ANSWERS):
            given = (one for one in _ANSWERS if one in rule)
            answer = {one: fill(rule[one], values, line=one == "type") for one in given}
            groups = {name: text for name, text in values.items() if name not in facts}
            return {"read": ""} | groups | answer
    return {}


def _holds(name: str, wanted: str, facts: Mapping[str, str], values: dict[str, str]) -> bool:
    """Whether a condition holds; the groups of its regular expression are added to `values`."""
    fact = facts.get(_FACTS.get(name, name), "")
    if name not in _WHOLE + _PARTS:
        return bool(facts.get(wanted) if name == "needs" else {*wanted.split()} & {*fact.split()})
    match = (re.fullmatch if name in _WHOLE else re.search)(wanted, fact)
    if match:
        _take_groups(match, values, offered=isinstance(fact, Offered), part=name in _PARTS)
    return bool(match)


def _take_groups(
    match: re.Match[str], values: dict[str, str], *, offered: bool, part: bool
) -> None:
    """Add the groups of a match to `values`, and what it has read of a `part` of words."""
    for group, text in match.groupdict("").items():
        values[group] = _close(text) if offered else text
    if part:
        read = [*filter(None, match.groups() or [match[0]])]
        if offered:
            read = [word for text in read for word in shlex.split(_close(text))]
        values["read"] = " ".join([values.get("read", ""), *read])


def explain_syntax(lines: Sequence[str], number: int) -> tuple[int, int, str, str] | None:
    """Return line, column, fault and hint for text that is not YAML; None for an unknown slip.

    `number` is the line, from 1, at which the parser gave up.
    """
    for rule in load_table()["slips"]:
        last = min(number, len(lines))
        for at in range(last, max(0, last - 1 - int(rule["back"])), -1):
            text = "\n".join(lines[:at]) if "all" in rule else lines[at - 1]
            if match := re.search(rule["matches"], text):
                before, groups = text[: match.start("at")], match.groupdict("")
                line = before.count("\n") + 1 if "all" in rule else at
                column = len(before) - before.rfind("\n")
                return line, column, fill(rule["say"], groups), fill(rule["hint"], groups)
    return None


def explain_file(path: str, text: str) -> dict[str, str]:
    """Return what a file is that is not a spec, a hint, and `job` if it is one; or nothing."""
    for rule in load_table()["files"]:
        match = re.search(rule.get("text", ""), text)
        if match and re.search(rule.get("name", ""), path):
            stem, notebook, _ = path.partition(".ipynb")
            program = name_new(stem, ".py") if notebook else path
            starts, stem = name_spec(program), os.path.basename(program)[:-3]
            line = f"{starts} starts it: name that"
            if not names_program(starts, program):
                line = f"its spec starts it; type: {offer_init(program)[0]}"
            values = {"file": path, "stem": stem, "line": line, "spec": point_to_spec(path)}
            return {**rule, "hint": fill(rule["hint"], values | match.groupdict("NAME"))}
    return {}


def is_spec(path: str) -> bool:
    """Whether a file of YAML is here and has what a job runs, or extends one that has."""
    runs = re.search(r"(?m)^(?:run: *(?:[{#]|$)|roles:|extends:)", read_here(path))
    return bool(runs) and path.endswith((".yaml", ".yml"))


def point_to_spec(path: str) -> str:
    """Return which spec of this folder could be named in the place of a file, or what makes one."""
    own, here = os.path.normpath(path), sorted(os.listdir())
    specs = [one for one in filter(is_spec, here) if one != own]
    if len(specs) == 1:
        return f"the spec here is {specs[0]}: name that"
    if specs:
        return f"the specs here are {', '.join(specs[:5])}{', ...' * (len(specs) > 5)}"
    if "job.yaml" in here:
        return f"`{offer_line('jobgen', 'init', name_new())}` writes one"
    scripts = re.findall(load_table()["scripts"], "\n".join(here))[:1]
    lines = [offer_line("jobgen", "import", Path(one), "-o", "job.yaml") for one in scripts]
    make = [f"; `{line}` makes one of a script" for line in lines]
    return "".join(["`jobgen init` writes a first spec", *make])


def name_spec(program: str) -> str:
    """Return the only spec of this folder that has a word that is a program; else the usual one."""
    specs = [one for one in filter(is_spec, os.listdir()) if names_program(one, program)]
    return specs[0] if len(specs) == 1 else "job.yaml"


def name_new(stem: str = "new", end: str = ".yaml") -> str:
    """Return the name of a new file, by default of a spec, which is not here yet."""
    names = (f"{stem}{number}{end}" for number in itertools.chain([""], itertools.count(2)))
    return next(itertools.filterfalse(os.path.lexists, names))


def offer_init(program: str, option: str = "--script") -> tuple[Offered, str]:
    """Return the line that writes a spec of a program, and the name of that spec."""
    new, spec = ["jobgen", "init", option, program], "job.yaml"
    if os.path.exists(spec):
        spec = os.path.splitext(os.path.basename(program))[0] + ".yaml"
        new.append(spec)
    return offer_line(*new), spec


def names_program(spec: str, program: str) -> bool:
    """Whether a spec that is here has a word that is a program."""
    words = re.split(r"[\s'\"{}\[\],]+", read_here(spec))
    return os.path.normpath(program) in map(os.path.normpath, words)


def read_here(path: str) -> str:
    """Return the text of a file, which is not longer than a spec's; empty without one."""
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_TEXT)
