"""What to write instead of a key or a value that a spec does not have. Only an error imports this.

The words and the sentences are data, in `data/words.yaml`; this applies them:

- A key is looked up by its words, where it stands and then everywhere; and by its spelling.
- Its value goes along: a hint shows it where it belongs, or what to write there in its place.
- A key that nothing is known of gets the keys that there are, with what each is for, and no guess.

In a sentence $NAME stands for a group of the rule's pattern, or a value that `describe` lists.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, get_args

from jobgen.errors import Position, Problem
from jobgen.records import NamedTuple
from jobgen.spec import fields
from jobgen.spec.launchers import find_launcher_in_text, show_program, split_words
from jobgen.spec.spelling import find_near
from jobgen.spec.table import fill, find_rule, list_words, load_table
from jobgen.spec.units import parse_ranges
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence


class Hint(NamedTuple):
    """What to write; the path that is meant, if it is one alone; whether its keys tell more."""

    text: str = ""
    meant: str = ""
    unfold: bool = True


_ALONE = Mapping(Position(""))  # without other keys
_MOST_BESIDE = 100  # keys that are looked at for the number of nodes; a spec may have any number
# Returns what is wrong with a node as one of some kinds, at a path: `bind.find_faults`.
Check = Callable[..., list[Problem]]


class Stranger(NamedTuple):
    """A key and its value, in the record of type `cls` at `path`, which does not have it.

    `root` is the type of the whole document; `beside` has the record's other keys.
    """

    key: str
    node: Node
    path: str
    cls: Any
    root: Any
    check: Check
    beside: Mapping = _ALONE

    @property
    def place(self) -> str:
        """The path of the record as the table has it: that of any role is `roles`."""
        place = re.sub(r"^roles\.\w+(?=\.|$)", "roles", self.path)
        return "value" if self.cls is fields.Expandable else place or "spec"

    def find_paths(self, word: str) -> list[str]:
        """Return where the document has a key of this name."""
        return [path for path in fields.list_paths(self.root) if f".{path}".endswith(f".{word}")]

    @property
    def is_in_job(self) -> bool:
        """Whether it stands in a job spec, not in a profile or the user's own config."""
        return hasattr(self.root, "alternatives")

    @property
    def others(self) -> dict[str, Node]:
        """The keys beside it, and those of `resources` there, with their values."""
        records = (self.beside, self.beside.items.get("resources"))
        pairs = (one.items.items() for one in records if isinstance(one, Mapping))
        return dict(itertools.islice(itertools.chain(*pairs), _MOST_BESIDE))

    @property
    def share(self) -> str:
        """What its amount is for each of the nodes beside it; empty if they cannot share it."""
        nodes = "".join(item.text for key, item in self.others.items() if _means_nodes(key))
        form = r"([1-9]\d*)( ?[A-Za-z]*)/([2-9]|[1-9]\d+)"
        match = re.fullmatch(form, f"{self.node.text}/{nodes}")
        if match is None or int(match[1]) % int(match[3]):
            return ""
        return f"{int(match[1]) // int(match[3])}{match[2]}"

    def fit(self, path: str) -> tuple[str, str]:
        """Return its value as the key at a path takes it; what is wrong with it, and a repair."""
        kinds = self._list_kinds(path)
        for node in self._list_forms() if kinds else ():
            if not self.check(node, kinds, path):
                return show(node), ""
        if not kinds or isinstance(self.node, Mapping):
            return "", ""
        fault, name = self.check(self.node, kinds, path, self.root)[0], path.rpartition(".")[2]
        line = re.match(rf"write {name}: (.*?)(?:, (?:or|for|the|and) .*|; .*)?$", fault.hint)
        message = fault.message if isinstance(self.node, Scalar) else ""
        words = () if fault.hint.startswith("write it as in") else (message, fault.hint)
        return line[1] if line else "", "; ".join(filter(None, words))

    def locate(self, path: str) -> str:
        """Return where the key at a path stands for it: in its own role, if that has the key.

        A role has some keys of the job's records, such as `resources.nodes`, in itself.
        """
        outer, _, name = path.rpartition(".")
        own = {name, outer.partition(".")[0]} & fields.read_fields(self.cls).keys()
        if self.place != "roles" or not own:
            return path
        return fields.join_path(self.path, name if name in own else path)

    def _list_kinds(self, path: str) -> tuple[fields.Kind, ...]:
        """Return what the key at a path takes; a switch is not meant as text."""
        parent, _, name = path.rpartition(".")
        own = fields.read_fields(self.cls).get(name) if parent == self.path else None
        field = own or fields.list_paths(self.root).get(re.sub(r"^roles\.\w+\.", "", path))
        kinds = field.kinds if field else ()
        if self.node.kind != "bool":
            return kinds
        return tuple(kind for kind in kinds if kind.type is bool or get_args(kind.type))

    def _list_forms(self) -> Iterator[Node]:
        """Yield its value, and with the unit that its key names: timeout_min: 120 is 120m."""
        yield self.node
        units, text = load_table()["units"], self.node.text
        for part in reversed(re.findall("[a-z]+", normalize(self.key))):
            if text.isdigit() and part in units:
                yield Scalar(self.node.where, text + units[part], "str")


