"""Names: functions begin with a verb, a class name stands once, a variable says what it holds."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from support import ROOT

FILES = sorted((ROOT / "jobgen").rglob("*.py"))
_WORDS = """
accept add adjust advise agree align allow announce answer append apply arrange ask assemble
assert assign await balance be begin bind borrow bound break bring broadcast build call can
cancel capture change charge check choose clamp classify clean clear close coerce collect
combine come compare compile complete compose compute confirm connect consider contain continue
convert copy count cover create cut deal decide declare decode define delete deny depend derive
describe detect diagnose differ discover do download drain draw drop dump emit enable encode end
ensure enter escape estimate evaluate exchange exclude execute exist exit expand expect explain
export express extend extract fail fetch fill filter find finish fit flatten fold follow forbid
forget format forward freeze gather generate get give grant group grow guard guess handle has
hash have hide hold ignore import indent infer inform init initialise insert inspect install
interpret is iterate join judge keep kill know label launch lay leave let lift limit link lint
list listen load locate lock log look lower make map mark mask match mean measure meet mend
merge migrate mirror mix move name narrow need normalise note notice notify number obtain offer
omit open order pack pad page parse pass pick place plan point poll pop post predict prefer
prepare present preserve preview print probe proceed promise prompt prove provide publish pull
push put query quote raise rank read rebuild recall receive recognise recommend record recover
redirect reduce refer refuse register reject release rely remove rename render repeat replace
reply report request require reset resolve restart restore restrict resubmit resume retry return
reuse reveal reverse review rewrite round route run sample save scale scan schedule score search
see seek select send separate serve set settle shape share shift shorten show shrink shuffle
shut signal skip slice sort spawn split spread stage stand start state stop store stream strip
submit substitute suggest sum summarise supply support suspect sync take tell test throw tidy
tokenise touch trace track train transform translate trim truncate trust try turn type unpack
unwrap update upgrade use validate verify view visit wait walk want warn watch wrap write yield
zip
"""
VERBS = frozenset(_WORDS.split())
# What says how a value came about and not what it is.
VAGUE = {"found", "said", "told"}
# Functions whose name a framework prescribes, or that are commands: the command's name is theirs.
COMMANDS = ROOT / "jobgen" / "cli"


def begins_with_verb(name: str) -> bool:
    """Return whether the first word of a function's name is a verb (plain, or third person)."""
    word = re.split(r"_+", name.strip("_"))[0].lower()
    return word in VERBS or (word.endswith("s") and word[:-1] in VERBS)


def module_functions(path: Path) -> list[str]:
    """Return the names of a module's functions; commands of the CLI are named by their command."""
    return [
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.name.startswith("__")
        and not (path.is_relative_to(COMMANDS) and node.decorator_list)
    ]


def test_functions_begin_with_a_verb() -> None:
    """Six of ten in each room: run this file as a program for the list of the others."""
    rooms: dict[str, list[bool]] = defaultdict(list)
    for path in FILES:
        room = path.relative_to(ROOT / "jobgen").parts[0]
        rooms[room] += [begins_with_verb(name) for name in module_functions(path)]
    low = {r: f"{sum(v)}/{len(v)}" for r, v in rooms.items() if v and sum(v) < 0.6 * len(v)}
    assert not low


def test_a_class_name_stands_once() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(str(path.relative_to(ROOT)))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_no_variable_says_only_that_it_was_found() -> None:
    vague = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.id}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
    }
    assert not vague, "\n".join(sorted(vague))


def test_what_only_its_file_may_use_is_used_there() -> None:
    unused = set()
    for path in FILES:
        text = path.read_text()
        for node in ast.parse(text).body:
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            names = {one.id for one in targets if isinstance(one, ast.Name)}
            private = {name for name in names if re.match("_[^_]", name)}
            unused |= {name for name in private if len(re.findall(rf"\b{name}\b", text)) == 1}
    assert not unused


if __name__ == "__main__":
    for path in FILES:
        other = [name for name in module_functions(path) if not begins_with_verb(name)]
        if other:
            print(f"{path.relative_to(ROOT)}: {' '.join(other)}")
