"""Reports as people see them: in a real browser, light and dark, on a telephone and on a desk."""

import os
from pathlib import Path
from typing import Any

import pytest
from browsers import PATIENCE, keep_picture
from jobs import spec as job_spec
from jobs import submit
from report_runs import make, metrics
from support import jobgen, working_in

pytestmark = pytest.mark.slow

WIDTHS = (390, 768, 1920)
RANKS = (1, 64, 1024)

# How many points of a canvas are of the colour of the first curve.
LOOK = """() => {
  const style = getComputedStyle(document.documentElement);
  const colour = style.getPropertyValue("--c1").trim();
  const near = (data, at) => [1, 3, 5].every((from, part) =>
    Math.abs(data[at + part] - parseInt(colour.slice(from, from + 2), 16)) < 12);
  return [...document.querySelectorAll(".chart")].map((chart) => {
    const canvas = chart.querySelector("canvas");
    // Of a copy that is made for reading: Chrome warns of whoever reads the page's own again.
    const copy = new OffscreenCanvas(canvas.width, canvas.height);
    const pen = copy.getContext("2d", { willReadFrequently: true });
    pen.drawImage(canvas, 0, 0);
    const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    let curve = 0;
    for (let at = 0; at < data.length; at += 4) curve += data[at + 3] > 200 && near(data, at);
    return { id: chart.id, curve, width: canvas.clientWidth };
  });
}"""
OVER = """() => [...document.querySelectorAll("body *")].filter((one) =>
  one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll, pre, .uplot"))
  .map((one) => one.outerHTML.slice(0, 80))"""
# The contrast of text with what is behind it, by WCAG 2.2: 4.5 is asked for.
CONTRAST = """() => {
  const parts = (colour) => colour.match(/[0-9.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (parts(colour)[3] !== 0) return light(colour);
    }
    return light("rgb(255, 255, 255)");
  };
  let least = [21, ""];
  for (const one of document.querySelectorAll("h1, h2, h3, p, td, th, dt, dd, small, li, .state")) {
    if (!one.textContent.trim() || !one.offsetParent) continue;
    const [a, b] = [light(getComputedStyle(one).color), behind(one)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, one.outerHTML.slice(0, 80)];
  }
  return least;
}"""

TOY = str(Path(__file__).parents[1] / "helpers" / "programs" / "toy_task.py")


class Seen:
    """A page, opened from its file, with what the browser complained of."""

    def __init__(self, browser: Any, file: Path) -> None:
        self.context = browser.new_context(viewport={"width": WIDTHS[0], "height": 900})
        self.context.set_default_timeout(PATIENCE)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.resolve().as_uri())

    def at(self, width: int, scheme: str) -> None:
        """Have the window so wide, in light or dark, and the page fit into it, all charts drawn."""
        self.page.emulate_media(color_scheme=scheme)
        self.page.set_viewport_size({"width": width, "height": 900})
        self.page.wait_for_function(
            "width => innerWidth === width && document.documentElement.scrollWidth <= width"
            " && [...document.querySelectorAll('.chart')].every((one) =>"
            " Math.abs(one.clientWidth - one.querySelector('.uplot').clientWidth) < 2)",
            arg=width,
        )
        self.drawn()

    def drawn(self) -> None:
        """Wait until each chart shows a curve, in the colours of now."""
        self.page.wait_for_function(f"() => ({LOOK})().every((chart) => chart.curve > 60)")

    def look(self) -> dict[str, dict[str, Any]]:
        """What the charts show, by their ids."""
        return {seen["id"].removeprefix("chart-"): seen for seen in self.page.evaluate(LOOK)}


def check(browser: Any, file: Path, *, charts: set[str]) -> None:
    """All that holds of every page; `charts` are among those that it has."""
    seen = Seen(browser, file)
    papers = set()
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            seen.at(width, scheme)
            assert seen.page.evaluate(OVER) == []
            drawn = seen.look()
            assert charts <= drawn.keys()
            for chart in drawn.values():
                assert chart["width"] <= width
        papers.add(seen.page.evaluate("getComputedStyle(document.body).backgroundColor"))
        ratio, which = seen.page.evaluate(CONTRAST)
        assert ratio >= 4.5, which
    assert len(papers) == 2
    assert seen.said == []
    assert seen.asked == [file.resolve().as_uri()]
    seen.context.close()


