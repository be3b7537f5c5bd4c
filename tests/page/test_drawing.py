"""The drawing of who runs where on the page: any viewer can read it, however large the job."""

from xml.etree import ElementTree

import pytest
from support import ROOT, edited, load

from jobgen.page.drawing import draw
from jobgen.plan.resolve import resolve
from jobgen.rendering.explain import explain
from jobgen.spec.load import load as read_spec

SVG = "{http://www.w3.org/2000/svg}"
GLYPHS = {"title": 9.2, "named": 7.8, "small": 6.2, "": 7.0}  # px of a character, on average


def drawn(resources: str, more: str = "") -> ElementTree.Element:
    """The drawing of a job on these nodes."""
    loaded = load(edited(("{nodes: 2}", f"{{{resources}}}"), ("", more)))
    return ElementTree.fromstring(draw(explain(loaded, resolve(loaded))))


def texts(svg: ElementTree.Element) -> list[str]:
    """All that stands in a drawing."""
    return [text.text or "" for text in svg.iter(f"{SVG}text")]


def boxes(svg: ElementTree.Element, style: str) -> list[tuple[int, int, int, int]]:
    """Left, top, right and bottom of the boxes of one kind."""
    found = []
    for box in svg.iter(f"{SVG}rect"):
        if box.get("class") == style:
            x, y = int(box.get("x", 0)), int(box.get("y", 0))
            found.append((x, y, x + int(box.attrib["width"]), y + int(box.attrib["height"])))
    return found


def test_nodes_ranks_devices_and_the_rendezvous() -> None:
    svg = drawn("nodes: 2, gpus_per_node: 2", "launch: {rendezvous: static}\n")
    assert texts(svg)[:6] == [
        "a: 2 nodes x 2 processes, for this machine alone",
        *("node 0", "GPU 0-1", "hosts the rendezvous"),
        *("rank 0", "GPU 0"),
    ]
    assert [text for text in texts(svg) if text.startswith("rank")] == [
        f"rank {rank}" for rank in range(4)
    ]
    assert texts(svg)[-1] == "Rank 0, on the first node of the allocation, hosts the rendezvous."
    hosts = [circle.get("class") for circle in svg.iter(f"{SVG}circle")]
    assert hosts == ["host", "other"]


def test_each_role_has_its_own_rows() -> None:
    loaded = read_spec(str(ROOT / "examples/roles/prime-rl.yaml"))
    svg = ElementTree.fromstring(draw(explain(loaded, resolve(loaded, scheduler="slurm"))))
    rows = [text for text in texts(svg) if ": node" in text]
    names = ["inference: node 0", "router: node 0", "trainer: node 1", "trainer: node 2"]
    assert rows == [*names, "orchestrator: node 1"]
    assert texts(svg).count("8 GPUs") == 1
    assert len(boxes(svg, "gpu")) == 1 + 16
    assert len(boxes(svg, "cpu")) == 2


def test_ranks_that_only_the_job_knows_are_not_made_up() -> None:
    found = texts(drawn("nodes: 2, gpus_per_node: 2", "launch: {rendezvous: c10d}\n"))
    assert "local 1" in found
    assert not any(text.startswith("rank") for text in found)


@pytest.mark.parametrize(
    ("resources", "more", "rows"),
    [
        ("nodes: 8, gpus_per_node: 8", "", 8),
        ("nodes: 128, gpus_per_node: 8", "", 2),
        ("nodes: 1024", "", 2),
        ("nodes: 1, gpus_per_node: 1024", "", 1),
        ("nodes: 1", "launch: {processes_per_node: 1024}\n", 1),
        (f"gpus_per_node: {[8] * 64 + [4] * 64}", "", 3),
        (f"gpus_per_node: {list(range(1, 45))}", "", 16),
        ("nodes: 9", f"launch: {{processes_per_node: {[1, 2, 3] * 3}}}\n", 4),
    ],
)
def test_any_size_can_be_read(resources: str, more: str, rows: int) -> None:
    svg = drawn(resources, more)
    height = int(svg.attrib["height"])
    assert height < 2100
    assert len(list(svg.iter(f"{SVG}circle"))) == rows
    nodes = boxes(svg, "node")
    for cell in boxes(svg, "gpu") + boxes(svg, "cpu"):
        assert any(
            node[0] < cell[0] and node[1] < cell[1] and cell[2] < node[2] and cell[3] < node[3]
            for node in nodes
        )
    for text in svg.iter(f"{SVG}text"):
        x, y = int(text.attrib["x"]), int(text.attrib["y"])
        right = x + GLYPHS[text.get("class", "")] * len(text.text or "")
        assert right < (258 if x == 82 else 1000)  # the cells begin there
        assert y < height


def test_what_is_not_drawn_is_counted() -> None:
    found = texts(drawn(f"gpus_per_node: {list(range(1, 45))}"))
    assert "and 28 more nodes of other shapes" in found
    assert "1009 more" in texts(drawn("nodes: 1", "launch: {processes_per_node: 1024}\n"))
    assert "1,023 nodes alike: 1-1023" in texts(drawn("nodes: 1024"))


def test_it_suits_light_and_dark_and_needs_nothing_else() -> None:
    style = "".join(node.text or "" for node in drawn("nodes: 2").iter(f"{SVG}style"))
    assert "prefers-color-scheme: dark" in style
    assert "url(" not in style
