"""The documentation: every link leads somewhere, and the index names every page."""

import re
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def list_headings(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub makes them of its headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", line).lower()) for line in headings)
    return {line.strip().replace(" ", "-") for line in plain}


def list_dead_links(page: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        if not linked.exists():
            yield f"{page.relative_to(ROOT)}: {target} does not exist"
        elif anchor and anchor not in list_headings(linked):
            yield f"{page.relative_to(ROOT)}: {target}: no such heading"


def test_every_link_leads_somewhere() -> None:
    dead = [link for page in PAGES for link in list_dead_links(page)]
    assert not dead, "\n".join(dead)


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    missing = {page for page in pages if f"({page})" not in index} - {"README.md"}
    assert not missing
