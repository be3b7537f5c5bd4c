"""What to write instead of a key or a value that a spec does not have. Only an error imports this.

The words and the sentences are data, in `data/words.yaml`; this applies them:

- A key is looked up where it stands, then everywhere: by its words, then by their parts.
- Its value goes along. A hint shows it where it belongs, or what to write there in its place; a
  key that only a part of the name is like is named if the value is one for it.
- A key that nothing is known of gets the keys that there are, with what each is for, and no guess.

In a sentence $NAME stands for a group of the rule's pattern, or a value that `describe` lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as AnySequence
from functools import cache
from typing import Any, get_args

from jobgen.errors import Position, Problem
from jobgen.records import NamedTuple
from jobgen.spec.fields import Expandable, Kind, Parsed, Pattern, is_record, read_fields
from jobgen.spec.launchers import find_launcher, find_module_launcher, name_kind, split_words
from jobgen.spec.table import fill, find_rule, load_table
from jobgen.spec.units import parse_ranges
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence


class Hint(NamedTuple):
    """What to write, and the path that is meant, if it is one alone."""

    text: str
    meant: str = ""


# Returns what is wrong with a node as one of some kinds, at a path: `bind.find_faults`.
Check = Callable[..., list[Problem]]


class _Stranger(NamedTuple):
    """A key and its value, in the record of type `cls` at `path`, which does not have it.

    `root` is the type of the whole document.
    """

    key: str
    node: Node
    path: str
    cls: Any
    root: Any
    check: Check
    inner: bool = False  # below a key that is looked at as a group

    @property
    def place(self) -> str:
        """The path of the record as the table has it: that of any role is `roles`."""
        place = re.sub(r"^roles\.\w+(?=\.|$)", "roles", self.path)
        return "value" if self.cls is Expandable else place or "spec"

    @property
    def is_in_job(self) -> bool:
        """Whether it stands in a job spec, not in a profile or the user's own config."""
        return hasattr(self.root, "alternatives")

    def takes(self, path: str, node: Node | None = None) -> bool:
        """Whether the key at a path takes the value, or another one, as it is."""
        kinds = self.kinds(path)
        return bool(kinds) and not self.check(node or self.node, kinds, path)

    def suits(self, path: str) -> bool:
        """Whether the value has a shape that the key at a path takes; text has to be text."""
        switch = getattr(self.node, "kind", "") == "bool"
        fit = [kind for kind in self.kinds(path) if kind.fits(self.node)]
        return any(not switch or kind.type is bool or get_args(kind.type) for kind in fit)

    def kinds(self, path: str) -> tuple[Kind, ...]:
        """Return what the key at a path may be."""
        parent, _, name = path.rpartition(".")
        if parent == self.path and (own := read_fields(self.cls).get(name)):
            return own.kinds
        return list_paths(self.root).get(path, ())

    def list_faults(self, path: str) -> list[Problem]:
        """Return what is wrong with the value at a path, with hints unless keys may stand there."""
        kinds = self.kinds(path)
        wanted = any(kind.type is dict or is_record(kind.type) for kind in kinds)
        root = None if isinstance(self.node, Mapping) and wanted else self.root
        return self.check(self.node, kinds, path, root)

    def add_unit(self, path: str) -> str:
        """Return the value with the unit that the key names, as in `timeout_min: 120`."""
        units, text = load_table()["units"], getattr(self.node, "text", "")
        for part in re.findall(r"[a-z]+", normalize(self.key))[::-1]:
            node = Scalar(self.node.where, f"{text}{units.get(part, '')}", "str")
            if part in units and text and self.takes(path, node):
                return node.text
        return ""


@cache
def list_synonyms() -> dict[str, str]:
    """Return the words of others, each with the path of the spec that it stands for."""
    rows = load_table()["keys"].items()
    return {word: path for path, words in rows for word in words.split()}


@cache
def list_paths(cls: type, path: str = "") -> dict[str, tuple[Kind, ...]]:
    """Return what every key of a record takes, and of the records in it, by its path."""
    paths: dict[str, tuple[Kind, ...]] = {}
    for name, field in read_fields(cls).items():
        inner = _join(path, name)
        paths[inner] = field.kinds
        for kind in field.kinds:
            if is_record(kind.type):
                paths |= list_paths(kind.type, inner)
    return paths


# --- unknown keys ---


