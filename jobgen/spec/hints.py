"""What to write instead of a key or a value that a spec does not have. Only an error imports this.

First the words of other tools (Slurm, PBS, submitit, TorchX, Kubernetes, people's own), then a
name that the schema has elsewhere, then one that is spelt nearly so: never a guess that only looks
alike.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from jobgen.capabilities import SCHEDULERS
from jobgen.spec.bind import Kind, is_record, read_fields
from jobgen.spec.commands import find_launcher, show_program
from jobgen.spec.model import JobSpec
from jobgen.spec.synonyms import (
    ANSWERS,
    EXAMPLES,
    INSIDE,
    OPTIONS,
    OTHER_VALUES,
    OTHER_WORDS,
    REMARKS,
)
from jobgen.spec.yaml_nodes import Mapping, Node, Scalar, Sequence

# GPUs as Slurm and people write them: a100:4, gpu:a100:4, 4xA100.
GPUS = re.compile(r"(?:gpu:)?([A-Za-z][\w-]*)[:=](\d+)|(\d+) ?[x*:] ?(\w+)")
_SWITCHES = dict.fromkeys(("1", "yes", "on", "y"), "true")
_SWITCHES |= dict.fromkeys(("0", "no", "off", "n"), "false")


class Hint(NamedTuple):
    """What to write, and the path that is meant, if it is one alone."""

    text: str
    meant: str = ""


@cache
def list_synonyms() -> dict[str, str]:
    """Return the words of others, each with the path of the spec that it stands for."""
    synonyms: dict[str, str] = {}
    path = ""
    for word in OTHER_WORDS.split():
        if word.endswith(":"):
            path = word[:-1]
        else:
            synonyms[word] = path
    return synonyms


@cache
def list_paths(cls: type, path: str = "") -> tuple[str, ...]:
    """Return the path of every key of a record, and of the records in it."""
    paths: list[str] = []
    for name, field in read_fields(cls).items():
        inner = f"{path}.{name}" if path else name
        paths.append(inner)
        for kind in field.kinds:
            if is_record(kind.type):
                paths += list_paths(kind.type, inner)
    return tuple(paths)


def suggest_key(key: str, node: Node, *, path: str, cls: type, root: type) -> Hint:
    """Return what to write for a key that the record of type `cls` at `path` does not have.

    `node` is its value, `root` the type of the whole document. The text is empty without a hint.
    """
    known = read_fields(cls)
    word = _normalize(key)
    plain = word.replace("_", "")
    if path.startswith(("run.args.", "environment.variables.")) and not find_near(word, known):
        name = path.rpartition(".")[2]
        return Hint(f"write it out, as the program reads it: {name}.{key}: ...", f"{path}.value")
    for name in known:
        if plain == name.replace("_", ""):
            return Hint(f"did you mean {name!r}?", _join(path, name))
    if root is JobSpec:
        humps = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key)
        names = dict.fromkeys((word, *_say_plainly(word), _normalize(humps)))
        for name in names:
            hint = _translate(key, name, node, path)
            if hint is not None:
                return hint
    inside = [name for name in list_paths(root) if name.rpartition(".")[2] == word]
    if inside:
        return _point_to(key, inside, path, exact=True)
    if near := find_near(word, known):
        return Hint(f"did you mean {near!r}?", _join(path, near))
    if root is not JobSpec:
        return Hint("")
    if path == "" and (hint := _read_as_option(key)):
        return hint
    if hint := _read_as_content(key, path):
        return hint
    if path == "" and isinstance(node, Scalar) and (hint := _read_value(node.text)):
        return hint
    if re.search(r"(?:^|_)(?:stdout|stderr|output|logs?)(?:_|$)", word):
        return Hint("jobgen keeps all output under runs/NAME/ID/; leave it out")
    others = {name.rpartition(".")[2]: name for name in reversed(list_paths(root))}
    others |= list_synonyms()
    if near := find_near(word, others, cutoff=0.85):
        return _point_to(key, [others[near]], path)
    return Hint("")


def _translate(key: str, word: str, node: Node, path: str) -> Hint | None:
    """Return the hint for a word that other tools use."""
    if own := _translate_inside(word, node, path):
        return Hint(f"did you mean {own!r}?", _join(path, own))
    if word == "module" and path == "":
        return Hint(
            "a Python module to run is run.module; environment modules are environment.modules"
        )
    if word == "walltime" and path == "":
        return Hint("the limit is resources.walltime; what happens before it is on_walltime")
    if word == "env" and isinstance(node, Scalar):
        return Hint("name it as environment.conda or environment.venv")
    if word in ("command", "commands", "script") and path == "environment":
        return Hint("lines of bash are environment.setup, the program is run")
    if word in ("min", "max", "on", "options"):
        return Hint("")  # names of the schema that mean little without what is around them
    answer = _find_answer(f"{path}.{word}") or _find_answer(word)
    if word in ("config", "settings", "defaults") and isinstance(node, Scalar):
        return Hint(f"an argument of the program goes to run.args: {{{key}: ...}}")
    if answer is not None:
        inside = _read_as_content(key, path) if answer.startswith("the program") else None
        return inside or Hint(answer)
    target = list_synonyms().get(word)
    if word == "runtime" and isinstance(node, Scalar) and not node.text[:1].isdigit():
        target = "environment.container.runtime"
    if target == "run.command" and _ends_in_py(node):
        target = "run.script"
    if target == "run.script" and word == "python" and not _ends_in_py(node):
        return Hint("name the environment that has it: environment.venv or environment.conda")
    if target is None:
        return None if isinstance(node, Mapping) else _point_to_directive(word)
    if target == "extends" and isinstance(node, Mapping):
        return Hint(_find_answer("spec") or "")
    if target == "array.values" and isinstance(node, Mapping) and path == "":
        return Hint("write array: {values: ...}", "array.values")
    return _point_to(key, [target], path)


def _say_plainly(word: str) -> tuple[str, ...]:
    """Return a word without the tool's name before it, or with `node` for what others call so."""
    plain = re.sub(r"^(?:slurm|sbatch|pbs|qsub|torchx|submitit)_", "", word)
    plain = re.sub(r"_per_(?:chunk|host|machine|replica|server|vnode|worker)$", "_per_node", plain)
    return (plain,) if plain != word else ()


