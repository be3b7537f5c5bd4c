"""The topology of a job as a drawing: a self-contained SVG, for light and dark backgrounds.

A row is a node, or what a role has of it; of many nodes, those that are alike share one. A line
joins all rows to the node that hosts the rendezvous.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from textwrap import wrap

from jobgen.plan.ranks import NodeRow
from jobgen.rendering.explain import Explanation

_SEPARATE = 8  # up to so many nodes each have a row of their own
_ROWS = 16  # and so many rows are drawn at most
_CELLS = 16  # so many processes of a node have a cell each
_ACROSS = 8
_WIDTH, _LEFT, _CELL, _HIGH, _GAP = 1000, 242, 89, 44, 8

_STYLE = Path(__file__).with_name("static").joinpath("drawing.css").read_text().rstrip()


def draw(explanation: Explanation) -> str:
    """The SVG of a job's nodes, ranks, devices and rendezvous; always the same for the same job."""
    programs = [(role.name, role.nodes) for role in explanation.roles] or [("", explanation.nodes)]
    groups = [(role, group) for role, nodes in programs for group in _group_rows(nodes)]
    left_out = sum(len(group) for _, group in groups[_ROWS:])
    parts: list[str] = []
    y, middles = 66, []
    for role, group in groups[:_ROWS]:
        height = _measure_height(group[0])
        middles.append((y + height // 2, group[0].hosts_rendezvous))
        parts += _draw_node(group, y, height, role)
        y += height + _GAP
    notes = [f"and {left_out:,} more nodes of other shapes"] if left_out else []
    notes += [explanation.ranks, explanation.rendezvous]
    notes += [f"A GPU is here {explanation.device}."] if explanation.device else []
    for note in notes:
        for words in wrap(note, 130):
            y += 18
            parts.append(_write_text(24, y, words, "small"))
    top, bottom = middles[0][0], middles[-1][0]
    line = [f'<path class="line" d="M40 {top} V{bottom}"/>'] if bottom > top else []
    for middle, hosts in middles:
        shape = 'class="host" r="9"' if hosts else 'class="other" r="5"'
        line.append(f'<circle {shape} cx="40" cy="{middle}"/>')
    height = y + 24
    title = explanation.title
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        _write_text(24, 38, title if len(title) <= 105 else f"{title[:104]}…", "title"),
    ]
    return "\n".join([*head, *parts, *line, "</svg>"]) + "\n"


def _group_rows(nodes: tuple[NodeRow, ...]) -> list[list[NodeRow]]:
    """Nodes that share a row: none of few, those that are alike of many."""
    if len(nodes) <= _SEPARATE:
        return [[node] for node in nodes]
    groups: dict[NodeRow, list[NodeRow]] = {}
    for node in nodes:
        groups.setdefault(node._replace(node=0, global_ranks=None), []).append(node)
    return list(groups.values())


def _measure_height(node: NodeRow) -> int:
    cells = min(len(node.local_ranks), _CELLS)
    return max(1, -(-cells // _ACROSS)) * (_HIGH + 6) + 10


def _draw_node(group: list[NodeRow], y: int, height: int, role: str) -> list[str]:
    node, count = group[0], len(group)
    right = _WIDTH - 24
    parts = [_draw_box(68, y, right - 68, height, "node")]
    named = f"node {node.node}" if count == 1 else f"{count:,} nodes alike: {_numbers(group)}"
    if role:
        named = f"{role}: node{'s' if count > 1 else ''} {_numbers(group)}"
    if count > 1:  # a second edge, as of a stack
        parts.insert(0, _draw_box(74, y + 5, right - 74, height, "node"))
    facts = [node.devices_in_words if node.gpus else "no GPU"]
    facts += [f"{node.cpus} CPUs"] if node.cpus is not None else []
    facts += [node.memory] if node.memory else []
    lines = [(named, ""), (" · ".join(facts), "small")]
    if node.hosts_rendezvous:
        lines.append(("hosts the rendezvous", "named"))
    at = y + height // 2 - 9 * (len(lines) - 1) + 4
    for text, style in lines:
        parts.append(_write_text(82, at, text, style))
        at += 18
    ranks = list(node.local_ranks)
    shown: Iterable[int | None] = ranks
    if len(ranks) > _CELLS:
        shown = [*ranks[: _CELLS - 2], None, ranks[-1]]
    for index, rank in enumerate(shown):
        x = _LEFT + 20 + index % _ACROSS * _CELL
        top = y + 8 + index // _ACROSS * (_HIGH + 6)
        parts += _draw_cell(node, rank, alone=count == 1, x=x, y=top)
    return parts


def _draw_cell(node: NodeRow, rank: int | None, *, alone: bool, x: int, y: int) -> list[str]:
    """One process; None stands for those that are not shown."""
    if rank is None:
        return [_write_text(x + 12, y + 26, f"{len(node.local_ranks) - _CELLS + 1} more", "small")]
    known = alone and node.global_ranks is not None
    name = f"rank {(node.global_ranks or ())[rank]}" if known else f"local {rank}"
    shared = "a shared GPU" if node.gpus < len(node.local_ranks) else f"{node.gpus} GPUs"
    device = node.devices[rank] if node.devices else shared
    return [
        _draw_box(x, y, _CELL - 8, _HIGH, "gpu" if node.gpus else "cpu"),
        _write_text(x + 8, y + 18, name, ""),
        _write_text(x + 8, y + 35, device, "small"),
    ]


def _numbers(group: list[NodeRow]) -> str:
    """`1-127` where they follow each other; the first and the last else."""
    first, last = group[0].node, group[-1].node
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first == len(group) - 1 else f"{first}, … {last}"


def _draw_box(x: int, y: int, width: int, height: int, style: str) -> str:
    size = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    return f'<rect class="{style}" {size} rx="6"/>'


def _write_text(x: int, y: int, text: str, style: str) -> str:
    named = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(text)}</text>'
