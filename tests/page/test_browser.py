"""The page as people use it: in a real browser, with jobgen's own Python in it.

Needs Chromium, playwright and npm, which fetches Pyodide and axe once into the user's cache.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsers import keep_picture
from npm import fetch_package
from spec_corpus import corpus
from support import EXAMPLES, jobgen, working_in

from jobgen.page.build import PYODIDE_VERSION, build_page
from jobgen.page.serve import make_server
from jobgen.spec.edit import quote_text, set_value

pytestmark = pytest.mark.slow

AXE_VERSION = "4.14.1"
SITES = ("slurm-generic", "pbs-generic", "nci-gadi", "nersc-perlmutter", "alcf-polaris")
SCRIPT = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=4
#SBATCH --time=02:00:00
torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=localhost:29500 train.py
"""
WIDTHS = (390, 768, 1280, 1920)
VIEWPORT: Any = {"width": 1920, "height": 1000}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page, built and served on loopback."""
    folder = tmp_path_factory.mktemp("page") / "page"
    built = build_page(str(folder), pyodide=str(fetch_package("pyodide", PYODIDE_VERSION)))
    assert built.size <= 15e6
    with make_server(str(folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Opened:
    """The page in a tab, with all that it asked for and all that the browser complained of."""

    def __init__(self, browser: Any, address: str) -> None:
        self.context = browser.new_context(viewport=VIEWPORT)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.page = self.context.new_page()
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def wait(self) -> None:
        """Wait until jobgen has answered."""
        self.page.wait_for_selector('body[data-state][data-busy="no"]', timeout=180_000)

    def write(self, text: str) -> None:
        """Put a spec into the editor, and wait for the answer."""
        self.page.fill("#yaml", text)
        self.wait()

    def script(self) -> str:
        """Return the script as the page shows it."""
        rows = self.page.evaluate(
            "[...document.querySelectorAll('#script li')].map((row) => row.textContent)"
        )
        return "".join(f"{row}\n" for row in rows)

    def problems(self) -> list[str]:
        rows = self.page.evaluate(
            "[...document.querySelectorAll('#problems p:not(.note)')]"
            ".map((row) => row.lastChild.textContent)"
        )
        return [str(row) for row in rows]


@pytest.fixture(scope="module")
def opened(browser: Any, address: str) -> Iterator[Opened]:
    tab = Opened(browser, address)
    tab.wait()
    yield tab
    tab.context.close()


def list_specs() -> list[str]:
    """Return thirty specs or more: the examples, and good ones of the corpus of others."""
    good = [text for text, is_good in corpus() if is_good and "extends" not in text]
    return [example.read_text() for example in EXAMPLES] + good[:: max(1, len(good) // 28)]


def put_on_site(text: str, site: str) -> str:
    """Return a spec's text for a site."""
    return set_value(set_value(text, "scheduler", None), "site", site)


def test_the_page_renders_what_the_command_renders(opened: Opened, tmp_path: Path) -> None:
    """At least 30 specs on 5 sites: the same bytes, or the same refusals."""
    specs, rendered, differences = list_specs(), 0, []
    assert len(specs) >= 30
    opened.page.set_viewport_size({"width": 200, "height": 100})  # most of its time is painting
    with working_in(tmp_path):
        for text in specs:
            for site in SITES:
                spec = put_on_site(text, site)
                Path("job.yaml").write_text(spec)
                ended = jobgen("render", "job.yaml")
                opened.write(spec)
                if ended.code == 0:
                    rendered += 1
                    if opened.problems() or opened.script() != ended.out:
                        differences.append((site, spec, opened.problems()))
                elif opened.problems() != ended.err.splitlines():
                    differences.append((site, spec, opened.problems()))
    opened.page.set_viewport_size(VIEWPORT)
    assert not differences
    assert rendered >= 60


def test_form_and_text_follow_each_other(opened: Opened) -> None:
    page = opened.page
    opened.write(EXAMPLES[0].read_text())
    page.fill("#field-resources-nodes", "3")
    opened.wait()
    assert "nodes: 3" in page.input_value("#yaml")
    assert "3 nodes" in page.inner_text("#title")
    assert page.locator("#script .lit").count() > 0
    opened.write(set_value(page.input_value("#yaml"), "resources.nodes", "5"))
    assert page.input_value("#field-resources-nodes") == "5"
    page.fill("#field-environment-setup", "ulimit -c 0\nexport A='b c'\n")
    opened.wait()
    assert "ulimit -c 0" in opened.script()
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    page.select_option("#field-launch-mode", "direct")
    opened.wait()
    assert "mode: direct" in page.input_value("#yaml")