def _normalize(key: str) -> str:
    return re.sub(r"[\s./-]+", "_", key.strip("-_ ").lower())


def _find_answer(word: str) -> str | None:
    return next((text for text, words in ANSWERS.items() if word in words.split()), None)


def _read_as_option(key: str) -> Hint | None:
    """Return the hint for a letter that is an option of the schedulers, if it is one key alone."""
    targets = {row.options[f"-{key}"] for row in SCHEDULERS.values() if f"-{key}" in row.options}
    return _point_to(key, [*targets], "") if len(targets) == 1 and len(key) == 1 else None


def _ends_in_py(node: Node) -> bool:
    return isinstance(node, Scalar) and node.text.endswith(".py")


def _point_to_directive(word: str) -> Hint | None:
    """Return the hint for a scheduler's own option that has no key."""
    for form, words in OPTIONS.items():
        if word in words.split():
            option = word if form.startswith("#PBS") else word.replace("_", "-")
            example = f"directives: ['{form.format(option)}']"
            return Hint(f"write directives, as in {example}", "directives")
    return None


def suggest_separation(key: str, known: Iterable[str]) -> str:
    """Return what to write for a key without a value that stands behind another one in {...}."""
    if (match := re.fullmatch(r"(\w+) ?[= ] ?(.+)", key)) and match[1] in known:
        return f"write {match[1]}: {match[2]}"
    return "a comma ends a value in {...}; quote what is one value, write [...] for several"