def suggest_key(key: str, node: Node, *, path: str, cls: type, root: type, check: Check) -> Hint:
    """Return what to write for a key that the record of type `cls` at `path` does not have.

    `node` is its value, `root` the type of the whole document. The text is empty without a hint.
    """
    return next(filter(None, _list_hints(_Stranger(key, node, path, cls, root, check))), Hint(""))


def list_keys(key: str, path: str, cls: type, root: type, *, brief: bool = False) -> str:
    """Return what to do about a key that nothing is known of; unless `brief`, with those known."""
    stranger = _Stranger(key, Mapping(Position("")), path, cls, root, list)
    other = load_table()["defaults"].get(stranger.place, "") if stranger.is_in_job else ""
    fields, width = read_fields(cls), max(map(len, read_fields(cls)))
    rows = (f"\n    {name:{width}}  {_brief(field.description)}" for name, field in fields.items())
    known = "" if brief else f"the choices are{''.join(rows)}"
    return "; ".join(filter(None, (fill(other, {"key": key}), known)))


def _brief(description: str) -> str:
    return re.split(r"[.;](?:\s|$)|, (?:such|or|as)\b", description, maxsplit=1)[0]


def _list_hints(stranger: _Stranger) -> Iterator[Hint | None]:
    """Yield what the key can mean, the surest first."""
    key, node, path, cls, root = stranger[:5]
    word, known = normalize(key), read_fields(cls).keys()
    plain = word.replace("_", "")
    yield from (
        _point(stranger, _join(path, one)) for one in known if plain == one.replace("_", "")
    )
    if isinstance(node, Mapping) and len(known & node.items.keys()) > 1:
        yield Hint(f"write its keys here, without {key}")
    if cls is not Expandable:
        bare = re.sub(load_table()["prefixes"], "", word)
        yield from (_look_up(stranger, reading) for reading in dict.fromkeys((word, plain, bare)))
        parts = frozenset(_split(key))
        if same := _list_parts(root).get(parts) if stranger.is_in_job else "":
            hint = _look_up(stranger, same)
            sure = hint and (len(parts) > 1 or not hint.meant or stranger.suits(hint.meant))
            yield hint if sure else None
    if near := find_near(word, known):
        yield _point(stranger, _join(path, near))
    if stranger.is_in_job:
        yield _apply(stranger, "own_rules", word)
        yield _apply(stranger, "late_rules", word)
        yield _unfold(stranger) if path in ("", "resources") else None
        yield from _compare_parts(stranger)


def _look_up(stranger: _Stranger, word: str) -> Hint | None:
    """Return the hint for a word of the table, or for a name that the schema has elsewhere."""
    _, node, path, _, root = stranger[:5]
    named = [other for other in list_paths(root) if other.rpartition(".")[2] == word]
    if not stranger.is_in_job:
        return _point(stranger, *named) if named else None
    for name, words in load_table()["inside"].get(stranger.place, {}).items():
        kinds = stranger.kinds(_join(path, name))
        odd = getattr(node, "kind", "str") != "str" and kinds  # a number is no name
        if word in words.split() and not (odd and not any(kind.fits(node) for kind in kinds)):
            return _point(stranger, _join(path, name))
    target = list_synonyms().get(word, "")
    for section in ("key_rules", "answers"):
        if hint := _apply(stranger, section, word, target):
            return hint
    if target or named:
        return _point(stranger, *([target] if target else named))
    value = node.text if isinstance(node, Scalar) else ""
    return None if isinstance(node, Mapping) else point_to_directive(word, value)


def _apply(stranger: _Stranger, section: str, word: str, target: str = "") -> Hint | None:
    """Return the hint of the first rule that holds for a word, which stands for a target."""
    facts = describe(stranger.node, stranger.path) | {
        "key": stranger.key,
        "word": word,
        "words": f"{word} {stranger.place}.{word}",
        "means": target,
        "within": stranger.place,
        "unfit": "yes" * (not stranger.takes(target)),
    }
    answer = find_rule(section, facts)
    if "say" not in answer:
        return _point(stranger, answer["use"]) if answer else None
    own = _apply(stranger, "own_rules", word) if "argument" in answer else None
    own = _unfold(stranger) if "unfold" in answer else own
    return own or Hint(answer["say"], answer.get("use", ""))


