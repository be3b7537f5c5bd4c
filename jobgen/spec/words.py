"""What to write instead of a key or a value that a spec does not have. Only an error imports this.

The words and the sentences are data, in `data/words.yaml`; this applies them. First come the words
of other tools, then a name that the schema has elsewhere, then one that is spelt nearly so. Of one
part of a name a hint says what to write if that is what the key is about, and no more.

In a sentence $NAME stands for a group of the rule's pattern, or a value that `describe` lists.
$lower_NAME is it in lower case, $NAME_words its words and $NAME_list its parts between commas,
colons and plus signs, both as they stand within [...].
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from collections.abc import Sequence as AnySequence
from functools import cache
from typing import Any, Literal, get_args, get_origin

from jobgen.capabilities import list_capabilities
from jobgen.records import NamedTuple
from jobgen.spec.fields import Expandable, Kind, Parsed, Pattern, Range, is_record, read_fields
from jobgen.spec.launchers import find_launcher, find_module_launcher, name_kind, split_words
from jobgen.spec.table import fill, load_table
from jobgen.spec.units import parse_ranges
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence

Rule = dict[str, Any]


class Hint(NamedTuple):
    """What to write, and the path that is meant, if it is one alone."""

    text: str
    meant: str = ""


class _Stranger(NamedTuple):
    """A key and its value, in the record at `path`, which has the keys `known` and not this one.

    `root` is the type of the whole document.
    """

    key: str
    node: Node
    path: str
    known: Set[str]
    root: type

    @property
    def is_in_job(self) -> bool:
        """Whether it stands in a job spec, not in a profile or the user's own config."""
        return hasattr(self.root, "renamed")

    @property
    def place(self) -> str:
        """The path of the record as the table has it: that of any role is `roles`."""
        return re.sub(r"^roles\.\w+(?=\.|$)", "roles", self.path)


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


def suggest_key(key: str, node: Node, *, path: str, cls: type, root: type) -> Hint:
    """Return what to write for a key that the record of type `cls` at `path` does not have.

    `node` is its value, `root` the type of the whole document. The text is empty without a hint.
    """
    stranger = _Stranger(key, node, path, read_fields(cls).keys(), root)
    if cls is Expandable and not find_near(normalize(key), stranger.known):
        text = "put the word in quotes, because it contains ': '"
        if re.fullmatch(r"[\w-]+", key):
            text = f"write args: {{{key}: ...}}, or each word by itself"
        if not path.endswith("]"):
            text = f"write it out, as the program reads it: {path.rpartition('.')[2]}.{key}: ..."
        return Hint(text, f"{path}.value")
    return next(filter(None, _list_hints(stranger)), Hint(""))


def _list_hints(stranger: _Stranger) -> Iterator[Hint | None]:
    """Yield what the key can mean, the surest first."""
    key, node, path, known, root = stranger
    word, table = normalize(key), load_table()
    names = (name for name in known if word.replace("_", "") == name.replace("_", ""))
    yield from (_point_within(path, name) for name in names)
    if isinstance(node, Mapping) and len(known & node.items.keys()) > 1:
        yield Hint(f"write its keys here, without {key}")
    same = _list_parts(root).get(frozenset(_list_words(key)), word) if stranger.is_in_job else word
    for name in dict.fromkeys((word, same)):
        yield _answer(stranger, name, exact=name == word)
    if near := find_near(word, known):
        yield _point_within(path, near)
    if not stranger.is_in_job:
        return
    letters = [row.options.get(f"-{key}") for row in list_capabilities() if path == ""]
    targets = {target for target in letters if target and _takes(list_paths(root)[target], node)}
    if len(targets) == 1:
        yield _point_to(stranger, targets)
    yield _take_for_content(key, node, path)
    yield _apply_rules(table["late_rules"], stranger, word)
    for part, other in _find_like(stranger):
        hint = _answer(stranger, other)
        # One part of a name says what it is about, and not that the whole means the same.
        if hint and part:
            text = hint.text if hint.text.startswith("write ") else f"write {hint.meant}"
            hint = hint._replace(text=f"if it is about {part!r}, {text}; else remove it")
        yield hint
    default = table["defaults"].get(stranger.place, "")
    yield Hint(fill(default, {"key": key, "known": ", ".join(known)}))