def _translate_inside(word: str, node: Node, path: str) -> str:
    """Return the key of the record at `path` that a word means there; the empty string if none."""
    if path == "resources" and word == "gpu" and isinstance(node, Scalar) and node.kind == "str":
        return "gpu_type"
    for line in INSIDE.get(path, "").splitlines():
        name, _, words = line.partition(": ")
        if word in words.split():
            return name
    return ""


def _point_to(key: str, paths: list[str], path: str, *, exact: bool = False) -> Hint:
    """Say where a thing belongs, as seen from the record at `path`."""
    target = min(paths, key=lambda name: (name.count("."), name))
    parent, _, name = target.rpartition(".")
    if parent == path and path != "":
        return Hint(f"did you mean {name!r}{REMARKS.get(target, '')}?", target)
    if not parent:
        place = "" if path == "" else ", at the top level"
        text = f"did you mean {target!r}?" if not place else f"write {target}{place}"
        if name in EXAMPLES and name != key:
            text = f"write {target}{place}, as in {_nest(target)}"
        return Hint(text, target)
    belongs = f"{key!r} belongs to {parent}; " if exact else ""
    example = _nest(target, "requeue" if "requeue" in key else "")
    return Hint(f"{belongs}write {target}{REMARKS.get(target, '')}, as in {example}", target)


def _nest(target: str, value: str = "") -> str:
    """Write a path as YAML, such as `resources: {walltime: 2h}`."""
    *outer, name = target.split(".")
    text = f"{name}: {value or EXAMPLES.get(name, '...')}"
    for key in reversed(outer):
        text = f"{key}: {{{text}}}"
    return text


def _read_as_content(key: str, path: str) -> Hint | None:
    """Return the hint for a key that is the user's own name: a variable, an argument."""
    if re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", key) and path in ("", "environment", "run"):
        return Hint(f"a variable goes to environment.variables: {{{key}: ...}}")
    if path == "run":
        return Hint(f"an argument of the program goes to run.args: {{{key}: ...}}")
    if path == "array":
        return Hint(f"what the tasks are given goes to array.values: {{{key}: [...]}}")
    return None


def _read_value(text: str) -> Hint | None:
    """Return the hint for a key whose value alone says what it means: 2x4, 1-10%3."""
    if match := re.fullmatch(r"(\d+)x(\d+)", text):
        text = f"write resources: {{nodes: {match[1]}, gpus_per_node: {match[2]}}}"
        return Hint(text, "resources.nodes")
    if re.fullmatch(r"\d+-\d+(?::\d+)?(?:%\d+)?", text):
        tasks = f"{_count_indices(text)}{_read_throttle(text)}"
        return Hint(f"write array: {{tasks: {tasks}}}", "array.tasks")
    return None


def suggest_shape(node: Node, kinds: tuple[Kind, ...], path: str) -> str:
    """Return how to write a value that has the wrong shape; the empty string if nobody knows."""
    name = path.rpartition(".")[2]
    if isinstance(node, Scalar):
        return _suggest_for_scalar(node, kinds, path, name)
    if any(kind.type is str for kind in kinds) and name == "setup":
        return "write the lines as a block: setup: |"
    if path.startswith(("array.values.", "array.zip.")) and isinstance(node, Mapping):
        return f"write the values: {name}: [1e-3, 3e-4]"
    if name == "script" and isinstance(node, Sequence):
        words = [item.text for item in node.items if isinstance(item, Scalar)]
        rest = f", args: [{', '.join(words[1:])}]" if words[1:] else ""
        return f"write script: {words[0]}{rest}" if words else ""
    if path == "array.tasks" and isinstance(node, Sequence):
        return "write array: {values: {NAME: [...]}}"
    if path in ("array.values", "array.zip"):
        return f"write {name}: {EXAMPLES[name]}"
    if isinstance(node, Sequence) and name == "variables":
        return "write variables: {NAME: value}"
    if isinstance(node, Sequence) and name == "constraint":
        words = [item.text for item in node.items if isinstance(item, Scalar)]
        return f"write constraint: {'&'.join(words)}" if len(words) == len(node.items) else ""
    if isinstance(node, Sequence) and all(kind.type is str for kind in kinds) and node.items:
        return "write one, and no list"
    if isinstance(node, Sequence) and path == "array":
        return "write array: {list: [...]}"
    if isinstance(node, Sequence) and path == "run":
        return "write run: {command: [...]}"
    if isinstance(node, Sequence) and path == "environment":
        return "write environment: {modules: [...]}, or variables: {NAME: value}"
    if isinstance(node, Mapping) and path == "site":
        return "write the name of a profile; `jobgen sites` lists them"
    if isinstance(node, Mapping) and name in ("venv", "conda", "script", "queue", "account"):
        return f"write {name}: NAME"
    return ""