def _means_nodes(key: str) -> bool:
    word = normalize(key)
    return list_synonyms().get(word, f"resources.{word}") == "resources.nodes"


@cache
def list_synonyms() -> dict[str, str]:
    """Return the words of others, each with the path of the spec that it stands for."""
    return {word: path for path, words in load_table()["keys"].items() for word in words.split()}


def suggest_key(stranger: Stranger) -> Hint:
    """Return what to write for a key that its record lacks; empty without a hint."""
    return next(filter(None, _list_hints(stranger)), Hint())


def list_keys(stranger: Stranger, *, brief: bool = False) -> str:
    """Return what to do about a key that nothing is known of; unless `brief`, with those known."""
    other = load_table()["defaults"].get(stranger.place, "") if stranger.is_in_job else ""
    known = "" if brief else f"the choices are{_describe_keys(stranger.cls)}"
    return "; ".join(filter(None, (fill(other, {"key": stranger.key}), known)))


def is_group(node: Node, root: type) -> bool:
    """Whether most of the keys of an unknown record have an answer, and some mean keys of a job."""
    if not isinstance(node, Mapping) or not hasattr(root, "alternatives"):
        return False
    known = {path.rpartition(".")[2] for path in fields.list_paths(root)} | list_synonyms().keys()
    known |= {*" ".join(load_table()["options"].values()).split()}
    deep = {key for key, one in node.items.items() if isinstance(one, Mapping)}
    others = deep - fields.read_fields(root).keys() | {"name"}
    own = fields.read_fields(root).keys() - {"name"}
    near = {key for key in node.items if find_near(normalize(key), own)}
    answered = near | {key for key in node.items if normalize(key) in list_words(keys=True)}
    placed = near | {key for key in node.items.keys() - others if normalize(key) in known}
    return 2 * len(answered) >= len(node.items) <= 4 * len(placed) > 0


@cache
def _describe_keys(cls: type) -> str:
    known, rows = fields.read_fields(cls), ""
    for name, field in known.items():
        what = re.split(r"[.;](?:\s|$)|, (?:such|or|as)\b", field.description, maxsplit=1)[0]
        rows += f"\n    {name:{max(map(len, known))}}  {what}"
    return rows


def _list_hints(stranger: Stranger) -> Iterator[Hint | None]:
    """Yield what the key can mean, the surest first: as it is written, misspelt, by its form."""
    if "." in stranger.key and stranger.key in fields.list_paths(stranger.root):
        yield _point(stranger, stranger.key)
    word = normalize(stranger.key)
    yield _look_up(stranger, word)
    yield _look_up(stranger, find_near(word, fields.read_fields(stranger.cls)))
    if len(word) > 6:
        names = {path.rpartition(".")[2] for path in fields.list_paths(stranger.root)}
        yield _look_up(stranger, find_near(word, names | list_synonyms().keys(), cutoff=0.88))
    if stranger.is_in_job:
        yield _apply(stranger, "late_rules", word)
    yield _look_up(stranger, re.sub("^(?:slurm|sbatch)_", "", word))