def _answer(stranger: _Stranger, word: str, *, exact: bool = False) -> Hint | None:
    """Return the hint for a word of the table, or for a name that the schema has elsewhere."""
    _, node, path, _, root = stranger
    table, target = load_table(), list_synonyms().get(word, "") if stranger.is_in_job else ""
    if stranger.is_in_job:
        for name, words in table["inside"].get(stranger.place, {}).items():
            kinds = list_paths(root).get(_join(path, name), ())
            odd = getattr(node, "kind", "") in ("int", "float") and kinds  # a number is no name
            if word in words.split() and not (odd and not any(kind.fits(node) for kind in kinds)):
                return _point_within(path, name)
        rules = table["key_rules"] + table["answers"]
        if hint := _apply_rules(rules, stranger, word, target):
            return hint
    if paths := [target] * bool(target) or _list_named(word, root):
        return _point_to(stranger, paths, exact=exact and not target)
    if isinstance(node, Mapping) or not stranger.is_in_job:
        return None
    return point_to_directive(word, node.text if isinstance(node, Scalar) else "")


def _apply_rules(
    rules: AnySequence[Rule], stranger: _Stranger, word: str, target: str = ""
) -> Hint | None:
    """Return the hint of the first rule that holds for a word, which stands for a target."""
    key, node, path, _, _ = stranger
    for rule in rules:
        words = rule.get("words", word).split()
        if not ({word, f"{stranger.place}.{word}"} & {*words}):
            continue
        if not re.fullmatch(rule.get("means", ".*"), target):
            continue
        if not re.fullmatch(rule.get("form", ".*"), word):
            continue
        if values := _match(rule, stranger.place, node, key=key):
            if "say" not in rule:
                return _point_to(stranger, [rule["use"]])
            own = _take_for_content(key, node, path) if "argument" in rule else None
            return own or Hint(fill(rule["say"], values), rule.get("use", ""))
    return None


def _list_named(word: str, root: type) -> list[str]:
    """Return the paths of the keys that have a name, wherever they stand."""
    return [path for path in list_paths(root) if path.rpartition(".")[2] == word]


def _find_like(stranger: _Stranger) -> Iterator[tuple[str, str]]:
    """Yield the words of the table that a key is like, with the part that alone is like one."""
    key, root = stranger.key, stranger.root
    whole, known = frozenset(_list_words(key)), _list_parts(root)
    # Two parts of three, or more, name the thing; of fewer, the last one that is a key's does.
    within = [other for other in known if other < whole and 3 * len(other) >= 2 * len(whole)]
    yield from (("", known[other]) for other in within if len(within) == 1)
    if near := find_near(normalize(key), known.values(), cutoff=0.9):
        yield "", near
    vague = load_table()["vague"].split()
    parts = [part for part in _list_words(key.partition("_per_")[0])[::-1] if part not in vague]
    words = {part: known.get(frozenset([part]), "") for part in parts}
    synonyms = list_synonyms()
    paths = {
        part: [synonyms[word]] if word in synonyms else _list_named(word, root)
        for part, word in words.items()
    }
    agree = len(set(map(str, paths.values()))) == 1
    yield from (("" if agree else part, words[part]) for part in parts if paths[part])


@cache
def _list_parts(root: type) -> dict[frozenset[str], str]:
    """Return the words of the table and the names of keys by the parts that they are made of."""
    names = [path.rpartition(".")[2] for path in list_paths(root)]
    answers = [word for row in load_table()["answers"] for word in row["words"].split()]
    words = [*names, *list_synonyms(), *(word for word in answers if "." not in word)]
    return {parts: word for word in reversed(words) if (parts := frozenset(_list_words(word)))}