def test_a_problem_stands_beside_its_field(opened: Opened) -> None:
    page = opened.page
    opened.write(EXAMPLES[0].read_text())
    page.fill("#field-resources-walltime", "4 hors")
    opened.wait()
    assert page.get_attribute("#field-resources-walltime", "aria-invalid") == "true"
    assert "'4 hors'" in page.inner_text("#field-resources-walltime-problem")
    assert page.is_disabled("#copy-script")
    page.fill("#field-resources-walltime", "4h")
    opened.wait()
    assert page.get_attribute("#field-resources-walltime", "aria-invalid") is None


def test_a_site_shows_its_queues(opened: Opened) -> None:
    page = opened.page
    opened.write(EXAMPLES[0].read_text())
    page.fill("#field-site", "nci-gadi")
    page.wait_for_selector("#site-card table")
    assert "gpuvolta" in page.inner_text("#site-card")
    opened.wait()


def test_a_link_opens_the_same_job(opened: Opened, browser: Any) -> None:
    text = set_value(EXAMPLES[0].read_text(), "name", quote_text("é-ö"))
    text = set_value(text, "name", "linked")
    opened.write(text + "# é\n")
    opened.page.click("#copy-link")
    link = opened.page.evaluate("navigator.clipboard.readText()")
    assert "#spec=" in link
    other = Opened(browser, link)
    other.wait()
    assert other.page.input_value("#yaml") == text + "# é\n"
    assert other.script() == opened.script()
    other.context.close()


def test_a_dropped_script_is_linted_and_imported(opened: Opened, tmp_path: Path) -> None:
    script = tmp_path / "job.sbatch"
    script.write_text(SCRIPT)
    opened.page.set_input_files("#file", str(script))
    opened.page.wait_for_selector("#findings li")
    opened.wait()
    assert "line" in opened.page.inner_text("#findings")
    assert "resources:" in opened.page.input_value("#yaml")
    assert opened.page.locator("#findings details").count() == 2


def test_it_is_accessible_and_fits(browser: Any, address: str) -> None:
    axe = (fetch_package("axe-core", AXE_VERSION) / "axe.min.js").read_text()
    fresh = Opened(browser, address)
    fresh.wait()
    page = fresh.page
    fresh.write(EXAMPLES[0].read_text())
    page.wait_for_selector("#site-card table")
    keep_picture(page, "page", width=1440, height=1000)
    faults = []
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 1000})
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                faults.append(f"{width}: the page is {wide} wide")
            page.evaluate(axe)
            for fault in page.evaluate("axe.run()")["violations"]:
                nodes = [node["html"][:100] for node in fault["nodes"][:3]]
                faults.append(f"{width} {scheme}: {fault['id']}: {nodes}")
    fresh.context.close()
    assert not faults, "\n".join(faults)


def test_the_keyboard_is_enough(opened: Opened) -> None:
    page = opened.page
    opened.write(EXAMPLES[0].read_text())
    page.focus("#script li.why")
    assert page.inner_text("#why") != ""
    page.focus("#field-name")
    page.keyboard.press("Control+A")
    page.keyboard.type("by-keyboard")
    opened.wait()
    assert "by-keyboard" in opened.script()


def test_nothing_leaves_the_origin(opened: Opened, address: str) -> None:
    outside = [url for url in opened.asked if not url.startswith((address, "blob:", "data:"))]
    assert not outside
    assert not opened.complaints


def test_a_change_is_answered_quickly(opened: Opened) -> None:
    """Within 50 ms on two calm cores; the median of twenty, with room for a busy machine."""
    times = opened.page.evaluate(
        """async (text) => {
          const times = [];
          for (let nodes = 2; nodes < 22; nodes += 1) {
            const begin = performance.now();
            await ask("edit", text, "resources.nodes", String(nodes));
            times.push(performance.now() - begin);
          }
          return times.sort((a, b) => a - b);
        }""".replace("ask(", "jobgenPage.ask("),
        EXAMPLES[0].read_text(),
    )
    assert times[10] <= 250, times