def _look_up(stranger: Stranger, word: str) -> Hint | None:
    """Return the hint for a key of the record, a word of the table, or a name from elsewhere."""
    if word in fields.read_fields(stranger.cls):
        return _point(stranger, fields.join_path(stranger.path, word))
    if stranger.cls is fields.Expandable:
        return None
    if stranger.is_in_job and (hint := _apply(stranger, "key_rules", word)):
        return hint
    paths = stranger.find_paths(word)
    return _point(stranger, *paths) if paths else None


def _apply(stranger: Stranger, section: str, word: str) -> Hint | None:
    """Return the hint of the first rule of a section that holds for a word."""
    means = list_synonyms().get(word) or next(iter(stranger.find_paths(word)), "")
    facts = describe(stranger.node, stranger.path) | {
        "key": stranger.key,
        "word": word,
        "option": word.replace("_", "-"),
        "words": f"{word} {stranger.place}.{word}",
        "within": stranger.place,
        "means": means,
        "unfit": "yes" * (not stranger.fit(means)[0]),
        "share": stranger.share,
        "beside": " ".join(stranger.others),
    }
    answer = find_rule(section, facts)
    if "say" in answer:
        return Hint(answer["say"], answer.get("use", ""), "unfold" in answer)
    return _point(stranger, answer["use"]) if answer else None


def _point(stranger: Stranger, *paths: str) -> Hint:
    """Say where a thing belongs, and what to write there: the one of `paths` that takes it."""
    usual = min(paths, key=lambda one: (not stranger.fit(one)[0], one.count("."), one))
    target = stranger.locate(usual)
    parent, _, name = target.rpartition(".")
    value, fault = stranger.fit(target)
    if _is_per_other(stranger.key, name):
        value = ""
    fault = "" if value else fault
    if answer := re.search(rf"write (?!{name}\b)[\w.]+: .*$", fault):
        return Hint(answer[0], target, False)  # it belongs to another key
    examples, remark = load_table()["examples"], load_table()["remarks"].get(usual, "")
    if parent == stranger.path:  # an example's value would be a guess
        clear = value in ("", "...", show(stranger.node))
        other = fault or ("" if clear else f"write {name}: {value}")
        return Hint(f"did you mean {name!r}{remark}? {other}".rstrip(), target, False)
    example = f"{name}: {value or examples.get(usual, examples.get(name, '...'))}"
    if not parent:
        remark = ", at the top level"
    for outer in reversed(target.removeprefix(f"{stranger.path}.").split(".")[:-1]):
        example = f"{outer}: {{{example}}}"
    shown = f"; {fault}" if fault else f", as in {example}"
    return Hint(f"write {target}{remark}{shown}", target, False)


def _is_per_other(key: str, name: str) -> bool:
    """Whether two names are of numbers for different things: gpus_per_task, gpus_per_node."""
    of_key, of_name = (one.partition("per_")[2] for one in (normalize(key), name))
    return bool(of_key and of_name) and load_table()["same"].get(of_key, of_key) != of_name


def show(node: Node) -> str:
    """Return a value as YAML has it on one line; of a long one, `...`."""
    if isinstance(node, Scalar):
        plain = re.fullmatch(r"[\w./$~+(@-]([\w ./$~%@+=:*()-]*[\w./$~%@+=*()-])?", node.text)
        quoted = node.text.replace("'", "''")
        text = node.text if plain and ": " not in node.text else f"'{quoted}'"
    elif isinstance(node, Sequence):
        text = f"[{', '.join(map(show, node.items))}]"
    else:
        text = f"{{{', '.join(f'{key}: {show(item)}' for key, item in node.items.items())}}}"
    return text if len(text) <= 80 and text.isprintable() else "..."