def _suggest_for_scalar(node: Scalar, kinds: tuple[Kind, ...], path: str, name: str) -> str:
    text = node.text
    if path == "run" and (launcher := find_launcher(_split(text))):
        return f"write run: {{{show_program(_split(text))}}}; {launcher} is started by jobgen"
    forms = {
        "run": f"{{script: {text}}}"
        if re.fullmatch(r"\S+\.py", text)
        else f"{{command: [bash, -c, {text!r}]}}"
        if re.search(r"[;&|<>\n]", text.strip())
        else f"{{command: [{', '.join(_split(text))}]}}",
        "resources": "{nodes: 2, gpus_per_node: 4, walltime: 2h}",
        "environment": f"{{venv: {text}}}" if "/" in text else f"{{conda: {text}}}",
        "launch": f"{{launcher: {text}}}" if text in ("srun", "mpiexec") else "{mode: torchrun}",
        "on_walltime": f"{{then: {text}}}"
        if text in ("stop", "requeue", "resubmit")
        else "{notice: 5m}",
        "array": f"{{tasks: {_count_indices(text)}{_read_throttle(text)}}}",
        "report": f"{{metrics: {text if re.search('[./]', text) else 'FILE'}}}",
    }
    if path == "array" and "," in text:
        indices = ", ".join(_list_indices(text))
        return f"write array: {{values: {{NAME: [{indices}]}}{_read_throttle(text)}}}"
    if path == "array.tasks" and re.fullmatch(r"\d+-\d+(?::\d+)?(?:%\d+)?", text):
        return f"write tasks: {_count_indices(text)}{_read_throttle(text)}"
    if path in forms:
        return f"write {path}: {forms[path]}"
    if any(kind.type is bool for kind in kinds) and text.lower() in _SWITCHES:
        return f"write {_SWITCHES[text.lower()]}"
    if name == "nodes" and (match := re.fullmatch(r"(\d+) ?(?:-|\.\.|:|to) ?(\d+)", text)):
        return f"write nodes: {{min: {match[1]}, max: {match[2]}}}"
    if name == "gpus_per_node" and (match := GPUS.fullmatch(text)):
        kind, count = match[1] or match[4], match[2] or match[3]
        about = "" if kind.lower() == "gpu" else f", gpu_type: {kind.lower()}"
        return f"write gpus_per_node: {count}{about}"
    if any(kind.type is int for kind in kinds):
        if match := re.fullmatch(r"(\d+)(?:\.0{0,2}| ?[a-z]{3,})", text):
            return f"write {name}: {match[1]}"
        if match := re.fullmatch(r"(\d+)[.,'](000)", text):  # a thousand, as some write it
            return f"write {name}: {match[1]}, or {match[1]}{match[2]}"
        if re.fullmatch(r"(?i)all|auto|max|any|gpu", text):
            return "write the number, or leave it out"
    if name == "variables":
        return "write variables: {NAME: value}"
    if path.startswith("array.") and any(kind.type is tuple for kind in kinds):
        if match := re.fullmatch(r"(\w+)\((.*)\)", text):
            return _write_out(match[1], match[2])
        return f"write [{', '.join(text.strip('[] ').replace(',', ' ').split())}]"
    return ""