def _unfold(stranger: _Stranger) -> Hint | None:
    """Return where the keys below a key belong, if most of them have a place."""
    inner, root = getattr(stranger.node, "items", ()), stranger.root
    if stranger.inner or not isinstance(stranger.node, Mapping) or not 0 < len(inner) <= 12:
        return None
    placed = {}
    for key, node in stranger.node.items.items():
        one = _Stranger(key, node, "", root, root, stranger.check, inner=True)
        path = (
            key
            if key in read_fields(root)
            else next(filter(None, _list_hints(one)), Hint("")).meant
        )
        if path and (path == "directives" or one.suits(path)):
            placed[key] = path
    if set(placed.values()) <= {"name"} or 2 * len(placed) < len(inner):
        return None
    words = ", ".join(f"{path} for {key}" for key, path in placed.items())
    return Hint(f"its keys belong elsewhere: write {words}")


def _compare_parts(stranger: _Stranger) -> Iterator[Hint | None]:
    """Yield hints by the words of the table that a key is like, or that a part of it is."""
    whole, known = _split(stranger.key), _list_parts(stranger.root)
    # Two parts of three, or more, name the thing; of fewer, the last one that is a key's does.
    within = [one for one in known if one < {*whole} and 3 * len(one) >= 2 * len({*whole})]
    near = find_near(normalize(stranger.key), known.values(), cutoff=0.9)
    alike = [known[one] for one in within if len(within) == 1] + [near] * bool(near)
    yield from (_look_up(stranger, other) for other in alike)
    vague = load_table()["vague"].split()
    parts = [one for one in _split(stranger.key.partition("_per_")[0]) if one not in vague]
    words = [known[frozenset([part])] for part in parts if frozenset([part]) in known]
    hints = [hint for word in words if (hint := _look_up(stranger, word))]
    if len({hint.meant.partition(".")[0] for hint in hints}) == 1 and hints[-1].meant:
        text, meant = hints[-1]
        text = text if text.startswith("write ") else f"write {meant}"
        yield hints[-1] if stranger.takes(meant) else Hint(f"perhaps {text}; else remove it")


@cache
def _list_parts(root: type) -> dict[frozenset[str], str]:
    """Return the words of the table and the names of keys by the parts that they are made of."""
    names = [path.rpartition(".")[2] for path in list_paths(root)]
    answers = [word for row in load_table()["answers"] for word in row["words"].split()]
    words = [*names, *list_synonyms(), *(word for word in answers if "." not in word)]
    return {parts: word for word in reversed(words) if (parts := frozenset(_split(word)))}


def _split(key: str) -> list[str]:
    """Return the parts of a key in order, in the singular, by the word that the table has."""
    fillers, same = load_table()["fillers"].split(), load_table()["same"]
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", key)]
    parts = [re.sub(r"(?<=ss)es$|(?<=[^su])s$", "", part) for part in parts]
    return [same.get(part, part) for part in parts if part not in fillers]


def point_to_directive(word: str, value: str = "") -> Hint | None:
    """Return the hint for a scheduler's option that has no key, with the value that was given."""
    for form, words in load_table()["options"].items():
        if word in words.split():
            option = word if form.startswith("#PBS") else word.replace("_", "-")
            line = form.format(option).replace("...", value or "...")
            return Hint(f"write directives: ['{line}']", "directives")
    return None


def _point(stranger: _Stranger, *paths: str) -> Hint:
    """Say where a thing belongs, and what to write there: the one of `paths` that takes it."""
    key, node, path, cls, _ = stranger[:5]
    target = min(paths, key=lambda one: (not stranger.takes(one), one.count("."), one))
    parent, _, name = target.rpartition(".")
    if parent.endswith("resources") and (short := name.partition("_per_")[0]) in read_fields(cls):
        target, parent, name = _join(path, short), path, short  # a role's own
    examples = load_table()["examples"]
    usual = examples.get(target, examples.get(name, "..."))
    here, example, fault, more = parent == path, f"{name}: {show(node)}", "", ""
    per = [_split(one.partition("per_")[2]) for one in (normalize(key), name)]
    if not stranger.suits(target) or (all(per) and per[0] != per[1]):
        example = f"{name}: {usual}"
    if faults := stranger.list_faults(target):
        with_unit = stranger.add_unit(target)
        line = re.match(rf"write ({name}: .*?)(?:, (?:or|for) .*|(; .*))?$", faults[0].hint)
        more = (line and line[2]) or ""
        written = f"{name}: {with_unit}" if with_unit else line[1] if line else ""
        fault = f" write {written}" if written else f" {faults[0].hint}" * bool(faults[0].hint)
        example = written or f"{name}: {usual}"
    remark = load_table()["remarks"].get(target, "")
    if here:
        return Hint(f"did you mean {name!r}{remark if path else ''}?{fault}{more}", target)
    role = re.match(r"roles\.\w+", path)
    if role and target.partition(".")[0] in load_table()["own_of_roles"].split():
        target = f"{role[0]}.{target}"
    for outer in reversed(target.removeprefix(f"{path}.").split(".")[:-1]):
        example = f"{outer}: {{{example}}}"
    remark = remark if parent else ", at the top level" * bool(path)
    return Hint(f"write {target}{remark}, as in {example}{more}", target)