def normalize(word: str) -> str:
    """Return a word as the table has it: `maxRunTime` is `max_run_time`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", word.strip("-_ ")).lower()
    return re.sub(r"[\s./-]+", "_", snake)


_NAMES: dict[Any, str] = {str: "text", int: "number", bool: "switch", tuple: "list"}


def suggest_value(
    node: Node, kinds: tuple[fields.Kind, ...], path: str, *, check: Check, wrong: str, source: str
) -> str:
    """Return what to write for a value that its key does not take; empty without a hint.

    `wrong` is `form`, or `kind`, as of a list instead of text; `source` is the line it stands in.
    """
    names = {
        _NAMES.get(kind.type, "keys") for kind in kinds if not isinstance(kind.rule, fields.Parsed)
    }
    facts = describe(node, path) | {"takes": " ".join(names), "wrong": wrong, "source": source}
    facts["only"] = facts["takes"] if len(names) == 1 else ""
    if answer := find_rule("value_rules", facts):
        return answer["say"]
    if wrong == "form" and fields.is_literal(kinds[0].type):
        return _suggest_word(node.text, get_args(kinds[0].type), path)
    if better := _repair(node, kinds, check):
        return f"write {better}" if path.endswith("]") else f"write {facts['name']}: {better}"
    return _show_example(facts, wrong)


def _show_example(facts: dict[str, str], wrong: str) -> str:
    examples = load_table()["examples"] if wrong == "kind" else {}
    example = examples.get(facts["at"], examples.get(facts["name"], ""))
    # An example number would be a guess.
    return f"write it as in {facts['name']}: {example}" if example[:1] in ("[", "{") else ""


def _repair(node: Node, kinds: tuple[fields.Kind, ...], check: Check) -> str:
    """Return text that one of `kinds` takes, once signs, words and units are written its way."""
    better = node.text
    fixed = [
        kind
        for kind in kinds
        if kind.type is int or isinstance(kind.rule, fields.Parsed | fields.Pattern)
    ]
    for old, new in load_table()["repairs"].items():
        better = re.sub(old, new, better).strip()
        form = "int" if better.isdecimal() else "str"
        if better != node.text and not check(Scalar(node.where, better, form), tuple(fixed)):
            return better
    return ""


def _suggest_word(text: str, known: tuple[str, ...], path: str) -> str:
    """Return what to write for a word that is none of the `known` ones at `path`."""
    word, place = text.strip().lower(), re.sub(r"\[\d+\]|^roles\.\w+\.", "", path)
    for value, words in load_table()["values"].get(place, {}).items():
        if word in words.split():
            return f"write {value}"
    if (first := word.partition(" ")[0]) in known:
        return f"write {first}"
    near = find_near(word, known, cutoff=0.7)
    return f"did you mean {near!r}?" if near else f"write one of {', '.join(known)}"


def describe(node: Node, path: str = "") -> dict[str, str]:
    """Return what a rule and its sentence can say of the value at a path."""
    text = node.text
    items = node.items if isinstance(node, Sequence) else []
    words = [item.text for item in items if isinstance(item, Scalar)]
    place = re.sub(r"\[\d+\]|^roles\.\w+\.(?!ready)", "", path)
    numbers = _list_numbers(text)
    return {
        "at": place,
        "path": path,
        "name": place.rpartition(".")[2] or "it",
        "text": text,
        "line": show(node),
        "starts": str(int(text) + 1) if re.fullmatch(r"\d{1,9}", text) else "",
        "plain": text or ",".join(words) or "...",
        "launcher": find_launcher_in_text(text),
        "program": show_program(split_words(text) or words),
        "count": str(len(numbers) or ""),
        "indices": ", ".join(numbers) * (len(numbers) <= 16),
        **_describe_members(node),
    }


def _describe_members(node: Node) -> dict[str, str]:
    inner = node.items if isinstance(node, Mapping) else {}
    members = [] if isinstance(node, Scalar) else [*(inner.values() or node.items)]
    given = {Scalar: "text", Sequence: "list", Mapping: "keys"}[type(node)]
    given += " deep" * any(not isinstance(one, Scalar) for one in members)
    pairs = [f"'{key}:{one.text}'" for key, one in inner.items()]
    return {"given": given, "names": ", ".join(inner), "pairs": ", ".join(pairs)}


def _list_numbers(text: str) -> list[str]:
    """Return the numbers of text such as 0-9%2, 0..9 or range(10); none of other text."""
    whole = re.sub(r"^(\d+)(?:\.\.|:)(\d+)$", r"\1-\2", text.partition("%")[0])
    ends = re.fullmatch(r"(?:np\.a)?range\(((?:\d{1,4}, ?)*\d{1,4})\)", text)
    try:
        return [*map(str, range(*map(int, ends[1].split(","))) if ends else parse_ranges(whole))]
    except (TypeError, ValueError):
        return []
