"""From nodes to typed records: every fault found at once, every field's position kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from jobgen.errors import Position, Problem, SpecError
from jobgen.spec import fields
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence, describe

T = TypeVar("T")

Positions = dict[str, Position]


def bind(node: Mapping, cls: type[T], text: str = "") -> tuple[T, Positions]:
    """`node` as a record of type `cls`, and where each field path stands in its file.

    Paths are dotted, with list indices in brackets: `resources.gpus_per_node[1]`. Raises SpecError
    with every unknown key, missing key, wrong type and bad value found; `text` is of the file.
    """
    binder = _Binder(cls, node.where.file, text)
    value = binder.record(node, cls, "")
    if binder.problems:
        raise SpecError(binder.problems)
    return value, binder.positions


def find_faults(
    node: Node, kinds: tuple[fields.Kind, ...], path: str = "", root: type | None = None
) -> list[Problem]:
    """Return what is wrong with `node` as the value of a key; with hints if `root` is given."""
    binder = _Binder(root)
    binder.value(node, kinds, path)
    return binder.problems


# A file with more unknown keys is something else than a spec: the others are counted.
_MOST_STRANGERS = 50
_FAILED: Any = object()
_ANY_NUMBER = fields.Range(0)  # of members


class _Binder:
    """One walk over one document."""

    def __init__(self, root: type | None, file: str = "", text: str = "") -> None:
        self.root = root  # of the whole document; None if hints are not asked for
        self.texts = {file: text}
        self.problems: list[Problem] = []
        self.positions: Positions = {}
        self.listed: set[type] = set()  # records whose keys were told
        self.strangers = 0  # how many unknown keys were told

    def problem(
        self, where: Position, path: str, message: str, hint: str = "", setting: str = ""
    ) -> Any:
        self.problems.append(Problem(where, path, message, hint, setting))
        return _FAILED

    def suggest(
        self, node: Node, kinds: tuple[fields.Kind, ...], path: str, wrong: str = "form"
    ) -> str:
        """What to write for a value that none of `kinds` takes."""
        if self.root is None:
            return ""
        from jobgen.spec.words import suggest_value  # only an error needs it

        lines = self.texts.get(node.where.file, "").splitlines()[: node.where.line]
        source = "".join(lines[-1:])
        return suggest_value(node, kinds, path, check=find_faults, wrong=wrong, source=source)

    def record(self, node: Mapping, cls: type, path: str) -> Any:
        """`node` as a record of type `cls`, or _FAILED once the reasons are noted."""
        known, strangers = fields.read_fields(cls), []
        values: dict[str, Any] = {}
        for name, item in node.items.items():
            if name in known:
                values[name] = self.value(item, known[name].kinds, fields.join_path(path, name))
            else:
                strangers.append(name)
        meant = self.tell_strangers(node, strangers, cls, path) if strangers else set()
        # Where there are strangers, one of them may be the key that is missing.
        for key, message, hint, rival in () if strangers else _check_keys(cls, values):
            inner = fields.join_path(path, key).rstrip(".")  # without a key the record's own
            setting = f"{fields.join_path(path, rival)}=null" if rival else ""
            self.problem(self.positions.get(inner, node.where), inner, message, hint, setting)
        if self.tell_missing(node, cls, path, meant) or _FAILED in values.values():
            return _FAILED
        record = cls(**values)
        for key, message, hint in getattr(record, "conflicts", tuple)():
            inner = fields.join_path(path, key).rstrip(".")
            self.problem(self.positions.get(inner, node.where), inner, message, hint)
        return record

    def tell_missing(self, node: Mapping, cls: type, path: str, meant: set[str]) -> bool:
        """Note what the record `cls` needs and `node` lacks; return whether any."""
        lacking = [name for name in fields.read_required(cls) if name not in node.items]
        pairs = [pair for pair in getattr(cls, "alternatives", {}).items() if pair[0] not in meant]
        lacking += [pair[0] for pair in pairs if node.items.keys().isdisjoint(pair)]
        for name in lacking:
            if name not in meant:
                from jobgen.spec.table import load_table  # only an error needs it

                inner, example = fields.join_path(path, name), load_table()["examples"].get(name)
                setting = f"{inner}={name.upper()}"
                hint = f"it is required, as in {name}: {example}" if example else "it is required"
                self.problem(node.where, inner, "is missing", hint, setting)
        return bool(lacking)

    def tell_strangers(self, node: Mapping, keys: list[str], cls: type, path: str) -> set[str]:
        """Note keys that the record `cls` does not have; return the keys of it that are meant."""
        named = keys[: max(0, _MOST_STRANGERS - self.strangers)]
        others = keys[len(named) :]
        self.strangers += len(named)
        meant = {self.stranger(node, key, cls, path) for key in named}
        if others:
            first, message = others[0], f"unknown keys from here on: {len(others)}"
            self.problem(node.keys[first], fields.join_path(path, first), message)
        return meant

    def stranger(self, node: Mapping, key: str, cls: type, path: str) -> str:
        """Note a key that the record `cls` does not have; return the key of it that is meant."""
        hint, target = self.explain_stranger(node, key, cls, path) if self.root else ("", "")
        where = node.keys[key]
        first = self.positions.setdefault(target, where)
        clear = re.match(rf"did you mean|write {re.escape(target)}(?!\w)", hint)
        if clear and first != where and first.file == where.file:
            hint = re.sub(r"(?<!\?)$", ";", hint) + " it is already there: keep one of the two"
        self.problem(where, fields.join_path(path, key), "unknown key", hint)
        outer = fields.join_path(path, "")
        meant = target.removeprefix(outer).partition(".")[0] if target.startswith(outer) else ""
        if hint.startswith("did you mean") and isinstance(node.items[key], Mapping):
            # What is wrong in a record whose name is, is told at once.
            self.value(node.items[key], fields.read_fields(cls)[meant].kinds, target)
        return meant

    def explain_stranger(self, node: Mapping, key: str, cls: type, path: str) -> tuple[str, str]:
        """What to write for an unknown key, and the path that is meant."""
        from jobgen.spec import table, words

        root, item = self.root, node.items[key]
        assert root is not None
        empty = isinstance(item, Scalar) and not item.text
        lines = [where.line for where in node.keys.values()]
        if empty and (re.search("[=:]", key) or lines.count(node.keys[key].line) > 1):
            known = fields.read_fields(cls).keys() & {key.partition(" ")[0]}
            facts = {"key": key, "known": "".join(known)}
            return table.find_rule("separation_rules", facts)["say"], ""
        stranger = words.Stranger(key, item, path, cls, root, find_faults, node)
        hint = words.suggest_key(stranger)
        if hint.unfold and (elsewhere := self.group(item, key)):
            return elsewhere, ""
        if hint.text:
            return hint.text, hint.meant
        text = words.list_keys(stranger, brief=cls in self.listed)
        self.listed.add(cls)
        return text, hint.meant

    def group(self, node: Any, key: str) -> str:
        """Note where the keys below `key` belong, and say that they do; nothing if most do not."""
        from jobgen.spec.words import is_group  # only an error needs it

        root: Any = self.root
        while node.kind == "map" and [one.kind for one in node.items.values()] == ["map"]:
            (node,) = node.items.values()  # hydra: {launcher: {...}}
        if not is_group(node, root):
            return ""
        for name, where in node.keys.items():
            if name in fields.read_fields(root):
                self.problem(where, name, f"is below {key}", "write it at the top level")
        strangers = [name for name in node.keys if name not in fields.read_fields(root)]
        self.tell_strangers(node, strangers, root, "")
        return "its keys belong elsewhere"

    def value(self, node: Node, kinds: tuple[fields.Kind, ...], path: str) -> Any:
        """`node` as the first of `kinds` that fits it, or _FAILED once the reason is noted."""
        self.positions[path] = node.where
        if node.kind == "null":
            hint = self.suggest(node, kinds, path, wrong="empty")
            return self.problem(node.where, path, "is empty", hint)
        for kind in kinds:
            if node.kind in kind.takes:
                if isinstance(node, Scalar):
                    return getattr(self, kind.form)(node, kind, path)
                return self.container(node, kind, path)
        message = f"expected {' or '.join(map(str, kinds))}, got {describe(node)}"
        elsewhere = "" if "." in path else self.group(node, path)
        hint = elsewhere or self.suggest(node, kinds, path, wrong="kind")
        return self.problem(node.where, path, message, hint)

    def container(self, node: Mapping | Sequence, kind: fields.Kind, path: str) -> Any:
        if isinstance(node, Sequence):
            return self.sequence(node, kind, path)
        if kind.expandable:
            text = self.record(node, fields.Expandable, path)
            if text is _FAILED:
                return _FAILED
            return fields.ShellPath(text.value) if text.expand else text.value
        if kind.type is not dict:
            return self.record(node, kind.type, path)
        entries = {}
        for key, item in node.items.items():
            if kind.key and not kind.key.matches(key):
                hint = _repair_key(key, kind.key, path)
                self.problem(node.keys[key], path, f"{key!r} is not {kind.key.meaning}", hint)
            entries[key] = self.value(item, kind.members, fields.join_path(path, key))
        return _FAILED if _FAILED in entries.values() else entries

    def sequence(self, node: Sequence, kind: fields.Kind, path: str) -> Any:
        members = [
            self.value(item, kind.members, f"{path}[{index}]")
            for index, item in enumerate(node.items)
        ]
        rule = kind.rule if isinstance(kind.rule, fields.Range) else _ANY_NUMBER
        if rule.least <= len(members) <= (rule.most or 1 << 30):
            return _FAILED if _FAILED in members else tuple(members)
        fault, hint = "is an empty list", "give it a member, or remove the key"
        if members:
            fault, hint = f"has {len(members)} members, expected {rule.least} to {rule.most}", ""
        return self.problem(node.where, path, fault, hint)

    def short_record(self, node: Scalar, kind: fields.Kind, path: str) -> Any:
        short = Mapping(node.where)
        short.items[kind.type.short_key] = node
        return self.record(short, kind.type, path)

    def switch(self, node: Scalar, kind: fields.Kind, path: str) -> bool:
        return node.text.lower() == "true"

    def words(self, node: Scalar, kind: fields.Kind, path: str) -> Any:
        if fault := _find_fault(node.text, kind.rule):
            return self.problem(node.where, path, fault, self.suggest(node, (kind,), path))
        return node.text

    def parsed(self, node: Scalar, kind: fields.Kind, path: str, parse: Any = None) -> Any:
        """Text with its own syntax, such as a duration."""
        try:
            return (parse or kind.rule.parse)(node.text)
        except ValueError as error:
            message, _, own_hint = str(error).partition("; ")
            hint = self.suggest(node, (kind,), path) or own_hint
            return self.problem(node.where, path, f"{node.text!r} {message}", hint)

    def fixed_word(self, node: Scalar, kind: fields.Kind, path: str) -> Any:
        if word := fields.list_spellings(kind.type).get(node.text):
            return word
        hint = self.suggest(node, (kind,), path)
        return self.problem(node.where, path, f"unknown value {node.text!r}", hint)

    def text_as_list(self, node: Scalar, kind: fields.Kind, path: str) -> Any:
        """`node`, where a list may stand, as one member, or as several that it holds."""
        member, text = kind.text_member, node.text
        assert member is not None
        if isinstance(member.rule, fields.FreeText):
            words = self.parsed(node, member, path, split_command)
            if words is _FAILED:
                return _FAILED
        else:
            words = _split_list(text, member.rule)
        if words == [text]:  # it is no member of a list, to those who read of it
            value = self.value(Scalar(node.where, text, node.kind), kind.members, path)
            return value if value is _FAILED else (value,)
        items: list[Node] = [Scalar(node.where, word, "str") for word in words]
        return self.container(Sequence(node.where, items), kind, path)

    def number(self, node: Scalar, kind: fields.Kind, path: str) -> Any:
        text, rule = node.text, kind.rule
        form, name = _NUMBER_FORMS[kind.type]
        if not re.fullmatch(form, text):
            hint = self.suggest(node, (kind,), path) or "write it in decimal, such as 0.25"
            return self.problem(node.where, path, f"{text!r} is not {name}", hint)
        number = kind.type(text)
        if isinstance(rule, fields.Range):
            if number < rule.least:
                hint = self.suggest(node, (kind,), path) or f"write {rule.least} or more"
                return self.problem(node.where, path, f"{number} is less than {rule.least}", hint)
            if rule.most is not None and number > rule.most:
                fault = f"{number} is more than {rule.most}"
                return self.problem(node.where, path, fault, f"write {rule.most} or less")
        return number


def _repair_key(key: str, rule: fields.Pattern, path: str) -> str:
    """Return how to write the name of an entry that breaks a rule; empty if that is not clear."""
    from jobgen.spec.table import find_rule  # only an error needs it

    answer = find_rule("name_rules", {"at": path, "key": key}).get("say", "")
    plain = re.sub(r"\W+", "_", key).strip("_")
    near = (f"name it {one}" for one in (plain, plain.lower()) if rule.matches(one))
    return answer or next(near, "")


def _find_fault(text: str, rule: Any) -> str:
    control = fields.CONTROL_IN_TEXT if isinstance(rule, fields.FreeText) else fields.CONTROL
    # Most text is printable, and is not searched.
    if not text.isprintable() and (match := re.search(control, text)):
        return f"holds the control character {match[0]!r}"
    if isinstance(rule, fields.Pattern) and not rule.matches(text):
        shown = re.sub(r"(?s)^(\w+=).+", r"\1...", text)  # which may be a secret
        return f"{shown!r} is not {rule.meaning}"
    return ""


# How a number is written, and what it is called.
_NUMBER_FORMS = {
    int: (r"[-+]?(?:0|[1-9][0-9]{0,17})", "a plain whole number"),
    float: (r"[-+]?[0-9]{1,15}(\.[0-9]{1,15})?", "a plain number"),
}
_NUMBERS = {(0, 1): "at most one", (1, 1): "exactly one"}


def _check_keys(cls: type, given_keys: Iterable[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield a key that `limit_keys` bounds, what is wrong and how to write it, and a rival key."""
    for keys, least, most in getattr(cls, "key_limits", ()):
        given = [key for key in keys if key in given_keys]
        number = _NUMBERS.get((least, most), "at least one")
        if len(given) < least:
            yield "", f"has none of {_join_words(keys)}", f"give {number} of them", ""
        elif len(given) > most:
            beside = f"is given together with {_join_words(given[:-1])}"
            yield given[-1], beside, f"give {number} of {_join_words(keys)}", given[0]


def _join_words(words: Iterable[str]) -> str:
    *most, last = words
    return " and ".join(filter(None, (", ".join(most), last)))


def _split_list(text: str, rule: Any) -> list[str]:
    if isinstance(rule, fields.Pattern) and rule.matches(text):
        return [text]
    between = r"\s*\n\s*" if "\n" in text else "[, ;|]+"
    return list(filter(None, re.split(between, text))) or [text]


def split_command(text: str) -> list[str]:
    """Return the words of a command line; raises ValueError for one that needs a shell."""
    import shlex

    text = re.sub(r"(?<=\s)\\\s+", " ", text)  # at the end of a line, which goes on
    if "\n" in text.strip():
        raise ValueError("has several lines; name one program, lines of bash go to setup")
    bare = re.sub(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", "", text)
    if re.search(r"(?<!&)&\s*$", bare):
        raise ValueError("ends in &, and the job would end before its program; leave & out")
    if re.search(r"[();<>|&`]", bare):
        raise ValueError(f"needs a shell; write [bash, -c, {text!r}]")
    try:
        return shlex.split(text)
    except ValueError:
        raise ValueError("has a quote that does not end") from None