def made(folder: Path, *jobs: str) -> Path:
    """The page of the jobs below this folder."""
    with working_in(folder):
        ended = jobgen("report", *jobs, "-o", "page.html")
        assert ended.code == 0, ended.err
    return folder / "page.html"


@pytest.fixture(autouse=True)
def _no_scheduler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody is asked but the run folder."""
    for name in ("qstat", "sacct", "scontrol"):
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text("#!/bin/sh\nexit 1\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


TRAINED = {"loss", "speed", "rate"}


@pytest.mark.parametrize("ranks", RANKS)
def test_a_page_is_drawn_for_any_number_of_ranks(browser: Any, tmp_path: Path, ranks: int) -> None:
    slow = 17 * (ranks > 1)
    lines = metrics(ranks, steps=2000, restart=1000)
    make(tmp_path, "7.pbs", ranks=ranks, lines=lines, slow=slow or None, settings={"steps": 2000})
    check(browser, made(tmp_path, "7"), charts=TRAINED)


def test_runs_are_drawn_over_each_other(browser: Any, tmp_path: Path) -> None:
    for number in range(2):
        lines = metrics(4, steps=500, seed=number)
        make(tmp_path, f"{number}.pbs", ranks=4, lines=lines, overrides=[f"run.args.seed={number}"])
    check(browser, made(tmp_path, "0", "1"), charts={"losses", "speeds"})


def test_a_hostile_run_runs_nothing(browser: Any, tmp_path: Path) -> None:
    attack = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>"
    lines = metrics(4, steps=500)
    lines[0] |= {"device_name": attack, "unit": attack}
    lines = [line | {f"{attack}_per_s": 7.0} for line in lines]
    job = make(tmp_path, "7.pbs", ranks=4, lines=lines, settings={attack: attack})
    (job.run_dir / "attempts/0/nodes").write_text(f"n{attack.replace(' ', '')}\n")
    (job.run_dir / "job.yaml").write_text(attack)
    (job.run_dir / "script").write_text(attack)
    seen = Seen(browser, made(tmp_path, "7"))
    assert seen.page.title() == "gpt-web 7.pbs"
    assert (seen.said, len(seen.asked)) == ([], 1)
    assert seen.page.evaluate("document.images.length") == 0


def test_a_page_prints_on_white_with_all_that_was_folded(browser: Any, tmp_path: Path) -> None:
    make(tmp_path, "7.pbs", ranks=4, lines=metrics(4, steps=500))
    seen = Seen(browser, made(tmp_path, "7"))
    seen.at(768, "dark")
    assert seen.page.locator("details[open]").count() == 0
    assert seen.page.pdf(format="A4").startswith(b"%PDF")
    assert seen.page.locator("details[open]").count() == 0
    seen.page.emulate_media(media="print", color_scheme="dark")
    background = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    seen.drawn()
    assert seen.said == []


@pytest.mark.torch
def test_a_real_run_is_told_and_drawn(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="jobs need torch")
    content = job_spec(
        name="toy",
        preflight=True,
        resources={"nodes": 2, "walltime": "20m"},
        launch={"processes_per_node": [2, 1]},
        run={"module": "jobgen.trainer", "args": {"task": TOY, "steps": 60, "log-every": 1}},
    )
    job = submit(content, scheduler="local", cwd=tmp_path)
    assert job.wait(900) == "done 0", job.everything()
    file = made(tmp_path, job.id)
    check(browser, file, charts=TRAINED)
    seen = Seen(browser, file)
    seen.at(1200, "light")
    keep_picture(seen.page, "report", width=1200, height=900)
    seen.context.close()
    words = file.read_text()
    assert "It succeeded after " in words
    assert "60 of 60 steps on 3 ranks of 2 nodes" in words
