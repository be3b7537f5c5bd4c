"""Words of a command line that are laid over `run.args`: `jobgen submit job.yaml -- --lr 3e-4`.

They replace the options that are there and add the others. As an override they are written
`run.args+=--lr 3e-4`, so a header, a record and a rerun have them like any other.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator

from jobgen.errors import Position, UsageError
from jobgen.spec.launchers import split_words
from jobgen.spec.value_types import make_option
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence

#: the path of such an override
PATH = "run.args+"
# An option, or Hydra's name=value; a negative number is the value of one.
_OPTION = re.compile(r"(?!-[\d.])(-[^=\s]+)(?:=.*)?|((?:\+\+?|~)?[A-Za-z_][\w.@/-]*=).*", re.DOTALL)
_ROLES = "the job has roles, and -- is for one program: write --set roles.NAME.run.args=..."
_Group = tuple[str, list[Node]]  # an option, and the words from it to the next


def write_words(words: Iterable[str]) -> str:
    """Return the override for what stands behind `--`."""
    return f"{PATH}={shlex.join(words)}"


def add_words(root: Mapping, text: str, where: Position) -> None:
    """Lay the words of an override over the tree's `run.args`.

    Keys and values stay such where the words can be: what an array varies is left out of them.
    """
    if "roles" in root.items:
        raise UsageError(_ROLES)
    run = root.items.get("run", Mapping(where))
    if not isinstance(run, Mapping):
        return  # binding it says what is wrong
    given = _group(Scalar(where, word, "str") for word in shlex.split(text))
    _refuse_varied(root, [option for option, _ in given])
    root.items["run"] = run = run.copy()
    root.keys.setdefault("run", where)
    old = run.items.get("args", Mapping(where))
    run.items["args"], run.keys["args"] = _merge(old, given, where), where


def _merge(old: Node, given: list[_Group], where: Position) -> Node:
    if isinstance(old, Mapping):
        if (pairs := _make_pairs(given)) is not None:
            return _merge_pairs(old, pairs, where)
        words = _list_words(old)
    elif isinstance(old, Scalar):
        words = (Scalar(old.where, word, "str") for word in split_words(old.text))
    else:
        words = iter(old.items)
    return Sequence(where, _merge_groups(_group(words), given))


def _group(words: Iterable[Node]) -> list[_Group]:
    """Return the options with their words; what stands before the first has an empty one."""
    groups: list[_Group] = [("", [])]
    for word in words:
        if match := _OPTION.fullmatch(word.text):
            groups.append((match[1] or match[2], []))
        groups[-1][1].append(word)
    return [group for group in groups if group[1]]


def _merge_groups(old: list[_Group], given: list[_Group]) -> list[Node]:
    """Return the words of both: an option that is given stands where it stood before.

    Words that belong to no option come first, where no option takes them.
    """
    new: dict[str, list[Node]] = {"": []}
    for option, words in given:
        new.setdefault(option, []).extend(words)
    merged, options = new.pop(""), {*new}
    for option, members in old:
        merged += new.pop(option, []) if option in options else members
    return merged + [word for words in new.values() for word in words]


def _make_pairs(given: list[_Group]) -> dict[str, Node] | None:
    """Return options as keys and values; None for words that these cannot say."""
    pairs: dict[str, Node] = {}
    for option, members in given:
        values, where = _list_values(option, members), members[0].where
        first, *more = values or [Scalar(where, "true", "bool")]
        nested = more and any(word.text.startswith("-") for word in values)
        if not option.startswith("-") or option in pairs or nested:
            return None
        pairs[option] = Sequence(where, [first, *more]) if more else first
    return pairs


def _list_values(option: str, members: list[Node]) -> list[Scalar]:
    """Return the words after an option; what is joined to it by `=` is the first."""
    first, *rest = [word for word in members if isinstance(word, Scalar)]
    if first.text == option:
        return rest
    return [Scalar(first.where, first.text[len(option) + 1 :], "str"), *rest]


def _merge_pairs(old: Mapping, pairs: dict[str, Node], where: Position) -> Mapping:
    merged = old.copy()
    names = {make_option(key): key for key in old.items}
    for option, value in pairs.items():
        plain = option.lstrip("-")
        key = names.get(option, plain if make_option(plain) == option else option)
        merged.items[key], merged.keys[key] = value, where
    return merged


def _list_words(args: Mapping) -> Iterator[Node]:
    """Yield keys and values as words; a switch that is off is none."""
    for key, value in args.items.items():
        switch = isinstance(value, Scalar) and value.kind == "bool" and value.text.lower()
        if switch != "false":
            yield Scalar(args.keys[key], make_option(key), "str")
        if isinstance(value, Sequence):
            yield from value.items
        elif not switch:
            yield value


def _refuse_varied(root: Mapping, options: list[str]) -> None:
    """Refuse an option that the tasks of an array vary: it would be the tasks' own after all."""
    array = root.items.get("array")
    for kind in array.items.values() if isinstance(array, Mapping) else ():
        for record in kind.items if isinstance(kind, Sequence) else [kind]:
            keys = record.items if isinstance(record, Mapping) else ()
            for option in map(make_option, keys):
                if option in options:
                    raise UsageError(f"{option}: the tasks of the array have their own values")
