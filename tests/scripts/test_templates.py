"""The templates decide nothing and quote nothing themselves: a lint of their syntax trees."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from jinja2 import Template, UndefinedError, nodes
from jinja2.meta import find_referenced_templates
from support import EXAMPLES, ROOT, SITES, plan_of

from jobgen.rendering.render import _make_environment, render
from jobgen.rendering.view import describe_script

ENVIRONMENT = _make_environment()
FOLDER = ROOT / "templates"
TEMPLATES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.j2"))

# All that a template may be made of.
STATEMENTS = (
    *(nodes.Template, nodes.Extends, nodes.Block, nodes.Include),
    *(nodes.Output, nodes.TemplateData, nodes.If, nodes.For),
)
PRINTED = (nodes.Name, nodes.Getattr, nodes.Getitem, nodes.Filter)
TESTED = (nodes.Name, nodes.Getattr, nodes.Not, nodes.And, nodes.Or)


def tree(template: str) -> nodes.Template:
    """The syntax tree of one template."""
    return ENVIRONMENT.parse((FOLDER / template).read_text())


def inner(node: nodes.Node) -> Iterator[nodes.Node]:
    """`node` and all below it."""
    yield node
    for child in node.iter_child_nodes():
        yield from inner(child)


def all_nodes() -> Iterator[tuple[str, nodes.Node]]:
    """Every node of every template, with its place."""
    for template in TEMPLATES:
        for node in inner(tree(template)):
            yield f"{template}:{node.lineno}: {node}", node


def test_a_template_prints_names_and_what_it_has_asked_for() -> None:
    for place, output in all_nodes():
        for printed in output.nodes if isinstance(output, nodes.Output) else ():
            for node in () if isinstance(printed, nodes.TemplateData) else inner(printed):
                index = isinstance(node, nodes.Const) and isinstance(node.value, int)
                assert isinstance(node, PRINTED) or index, place
                if isinstance(node, nodes.Filter):
                    assert (node.name in ("words", "verbatim"), node.args) == (True, []), place


def test_a_template_decides_nothing() -> None:
    for place, node in all_nodes():
        if isinstance(node, nodes.Stmt | nodes.Template):
            assert isinstance(node, STATEMENTS), place
        if isinstance(node, nodes.If):
            assert all(isinstance(part, TESTED) for part in inner(node.test)), place


def quoted(template: str) -> Iterator[tuple[int, str, bool]]:
    """(line, expression, whether it stands in quotes of the shell) for each interpolation."""
    within: list[str] = []  # what is open: quotes ' or ", parentheses ( or a comment #
    expression, where = "", ""
    for line, token, text in ENVIRONMENT.lex((FOLDER / template).read_text()):
        if token.endswith(("_begin", "_end")):
            if token == "variable_end":
                yield line, expression.strip(), bool(within) and within[-1] in "'\""
            expression, where = "", token
        elif token != "data":
            expression += text if where == "variable_begin" else ""
        else:
            scan(text, within)


def scan(text: str, within: list[str]) -> None:
    """Note in `within` what this piece of bash opens and closes."""
    before, escaped = " ", False
    for char in text:
        top = within[-1] if within else ""
        if escaped:
            escaped = False
        elif top == "#":
            if char == "\n":
                within.pop()
        elif top == "'":
            if char == "'":
                within.pop()
        elif char == "\\":
            escaped = True
        elif char == '"':
            within.pop() if top == '"' else within.append('"')
        elif char == "(" and (top != '"' or before == "$"):
            within.append("(")
        elif top == '"':
            pass
        elif char == "'" or (char == "#" and before.isspace()):
            within.append(char)
        elif char == ")" and top == "(":
            within.pop()
        before = char


def test_the_lint_knows_what_stands_in_quotes() -> None:
    opened: list[str] = []
    for text, top in [
        ("echo 'it' ", ""),
        ("\"a $(b 'c' ", "("),
        ('"d \\" ', '"'),
        ('") ', '"'),
        ("' \" x; case a in b) # it's\n", ""),
        ("'\"", "'"),
    ]:
        scan(text, opened)
        assert (opened[-1] if opened else "") == top, text


def every_context() -> list[dict[str, Any]]:
    """What templates are rendered with, for every example on every scheduler."""
    found: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Template, "render", lambda self, **context: found.append(context) or "")
        for path, site in product(EXAMPLES, SITES):
            render(plan_of(path.read_text(), site=site))
    return found


def test_in_quotes_of_the_shell_stand_numbers_and_verbatim_text_only() -> None:
    contexts = every_context()
    for template in TEMPLATES:
        for line, expression, in_quotes in quoted(template):
            if in_quotes and not expression.endswith("verbatim"):
                value = ENVIRONMENT.compile_expression(expression)
                kinds = set[type]()
                for context in contexts:
                    with suppress(AttributeError):  # of a part that the job lacks
                        kinds.add(type(value(**context)))
                assert kinds <= {int, type(None)}, f"{template}:{line}: {expression}"


def test_every_template_is_used() -> None:
    used, found = set[str](), {"job/script.sh.j2"}
    while found - used:
        template = (found - used).pop()
        used.add(template)
        found |= {name for name in find_referenced_templates(tree(template)) if name}
    assert sorted(used) == TEMPLATES


@pytest.mark.parametrize(
    "text",
    [
        "{{ nothing }}",
        "{{ view.nothing }}",
        "{{ view.plan.nodes.groups.9 }}",
        "{{ nothing | words }}",
        "{{ nothing | verbatim }}",
        "{% if nothing %}{% endif %}",
        "{% if not view.nothing %}{% endif %}",
        "{% for x in view.nothing %}{% endfor %}",
    ],
)
def test_a_name_that_is_not_there_is_an_error(text: str) -> None:
    plan = plan_of(EXAMPLES[0].read_text())
    with pytest.raises((UndefinedError, AttributeError, TypeError)):
        ENVIRONMENT.from_string(text).render(view=describe_script(plan))