def show(node: Node) -> str:
    """Return a value as YAML has it on one line; of a long one, `...`."""
    if isinstance(node, Scalar):
        plain = re.fullmatch(r"[\w./$~+(@-]([\w ./$~%@+=:*()-]*[\w./$~%@+=*()-])?", node.text)
        text = node.text if plain and ": " not in node.text else repr(node.text)
    elif isinstance(node, Sequence):
        text = f"[{', '.join(map(show, node.items))}]"
    else:
        text = f"{{{', '.join(f'{key}: {show(item)}' for key, item in node.items.items())}}}"
    return text if len(text) <= 80 and "\\n" not in text else "..."


def normalize(word: str) -> str:
    """Return a word as the table has it: `maxRunTime` is `max_run_time`."""
    return re.sub(
        r"[\s./-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", word.strip("-_ ")).lower()
    )


# --- values ---


_NAMES: dict[Any, str] = {str: "text", int: "number", bool: "switch", tuple: "list"}


def suggest_value(
    node: Node, kinds: AnySequence[Kind], path: str, *, check: Check, wrong: str = "form"
) -> str:
    """Return what to write for a value that its key does not take; empty without a hint.

    `wrong` is `kind` for a value of the wrong kind, such as a list instead of text.
    """
    names = {_NAMES.get(kind.type, "keys") for kind in kinds if not isinstance(kind.rule, Parsed)}
    takes = " ".join(names)
    facts = describe(node, path) | {"takes": takes, "only": takes * (len(names) == 1)}
    if answer := find_rule("value_rules", facts | {"wrong": wrong}):
        return answer["say"]
    if isinstance(node, Scalar) and (better := _repair(node, kinds, check)):
        return f"write {better}" if path.endswith("]") else f"write {facts['name']}: {better}"
    return ""


def _repair(node: Scalar, kinds: AnySequence[Kind], check: Check) -> str:
    """Return text that one of `kinds` takes, once signs, words and units are written its way.

    For a record it is the one key that takes the value.
    """
    better = node.text
    fixed = [kind for kind in kinds if kind.type is int or isinstance(kind.rule, Parsed | Pattern)]
    for old, new in load_table()["repairs"].items():
        better = re.sub(old, new, better).strip()
        form = "int" if better.isdecimal() else "str"
        if better != node.text and not check(Scalar(node.where, better, form), tuple(fixed)):
            return better
    records = (read_fields(kind.type).items() for kind in kinds if is_record(kind.type))
    names = [one for fields in records for one, key in fields if not check(node, key.kinds)]
    return f"{{{names[0]}: {node.text}}}" if len(names) == 1 else ""


def suggest_word(text: str, known: Iterable[str], path: str) -> str:
    """Return what to write for a word that is none of the `known` ones at `path`."""
    known = tuple(known)
    name = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    word = text.strip().lower()
    for value, words in load_table()["values"].get(name, {}).items():
        if word in words.split() and (value in known or value[0] == "["):
            return f"write {value}" if value[0] != "[" else f"write {name}: {value}"
    if near := find_near(word, known, cutoff=0.7):
        return f"did you mean {near!r}?"
    return f"write one of {', '.join(known)}"


def suggest_separation(key: str, known: Iterable[str]) -> str:
    """Return what to write for a key without a value that stands behind another one in {...}."""
    match = re.fullmatch(r"(\w+) ?([= ]) ?(.+)", key)
    if match and (match[2] == "=" or match[1] in known):
        return f"write {match[1]}: {match[3]}"
    return "a comma ends a value in {...}; quote it if it is one value, write [...] for several"