def suggest_form(text: str, path: str) -> str:
    """Return how to write text that has not the form which its place asks for."""
    name = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    if re.fullmatch(r"singleton|(aftercorr|afterburstbuffer|expand)[:=].+", text):
        return f"write directives: ['#SBATCH --dependency={text}']"
    if match := re.fullmatch(r"(after\w*)[:=](.+)", text):
        return f"write after: {{{match[1]}: [{', '.join(re.split('[:,]', match[2]))}]}}"
    if name == "name" and (plain := re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-._")):
        return f"write e.g. {plain}"
    if path == "run.module" and (match := re.fullmatch(r"(?:-m +)?([\w.]+) +([-\w].*)", text)):
        words = [match[1], *_split(match[2])]
        return f"write module: {words[0]}, args: [{', '.join(words[1:])}]"
    if name in ("modules", "load") and text.strip():
        words = re.split(r"[\s,;]+", text.strip("-"))
        names = [word for word in words if word not in ("", "module", "ml", "load", "add")]
        return f"write modules: [{', '.join(names)}]"
    return ""


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _count_indices(text: str) -> str:
    """Return how many tasks `0-9`, `1-100%4` or `10` are."""
    match = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(%\d+)?", text)
    if not match:
        return text if text.isdecimal() else "10"
    return str((int(match[2]) - int(match[1])) // (int(match[3] or 1) or 1) + 1)


def _list_indices(text: str) -> list[str]:
    """Return the indices of `1,3,5-7%2`."""
    indices: list[str] = []
    for part in text.partition("%")[0].replace(" ", "").split(","):
        if match := re.fullmatch(r"(\d{1,6})-(\d{1,6})(?::(\d{1,6}))?", part):
            numbers = range(int(match[1]), int(match[2]) + 1, int(match[3] or 1) or 1)
            indices += map(str, numbers) if len(numbers) < 10 else [part]
        else:
            indices.append(part)
    return indices


def _write_out(function: str, inner: str) -> str:
    """Return how to write a sweep of Hydra: choice(a,b), range(1,4)."""
    words = [word.strip() for word in inner.split(",")]
    if function == "choice":
        return f"write [{', '.join(words)}]"
    if function == "range" and re.fullmatch(r"\d{1,6}(,\d{1,6}){0,2}", ",".join(words)):
        numbers = [int(word) for word in words]
        if (len(words) < 3 or numbers[2]) and (values := range(*numbers)):
            return f"write [{', '.join(map(str, values[:9]))}{', ...' if len(values) > 9 else ''}]"
    return "write the values: [1e-3, 3e-4]"


def _read_throttle(text: str) -> str:
    """Return how many tasks of `0-9%3` may run at once, as a key of the spec."""
    match = re.search(r"%(\d+)$", text)
    return f", at_once: {match[1]}" if match else ""


def suggest_value(text: str, known: Iterable[str], path: str) -> str:
    """Return what to write for a word that is none of the `known` ones at `path`."""
    known = tuple(known)
    name = re.sub(r"\[\d+\]$", "", path).rpartition(".")[2]
    word = text.strip().lower()
    for value, words in OTHER_VALUES.get(name, {}).items():
        if word in words.split() and (value in known or value[0] == "["):
            return f"write {value}" if name != "on" or value[0] != "[" else f"write on: {value}"
    if near := find_near(word, known, cutoff=0.7):
        return f"did you mean {near!r}?"
    return f"write one of {', '.join(known)}"


def find_near(word: str, known: Iterable[str], *, cutoff: float = 0.75) -> str:
    """Return the one of `known` that is spelt nearly so; the empty string if none is.

    The first letters or the last have to agree: `cores` is no `nodes`.
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