def _list_words(key: str) -> list[str]:
    """Return the parts of a key in order, in the singular, by the word that the table has."""
    fillers, same = load_table()["fillers"].split(), load_table()["same"]
    parts = [part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+", key)]
    parts = [re.sub(r"(?<=ss)es$|(?<=[^su])s$", "", part) for part in parts]
    return [same.get(part, part) for part in parts if part not in fillers]


def _take_for_content(key: str, node: Node, path: str) -> Hint | None:
    """Return the hint for a key that is the user's own name: a variable, an argument."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", key) and path in ("", "environment", "run"):
        return Hint(f"write environment.variables: {{{key}: ...}}, for a variable")
    if path == "run":
        return Hint(f"write run.args: {{{key}: ...}}, for an argument of the program")
    if path == "array" and isinstance(node, Sequence):
        return Hint(f"write array.values: {{{key}: [...]}}, for what the tasks are given")
    return None


def point_to_directive(word: str, value: str = "") -> Hint | None:
    """Return the hint for a scheduler's option that has no key, with the value that was given."""
    for form, words in load_table()["options"].items():
        if word in words.split():
            option = word if form.startswith("#PBS") else word.replace("_", "-")
            line = form.format(option).replace("...", value or "...")
            return Hint(f"write directives: ['{line}']", "directives")
    return None


def _point_within(path: str, name: str) -> Hint:
    """Return the hint for another key of the record at `path`."""
    target = _join(path, name)
    remark = load_table()["remarks"].get(target, "") if path else ""
    return Hint(f"did you mean {name!r}{remark}?", target)


def _point_to(stranger: _Stranger, paths: Iterable[str], *, exact: bool = False) -> Hint:
    """Say where a thing belongs: the one of `paths` that takes the value, and lies highest."""
    key, node, path, known, root = stranger
    examples, kinds = load_table()["examples"], list_paths(root)
    target = min(paths, key=lambda one: (not _takes(kinds[one], node), one.count("."), one))
    fixed = [kind for kind in kinds[target] if get_origin(kind.type) is Literal]
    if path and target.partition(".")[0] in known:  # a role has a run of its own
        target = f"{path}.{target}"
    parent, _, name = target.rpartition(".")
    if parent.endswith("resources") and (short := name.partition("_per_")[0]) in known:
        return _point_within(path, short)
    example = examples.get(name, "") if name != key else ""
    if parent == path and (path or not example):
        return _point_within(path, name)
    if not parent:
        place = ", at the top level" if path else ""
        return Hint(f"write {target}{place}" + f", as in {name}: {example}" * bool(example), target)
    text = "requeue" if name == "then" and "requeue" in key else examples.get(name, "...")
    if isinstance(node, Scalar) and _takes(fixed, node):
        text = node.text
    for outer in reversed(target.removeprefix(f"{path}.").split(".")):
        text = f"{outer}: {text}" if outer == name else f"{outer}: {{{text}}}"
    belongs = f"{key!r} belongs to {parent}; " if exact else ""
    remark = load_table()["remarks"].get(target, "")
    return Hint(f"{belongs}write {target}{remark}, as in {text}", target)


def normalize(word: str) -> str:
    """Return a word as the table has it."""
    return re.sub(r"[\s./-]+", "_", word.strip("-_ ").lower())


# --- values ---


_NAMES: dict[Any, str] = {str: "text", int: "number", bool: "switch", tuple: "list"}


def suggest_value(node: Node, kinds: AnySequence[Kind], path: str, *, wrong: str = "form") -> str:
    """Return what to write for a value that its key does not take; empty without a hint.

    `wrong` is `kind` for a value of the wrong kind, such as a list instead of text.
    """
    takes = {_NAMES.get(kind.type, "") for kind in kinds if not isinstance(kind.rule, Parsed)}
    only = takes if len(takes) == 1 else ()
    for rule in load_table()["value_rules"]:
        fits = rule.get("takes") in (None, *takes) and rule.get("only") in (None, *only)
        fits = fits and rule.get("wrong", wrong) == wrong
        if fits and (values := _match(rule, path, node)):
            return fill(rule["say"], values)
    if isinstance(node, Scalar) and (better := _repair(node, kinds)):
        name = re.sub(r"\[\d+\]", "", path).rpartition(".")[2]
        return f"write {better}" if path.endswith("]") else f"write {name}: {better}"
    return ""


def _repair(node: Scalar, kinds: AnySequence[Kind]) -> str:
    """Return text that one of `kinds` takes, once signs, words and units are written its way.

    For a record it is the one key that takes the value.
    """
    better = node.text
    fixed = [kind for kind in kinds if kind.type is int or isinstance(kind.rule, Parsed | Pattern)]
    for old, new in load_table()["repairs"].items():
        better = re.sub(old, new, better).strip()
        form = "int" if better.isdecimal() else "str"
        if better != node.text and _takes(fixed, Scalar(node.where, better, form)):
            return better
    records = (read_fields(kind.type).items() for kind in kinds if is_record(kind.type))
    names = [name for fields in records for name, key in fields if _takes(key.kinds, node)]
    return f"{{{names[0]}: {node.text}}}" if len(names) == 1 else ""


def _takes(kinds: AnySequence[Kind], node: Node) -> bool:
    """Return whether one of `kinds` takes a value as it is."""
    return any(kind.fits(node) and _follows(kind, node) for kind in kinds)


def _follows(kind: Kind, node: Node) -> bool:
    """Return whether a value keeps to the rule of a kind that it fits."""
    if not isinstance(node, Scalar):
        return True
    if isinstance(kind.rule, Parsed):
        try:
            kind.rule.parse(node.text)
        except ValueError:
            return False
        return True
    if isinstance(kind.rule, Pattern):
        return kind.rule.matches(node.text)
    if kind.type is int:
        least, most = kind.rule if isinstance(kind.rule, Range) else (0, None)
        plain = re.fullmatch(r"0|[1-9]\d{0,8}", node.text)
        return bool(plain) and least <= int(node.text) <= (most or int(node.text))
    return get_origin(kind.type) is not Literal or node.text.lower() in get_args(kind.type)


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


# --- programs ---


def explain_program(key: str, text: str, words: AnySequence[str]) -> tuple[str, str] | None:
    """Return what is wrong with a script, module, command or word of one, and what to write."""
    for rule in load_table()["program_rules"]:
        in_text = re.search(rule.get("matches", ""), text)
        in_line = re.search(rule.get("line", ""), " ".join(words))
        if rule["at"] == key and in_text and in_line:
            groups = in_text.groupdict("") | in_line.groupdict("")
            values = describe(text, [], key) | {"line": " ".join(words)} | groups
            return f"{text!r} {rule['fault']}", fill(rule["say"], values)
    return None


def explain_launcher(
    launcher: str, words: AnySequence[str], *, one_node: bool = False
) -> tuple[str, str]:
    """Return what is wrong with a launcher within the launcher, and what to write."""
    program = show_program(words)
    has_file = any(word.endswith(".py") for word in words)
    values = {
        "launcher": launcher,
        "program": program,
        "file": "yes" * has_file,
        "one_node": "yes" * one_node,
    }
    for rule in load_table()["launcher_rules"]:
        if rule["kind"] == name_kind(launcher) and values.get(rule.get("needs", "program")):
            return fill(rule["fault"], values), fill(rule["say"], values)
    raise KeyError(launcher)


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


# --- rules ---


def _match(rule: Rule, path: str, node: Node, *, key: str = "") -> dict[str, str] | None:
    """Return the values for the sentence of a rule, or None if it does not hold for the node."""
    given = {Scalar: "text", Sequence: "list", Mapping: "keys"}[type(node)]
    place = re.sub(r"\[\d+\]", "", path)
    text = node.text if isinstance(node, Scalar) else ""
    if given not in rule.get("given", given).split() or rule.get("within", path) != path:
        return None
    match = re.search(rule.get("matches", ""), text)
    if not match or not re.fullmatch(rule.get("at", ".*"), place):
        return None
    items = node.items if isinstance(node, Sequence) else []
    words = [item.text for item in items if isinstance(item, Scalar)]
    inner = node.items if isinstance(node, Mapping) else {}
    values = describe(text, words if len(words) == len(items) else [], place)
    values |= {
        "key": key,
        "value": text or "...",
        "size": str(len(items) or ""),
        "dashes": "yes" * any(isinstance(item, Mapping) for item in items),
        "names": ", ".join(inner),
        "lists": "yes" * any(not isinstance(item, Scalar) for item in inner.values()),
    }
    values |= match.groupdict("")
    return values if values.get(rule.get("needs", "name"), "") else None


def describe(text: str, items: AnySequence[str], path: str) -> dict[str, str]:
    """Return what a sentence can say of a value: `text`, or the list `items` of text, at `path`."""
    throttle = re.search(r"%(\d+)$", text)
    at_once = f", at_once: {throttle[1]}" if throttle else ""
    launcher = find_launcher(split_words(text))
    modules = re.split(r"[\s,;]+", text.strip("-"))
    return {
        "text": text,
        "quoted": repr(text),
        "name": path.rpartition(".")[2] or "it",
        "path": path,
        "first": next(iter(items), ""),
        "args": f", args: [{', '.join(items[1:])}]" if items[1:] else "",
        "joined": "&".join(items),
        "pairs": ", ".join(item.replace("=", ": ", 1) for item in items if "=" in item),
        "slug": re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._"),
        "tasks": f"{_count_tasks(text)}{at_once}",
        "throttle": at_once,
        "indices": ", ".join(_list_indices(text)),
        "sweep": _write_sweep(text),
        "module_names": ", ".join(
            word for word in modules if word not in ("", "module", "ml", "load", "add")
        ),
        "launcher": launcher,
        "program": show_program(split_words(text)) if launcher else "",
    }


def _count_tasks(text: str) -> str:
    """Return how many tasks `0-9`, `1-100%4` or `10` are; 10 as an example for other text."""
    match = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(%\d+)?", text)
    if not match:
        return text if text.isdecimal() else "10"
    return str((int(match[2]) - int(match[1])) // (int(match[3] or 1) or 1) + 1)


def _list_indices(text: str) -> list[str]:
    """Return the indices of `1,3,5-7%2`; a long range stays as it is written."""
    indices: list[str] = []
    for part in text.partition("%")[0].replace(" ", "").split(","):
        try:
            numbers = parse_ranges(part, most=9)
        except ValueError:
            numbers = []
        indices += map(str, numbers) if numbers else [part]
    return indices


def _write_sweep(text: str) -> str:
    """Return how to write a sweep: Hydra's choice(a,b) and range(1,4), or values in one text."""
    if match := re.fullmatch(r"(\d{1,6})(?:\.\.|-|:)(\d{1,6})", text):
        text = f"range({match[1]},{int(match[2]) + 1})"
    match = re.fullmatch(r"(\w+)\((.*)\)", text)
    if not match:
        return f"[{', '.join(text.strip('[] ').replace(',', ' ').split())}]"
    words = [word.strip() for word in match[2].split(",")]
    if match[1] == "choice":
        return f"[{', '.join(words)}]"
    if match[1] == "range" and re.fullmatch(r"\d{1,6}(,\d{1,6}){0,2}", ",".join(words)):
        numbers = [int(word) for word in words]
        if (len(words) < 3 or numbers[2]) and (values := range(*numbers)):
            return f"[{', '.join(map(str, values[:9]))}{', ...' if len(values) > 9 else ''}]"
    return "the values: [1e-3, 3e-4]"


# --- spelling ---


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so, or the empty string.

    The first letters or the last have to agree: `cores` is not `nodes`.
    """
    from difflib import get_close_matches

    for other in get_close_matches(word, list(known), n=3, cutoff=cutoff):
        if other[:2] == word[:2] or (other[:1] == word[:1] and other[-2:] == word[-2:]):
            return other
        if other[1:] == word or word[1:] == other or sorted(other) == sorted(word):
            return other
    return ""


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