def describe(node: Node, path: str = "") -> dict[str, str]:
    """Return what a rule and its sentence can say of the value at a path."""
    text = node.text if isinstance(node, Scalar) else ""
    items = node.items if isinstance(node, Sequence) else []
    words = [item.text for item in items if isinstance(item, Scalar)]
    words = words if len(words) == len(items) else []
    inner = node.items if isinstance(node, Mapping) else {}
    indices, _, at_once = text.partition("%")
    throttle = f", at_once: {at_once}" if at_once.isdecimal() else ""
    try:
        numbers = parse_ranges(indices)
    except ValueError:
        numbers = []
    launcher, place = find_launcher(split_words(text)), re.sub(r"\[\d+\]", "", path)
    modules = [one for one in re.split(r"[\s,;]+", text.strip("-")) if one]
    return {
        "given": {Scalar: "text", Sequence: "list", Mapping: "keys"}[type(node)],
        "at": place,
        "path": path,
        "name": place.rpartition(".")[2] or "it",
        "text": text,
        "quoted": repr(text),
        "value": show(node),
        "plain": text or ",".join(words) or "...",
        "size": str(len(items) or ""),
        "dashes": "yes" * any(isinstance(item, Mapping) for item in items),
        "first": next(iter(words), ""),
        "args": f", args: [{', '.join(words[1:])}]" if words[1:] else "",
        "joined": "&".join(words),
        "pairs": ", ".join(word.replace("=", ": ", 1) for word in words if "=" in word),
        "single": "yes" * any("=" not in word for word in words),
        "names": ", ".join(inner),
        "lists": "yes" * any(not isinstance(item, Scalar) for item in inner.values()),
        "slug": re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._"),
        "tasks": f"{text if text.isdecimal() else len(numbers) or 10}{throttle}",
        "throttle": throttle,
        "indices": ", ".join(map(str, numbers if 0 < len(numbers) < 10 else indices.split(","))),
        "modules": ", ".join(one for one in modules if one not in ("module", "ml", "load", "add")),
        "launcher": launcher,
        "program": show_program(split_words(text)) if launcher else "",
    }


# --- programs ---


def explain_program(key: str, text: str, words: AnySequence[str]) -> tuple[str, str] | None:
    """Return what is wrong with a script, module, command or word of one, and what to write."""
    node = Scalar(Position(""), text, "str")
    answer = find_rule("program_rules", describe(node, key) | {"line": " ".join(words)})
    return (f"{text!r} {answer['fault']}", answer["say"]) if answer else None


def explain_launcher(
    launcher: str, words: AnySequence[str], *, one_node: bool = False
) -> tuple[str, str]:
    """Return what is wrong with a launcher within the launcher, and what to write."""
    facts = {
        "kind": name_kind(launcher),
        "launcher": launcher,
        "program": show_program(words),
        "file": "yes" * any(word.endswith(".py") for word in words),
        "one_node": "yes" * one_node,
    }
    answer = find_rule("launcher_rules", facts)
    return answer["fault"], answer["say"]


def show_program(words: AnySequence[str]) -> str:
    """Return the program behind a launcher as keys of `run`."""
    words = [part for word in words for part in (word.split() if " " in word else [word])]
    for index, word in enumerate(words):
        if word.endswith(".py"):
            rest = ", ".join(words[index + 1 :])
            return f"script: {word}" + (f", args: [{rest}]" if rest else "")
        if word in ("-m", "--module") and index and words[index - 1 : index] != ["python"]:
            module = next(iter(words[index + 1 :]), "")
            if module and not find_module_launcher(module):
                return f"module: {module}"
    return "script: train.py"


# --- spelling ---


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so, or the empty string.

    The first letters or the last have to agree: `cores` is not `nodes`. Words of four letters that
    differ in one are two words: `size` is not `site`.
    """
    from difflib import get_close_matches

    for other in get_close_matches(word, list(known), n=3, cutoff=cutoff):
        if len(other) == len(word) <= 4 and sorted(other) != sorted(word):
            continue
        if other[:2] == word[:2] or (other[:1] == word[:1] and other[-2:] == word[-2:]):
            return other
        if other[1:] == word or word[1:] == other or sorted(other) == sorted(word):
            return other
    return ""


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
