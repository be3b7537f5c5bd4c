"""Reports: what they are made from, what they say, and what they say not to know."""

import hashlib
import json
import math
import os
import random
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_runs import BEGAN, WARNING, make, metrics, spec
from support import ROOT, jobgen, load, working_in

from jobgen.errors import RefusedError
from jobgen.jobs.record import JobRecord
from jobgen.output import format_json
from jobgen.plan.resolve import resolve
from jobgen.process import CommandResult
from jobgen.rendering.render import render
from jobgen.report import report
from jobgen.report.accounting import read_accounting
from jobgen.report.facts import Curve, Report, Use
from jobgen.report.figures import (
    format_number,
    format_ranks,
    format_share,
    format_size,
    format_span,
    measure_spread,
    sample_curve,
)
from jobgen.report.page import render_page
from jobgen.report.text import format_text
from jobgen.schedulers.pbs.usage import parse_qstat
from jobgen.schedulers.slurm.usage import parse_sacct, read_usage
from jobgen.schedulers.usage import Used

NOW = BEGAN + 86400


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, where no scheduler is to be found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def of(*jobs: JobRecord) -> Report:
    return report(list(jobs), now=NOW)


def command(name: str, prints: str, folder: Path) -> None:
    """A command that prints this."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "said").write_text(prints)
    (folder / "bin" / name).write_text(f'#!/bin/sh\nexec /bin/cat "{folder}/bin/said"\n')
    (folder / "bin" / name).chmod(0o755)


def uses(told: Report) -> dict[str, Use]:
    return {use.what: use for use in told.runs[0].uses}


def test_a_run_is_told_in_words_and_numbers(tmp_path: Path) -> None:
    lines = metrics(64, steps=1000, restart=500)
    outcomes = ("continued 0", "done 0")
    told = of(make(tmp_path, "64.pbs", ranks=64, lines=lines, slow=17, outcomes=outcomes))
    run = told.runs[0]
    assert run.state == "done"
    assert told.summary == run.summary
    assert run.summary.startswith("It succeeded after 1 h 40 min. 1,000 of 1,000 steps on 64 ranks")
    assert "of 16 nodes: the loss fell from " in run.summary
    assert run.summary.endswith("It waited 30 min in the queue.")
    assert [attempt.outcome for attempt in run.attempts] == ["continued", "done"]
    assert (run.waited, run.ran) == (1800, 6000)
    assert [place.ranks for place in run.places][:2] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    training = run.training
    assert training is not None
    assert training.least_loss == (0.5, 250)
    assert training.starts == (500,)
    assert training.arithmetic == "bf16, compiled"
    assert training.arithmetic in render_page(told, now=NOW)
    assert training.speed == pytest.approx(4096 * 64 / 0.2152, rel=0.02)
    assert run.ranks is not None
    assert [(one.rank, one.node, one.times) for one in run.ranks.slow] == [(17, "n004", 3)]
    (alike,) = run.preflight
    assert (len(alike.nodes), alike.torch, alike.devices) == (16, "2.13.0", "4 x NVIDIA H200")
    assert run.allreduce == (0.8, "Socket", WARNING)
    assert run.charged is not None
    assert (run.charged.used.amount, run.charged.used.unit) == (3840, "SU")
    assert run.charged.most.amount == 9216


def test_a_terminal_gets_the_same(tmp_path: Path) -> None:
    told = format_text(of(make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=500))), now=NOW)
    for words in ("Requested and used", "walltime", "120 SU  48 CPUs", "n000  0-3"):
        assert words in told, words
    assert f"All-reduce over the nodes: 0.8 GB/s by Socket. {WARNING}." in " ".join(told.split())
    assert "pbs's accounting is not known: there is no qstat command here" in told
    assert all(len(line) < 160 for line in told.splitlines())


def test_a_value_that_is_not_known_keeps_its_column_in_a_terminal(tmp_path: Path) -> None:
    local = {"name": "a", "scheduler": "local", "resources": {"nodes": 1}, "run": {"module": "m"}}
    told = format_text(of(make(tmp_path, "4", ranks=1, lines="", content=local)), now=NOW)
    head, *rows = told.partition("\nRequested and used\n")[2].partition("\n\n")[0].splitlines()
    (row,) = [row for row in rows if row.split()[0] == "memory"]
    places = [match.start() for match in re.finditer("not known", row)]
    assert places == [head.index("requested"), head.index("used")]


def test_what_is_not_known_of_some_runs_alone_names_them(tmp_path: Path) -> None:
    jobs = [JobRecord(id, "bare", "slurm", str(tmp_path), BEGAN, ("sbatch",)) for id in "789"]
    for job in jobs:
        job.save()
    (jobs[1].run_dir / "script").write_text("#!/bin/bash\n")
    notes = of(*jobs).notes
    assert "bare 7, bare 9: script is not in the run folder" in notes
    assert any(note.startswith("no metrics in the run folder") for note in notes)


def test_the_request_of_a_job_without_its_spec_is_in_its_script(tmp_path: Path) -> None:
    job = JobRecord("7", "bare", "pbs", str(tmp_path), BEGAN, ())
    job.save()
    about = {"name": "bare", "spec": "job.yaml", "digest": "0", "scheduler": "pbs", "walltime": 600}
    groups = [{"nodes": 2, "processes": 1, "cpus": 4}]
    (job.run_dir / "script").write_text(
        f"#!/bin/bash\n# jobgen: {json.dumps({**about, 'groups': groups})}\n"
    )
    found = uses(of(job))
    assert [found[what].asked for what in ("walltime", "CPUs")] == [
        "10 min for each start",
        "8 CPUs",
    ]


def test_nothing_is_told_of_an_empty_folder(tmp_path: Path) -> None:
    job = JobRecord("7", "bare", "slurm", str(tmp_path), BEGAN, ("sbatch",))
    job.save()
    told = of(job)
    run = told.runs[0]
    assert (run.state, run.attempts, run.places, run.training, run.ranks) == (
        *("unknown", (), (), None, None),
    )
    assert {use.what: (use.asked, use.used, use.share) for use in run.uses} == {
        name: (None, None, None) for name in ("walltime", "CPUs", "memory")
    }
    assert "script is not in the run folder" in run.notes
    assert any("no metrics in the run folder" in note for note in run.notes)
    html = render_page(told, now=NOW)
    assert "No start is known." in html
    assert html.count("not known") > 5
    assert "not known" in format_text(told, now=NOW)


def damage(root: Path, draw: random.Random) -> str:
    """Spoil one file of a run folder; what was done."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.name != "job.json")
    path = draw.choice(files)
    how = draw.choice(["cut", "bytes", "gone", "folder", "type", "empty", "deep"])
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "bytes":
        path.write_bytes(bytes(draw.randrange(256) for _ in range(200)) + data[200:])
    elif how == "gone":
        path.unlink()
    elif how == "folder":
        path.unlink()
        path.mkdir()
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "deep":
        path.write_text("[" * 100_000)
    else:
        path.write_text(
            draw.choice(["null", "[]", '{"kind": "step", "step": "x"}', "1e999", '"x"'])
        )
    return f"{how} {path.relative_to(root)}"


@pytest.mark.slow
def test_damaged_files_are_told_of_and_no_traceback(tmp_path: Path) -> None:
    job = make(tmp_path / "whole", "4.pbs", ranks=4, lines=metrics(4, steps=200), slow=2)
    for seed in range(60):
        draw = random.Random(seed)
        where = tmp_path / str(seed)
        shutil.copytree(tmp_path / "whole", where)
        spoilt = JobRecord(**{**vars(job), "folder": str(where)})
        done = [damage(spoilt.run_dir, draw) for _ in range(3)]
        try:
            told = of(spoilt)
            assert render_page(told, now=NOW).endswith("</html>\n"), done
            assert format_text(told, now=NOW), done
            json.loads(format_json(told))
        except Exception as error:
            raise AssertionError(f"{seed}: {done}") from error


def test_a_submitted_file_without_a_word_is_told_of(tmp_path: Path) -> None:
    job = make(tmp_path, "2.pbs", ranks=2, lines=metrics(2, steps=100))
    (job.run_dir / "job.yaml").write_text("")
    (job.run_dir / "script").unlink()
    run = of(job).runs[0]
    assert (run.spec, run.script) == (None, None)
    assert {"job.yaml is empty", "script is not in the run folder"} <= {*run.notes}


def test_the_last_start_of_a_run_that_goes_on_reaches_to_now(tmp_path: Path) -> None:
    job = make(
        tmp_path, "2.pbs", ranks=2, lines=metrics(2, steps=100), outcomes=("continued 0", "")
    )
    told = of(job)
    run = told.runs[0]._replace(state="running")
    words = " ".join(format_text(told._replace(runs=(run,)), now=BEGAN + 5000).split())
    assert "UTC 23 min 20 s goes on n000 1 2026-09-21 14:13:20 UTC 50 min continued n000" in words
    waits = told._replace(runs=(run._replace(attempts=run.attempts[:1]),))  # to start again
    assert "goes on" not in format_text(waits, now=BEGAN + 5000)


def test_metrics_that_make_no_sense_make_no_numbers(tmp_path: Path) -> None:
    lines = [
        '{"kind": "start", "world_size": 2, "attempt": 0, "time": 1e400}',
        '{"kind": "step", "step": 10, "loss": NaN, "step_s": -1, "lr": true, "data_s": 0.1}',
        '{"kind": "step", "step": 20, "loss": 2.5, "step_s": 0, "tokens_per_s": Infinity}',
        '{"kind": "step", "step": 30, "loss": "low", "step_s": 0.5, "mem_gb": {}}',
        '{"kind": "step", "st',
        "[1, 2]",
    ]
    told = of(make(tmp_path, "2.pbs", ranks=2, lines="\n".join(lines)))
    run = told.runs[0]
    assert run.training is not None
    assert (run.training.loss, run.training.speed, run.training.mfu) == (2.5, None, None)
    assert run.training.losses == Curve((20.0,), (2.5,))
    assert "metrics.jsonl: 2 lines are damaged and ignored" in run.notes
    assert "the loss is not a number in 2 of 3 lines" in run.notes
    assert "NaN" not in render_page(told, now=NOW).partition('id="data">')[2].partition("<")[0]


HOSTILE = st.text(
    st.one_of(st.sampled_from("<>\"'&/!-{}%$`\\ \n\u2028\u2029scriptSCRIPT"), st.characters()),
    max_size=60,
)


@given(HOSTILE, HOSTILE)
def test_no_text_breaks_out_of_its_place(told: Report, word: str, other: str) -> None:
    """Whatever a log, a name or a file says: the page has the elements that it always has."""
    run = told.runs[0]
    cause = run.cause
    attack = f"</script><script>alert(1)</script><img src=x onerror=alert(1)>--><!--{word}"
    hostile = told._replace(
        title=attack,
        summary=other,
        runs=(
            run._replace(
                name=attack,
                reason=word,
                folder=other,
                cause=cause,
                spec=attack + other,
                script=attack,
                notes=(attack, word, other),
                settings={attack: word, other: attack},
                places=tuple(place._replace(node=attack) for place in run.places),
                training=run.training._replace(device=attack, arithmetic=attack, unit=attack + word)
                if run.training
                else None,
            ),
        ),
    )
    html = render_page(hostile, now=NOW)
    assert html.count("<script") == 3
    assert html.lower().count("</script") == 3
    assert "<img" not in html
    data = html.partition('<script type="application/json" id="data">')[2].partition("</script")[0]
    assert not set("<>&'\u2028\u2029") & set(data)
    titles = [chart["title"] for chart in json.loads(data)]
    assert any(title.lower().startswith(attack[:20].lower()) for title in titles)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of a run of two ranks."""
    folder = tmp_path_factory.mktemp("told")
    with working_in(folder):
        return of(make(folder, "2.pbs", ranks=2, lines=metrics(2, steps=100)))


def test_curves_are_thinned_but_nothing_that_stands_out_is_lost() -> None:
    draw = random.Random(1)
    x = [float(step) for step in range(100_000)]
    y = [draw.gauss(0, 1) for _ in x]
    y[31_415], y[92_653] = 99.0, -99.0
    found = sample_curve(x, y, most=800)
    assert len(found.x) <= 800
    assert found == sample_curve(x, y, most=800)
    assert (found.x[0], found.x[-1]) == (0, 99_999)
    assert {99.0, -99.0} <= set(found.y)
    assert list(found.x) == sorted(set(found.x))
    assert sample_curve([1, 2, 3], [math.nan, 5, math.inf]) == Curve((2,), (5,))


@given(st.lists(st.floats(0, 1e6), max_size=300))
def test_the_figures_of_a_spread_are_in_their_order(values: list[float]) -> None:
    found = measure_spread(values)
    if not values:
        assert found is None
        return
    assert found is not None
    assert found.of == len(values)
    assert found.least <= found.p5 <= found.median <= found.p95 <= found.most


def test_words() -> None:
    cases = {0.0012: "1.2 ms", 3.5: "3.5 s", 59.99: "1 min", 250: "4 min 10 s", 7200: "2 h"}
    cases |= {0: "0 s", 3599.9: "1 h", 100_000: "1 d 3 h"}
    for seconds, words in cases.items():
        assert format_span(seconds) == words
    assert (format_size(1.5 * 1024**3), format_size(1024**3), format_size(2048)) == (
        "1.5 GB",
        "1 GB",
        "2 KB",
    )
    assert (format_number(12345.6), format_number(2.5), format_number(3e-4), format_number(0)) == (
        *("12,346", "2.5", "3.000e-04", "0"),
    )
    assert (format_share(0.42), format_share(0.004), format_share(1.2)) == (
        "42 %",
        "0.4 %",
        "120 %",
    )
    assert format_ranks((0, 1, 2, 5)) == "0-2, 5"
    for words in (format_span(None), format_size(None), format_number(None), format_share(None)):
        assert words == "not known"


QSTAT = (
    "Job Id: 4.pbs|resources_used.cput=00:00:01|resources_used.walltime=00:50:00"
    "|resources_used.mem=247672kb|Resource_List.walltime=04:00:00|Resource_List.nodect=1"
    "|Resource_List.ncpus=48|Resource_List.ngpus=4|Resource_List.mem=380gb"
)


def nvidia_lines(seconds: int, *, hour: int = 13) -> str:
    """What `nvidia-smi -l 30` prints of four GPUs: time, index, percent, MiB and watts."""
    lines = []
    for at in range(0, seconds + 1, 30):
        clock = f"{hour + at // 3600:02}:{at // 60 % 60:02}:{at % 60:02}"
        for gpu in range(4):
            use = f"{40 + at % 60}, {30 << 10}, {80 << 10}, 300.25"
            lines.append(f"2026/11/22 {clock}.{900 + gpu}, {gpu}, {use}\n")
    return "".join(lines)


def test_lines_of_nvidia_smi_tell_what_gpus_did_and_the_scheduler_the_rest(tmp_path: Path) -> None:
    command("qstat", QSTAT, tmp_path)
    job = make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=100), outcomes=("done 0",))
    (job.run_dir / "usage").mkdir()
    lines = nvidia_lines(3000) + "2026/11/22 14:00:00.00, 0, [N/A], [N/A], 81559, [N/A]\ngarbage\n"
    (job.run_dir / "usage" / "n000.csv").write_text(lines)
    told = of(job)
    usage, found = told.runs[0].usage, uses(told)
    assert usage is not None
    assert (usage.nodes, usage.seconds) == (1, 3000)
    assert found["GPUs"].used is not None
    assert "55 % busy on average, 300 W each" in found["GPUs"].used
    assert found["GPU memory"].used == "30 GB at most"
    assert (found["memory"].used, found["memory"].source) == ("241.9 MB at most", "qstat")
    html = render_page(told, now=NOW)
    assert "GPU use" in html
    assert max(usage.gpu_uses.x) == pytest.approx(50, abs=1)


def test_lines_of_rocm_smi_below_their_moments_are_read_too(tmp_path: Path) -> None:
    job = make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=100), outcomes=("done 0",))
    (job.run_dir / "usage").mkdir()
    table = (
        "device,Average Graphics Package Power (W),GPU use (%),VRAM Total Memory (B),"
        "VRAM Total Used Memory (B)\ncard0,90.0,12,68702699520,1073741824\n"
        "card1,N/A,8,68702699520,0\n"
    )
    (job.run_dir / "usage" / "n000.csv").write_text(
        "".join(f"{1_790_000_000 + at}\n{table}" for at in range(0, 91, 30))
    )
    usage = of(job).runs[0].usage
    assert usage is not None
    assert (usage.seconds, usage.gpu_use, usage.gpu_power) == (90, 10, 90)
    assert (usage.gpu_memory, usage.gpu_uses.y) == (2**30, (10, 10, 10, 10))


def test_a_pause_of_the_notes_parts_two_starts(tmp_path: Path) -> None:
    job = make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=100), outcomes=("done 0",))
    (job.run_dir / "usage").mkdir()
    lines = nvidia_lines(600) + nvidia_lines(300, hour=15)
    (job.run_dir / "usage" / "n000.csv").write_text(lines)
    usage = of(job).runs[0].usage
    assert usage is not None
    assert usage.seconds == 900


def test_what_slurm_counts_on_each_node_gives_advice_on_memory(tmp_path: Path) -> None:
    rows = (
        "4|1790000000|1790000060|3000|240|2|96|40:00:00|760G||billing=96,cpu=96,node=2||0\n"
        "4.0|1790000060|1790000060|3000||2|96|40:00:00||41943040K|cpu=96||7200000\n"
    )
    command("env", rows, tmp_path)  # as in: env SLURM_TIME_FORMAT=%s sacct ...
    content = spec(8) | {"scheduler": "slurm"}
    del content["site"]
    job = make(tmp_path, "4", ranks=8, content=content, lines=metrics(8, steps=100))
    told = of(job)
    memory = uses(told)["memory"]
    assert (memory.asked, memory.used) == ("380 GB on one node", "40 GB on one node at most")
    assert told.ledger is not None
    assert (told.ledger.kwh, told.ledger.kwh_by) == (2.0, "the nodes, by sacct")
    assert "2 kWh (the nodes, by sacct)" in format_text(told, now=NOW)
    assert memory.advice == "resources.memory_per_node: 50GB suffices"
    # Where Slurm starts each process itself, its number is of one of them.
    content |= {"launch": {"mode": "direct"}}
    job = make(tmp_path / "direct", "4", ranks=8, content=content, lines=metrics(8, steps=100))
    memory = uses(of(job))["memory"]
    assert (memory.used, memory.share, memory.advice) == ("40 GB in one process at most", None, "")


@pytest.mark.parametrize("outcome", ["failed 1", "cancelled 143"])
def test_a_run_that_was_cut_short_gives_no_advice(tmp_path: Path, outcome: str) -> None:
    command("qstat", QSTAT, tmp_path)
    job = make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=100), outcomes=(outcome,))
    assert {use.advice for use in of(job).runs[0].uses} == {""}


def test_advice_leaves_a_quarter_more_than_what_was_measured(
    tmp_path: Path,
) -> None:
    content = spec(4) | {"scheduler": "slurm"}
    del content["site"]
    advice = {}
    for held, seconds in ((1, 30), (1, 3000), (100, 3000), (200, 3000), (370, 3000)):
        rows = (
            f"4|1790000000|1790000060|{seconds}|60|1|48|40:00:00|380G||cpu=48,gres/gpu=4||0\n"
            f"4.0|1790000060|1790000060|{seconds}||1|48|40:00:00||{held}G|cpu=48||0\n"
        )
        command("env", rows, tmp_path)
        job = make(tmp_path / f"{held}-{seconds}", "4", ranks=4, content=content, lines="")
        advice[held, seconds] = uses(of(job))["memory"].advice
    would = "resources.memory_per_node: {}GB suffices"
    assert advice == {
        (1, 30): "",
        (1, 3000): would.format(2),
        (100, 3000): would.format(125),
        (200, 3000): "",
        (370, 3000): "this was close: resources.memory_per_node: 463GB leaves room",
    }


def test_what_was_never_in_a_queue_is_not_told_to_start_sooner(tmp_path: Path) -> None:
    advice = {}
    for scheduler in ("local", "slurm"):
        content = spec(1) | {"scheduler": scheduler}
        content.pop("site", None)
        content.pop("account", None)
        content["resources"] = {"nodes": 1, "walltime": "40h"}
        job = make(tmp_path / scheduler, "4", ranks=1, content=content, lines=metrics(1, steps=9))
        advice[scheduler] = uses(of(job))["walltime"].advice
    assert advice["local"] == ""
    assert advice["slurm"].endswith("suffices, and starts sooner")


def test_runs_without_a_loss_are_in_the_order_of_their_ids(tmp_path: Path) -> None:
    runs = [make(tmp_path, name, ranks=4, lines="") for name in ("4_10", "5", "4_2")]
    report = of(*runs)
    assert report.comparison
    assert [row.id for row in report.comparison.rows] == ["4_2", "4_10", "5"]
    told = format_text(report, now=NOW)
    assert "Runs\n  In the order of their ids." in told
    assert "best" not in told


def test_pbs_tells_what_was_used_and_gives_no_advice_alone(tmp_path: Path) -> None:
    said = (
        "Job Id: 4.pbs|resources_used.cput=01:00:00|resources_used.walltime=00:50:00"
        "|resources_used.mem=41943040kb|Resource_List.walltime=04:00:00|Resource_List.nodect=1"
        "|Resource_List.ncpus=48|Resource_List.ngpus=4|Resource_List.mem=380gb"
    )
    command("qstat", said, tmp_path)
    told = of(make(tmp_path, "4.pbs", ranks=4, lines=metrics(4, steps=100)))
    found = uses(told)
    assert found["walltime"].share == pytest.approx(50 / 240)
    assert found["walltime"].advice == "resources.walltime: 01:05:00 suffices, and starts sooner"
    assert found["CPUs"][:4] == ("CPUs", "48 CPUs", "1.2 busy on average", pytest.approx(0.025))
    assert found["memory"].used == "40 GB at most"
    # PBS may not see what torchrun has started.
    assert (found["CPUs"].advice, found["memory"].advice) == ("", "")
    assert found["GPUs"].asked == "4 GPUs"
    assert told.runs[0].notes == ()


# The first job is as Slurm 22.05 has told it.
SACCT = """\
1|1795275916|1795275918|16|30|2|4|00:16.053|8192M||billing=4,cpu=4,mem=8192M,node=2||0
1.batch|1795275918|1795275918|16||1|2|00:00.072|||cpu=2,mem=4096M,node=1|energy=0|0
1.0|1795275918|1795275918|15||2|4|00:15.981|||cpu=4,mem=8192M,node=2|energy=0|0
12|1790000000|1790000060|600|120|2|16|00:20:00|64G||billing=16,cpu=16,gres/gpu=8,node=2||0
12.batch|1790000060|1790000060|600||1|8|00:01:00||1000K|cpu=8|cpu=00:01:00|3000
12.0|1790000060|1790000060|600||2|16|00:19:00||8388608K|cpu=16|cpu=00:09:00,gres/gpuutil=37|7000
12|1790000700|1790000800|300|120|2|16|00:10:00|64G||billing=16,cpu=16,gres/gpu=8,node=2||
12.0|1790000800|1790000800|300||2|16|00:10:00||4194304K|cpu=16||2000
13_4|1790000000|Unknown|0|60|1|8|00:00:00|32000M||||
14+0|1790000000|1790000060|600|120|1|8|00:20:00|4G||cpu=8,gres/gpu=8||1000
14+1|1790000000|1790000060|600|120|2|8|00:20:00|8G||cpu=8,gres/gpu=4||500
"""


def test_sacct_counts_every_start_and_the_components_of_one_once() -> None:
    found = parse_sacct(SACCT)
    assert found["1"] == Used(
        *("sacct", 1795275916, 1795275918, 16, 16, 1800, 2, 4, 16.053),
        memory_asked=4 * 1024**3,
        of_one_node=True,
    )
    assert found["12"] == Used(
        "sacct",
        submitted=1790000000,
        started=1790000060,
        elapsed=900,
        longest=600,
        limit=7200,
        nodes=2,
        cpus=16,
        cpu_seconds=1800,
        gpus=8,
        gpu_use=37,
        memory_asked=32 * 1024**3,
        memory=8 * 1024**3,
        of_one_node=True,
        energy=9000,
    )
    assert (found["13_4"].started, found["13_4"].cpu_seconds, found["13_4"].memory) == (None,) * 3
    assert found["13_4"].memory_asked == 8 * 4000 * 1024**2
    whole = found["14"]
    assert (whole.elapsed, whole.nodes, whole.cpus, whole.gpus) == (600, 3, 16, 12)
    assert (whole.memory_asked, whole.energy) == (4 * 1024**3, 1500)
    assert parse_sacct("garbage\n<html>|\n") == {}


def test_what_is_no_answer_of_qstat_counts_nothing() -> None:
    assert parse_qstat("<html>") == parse_qstat("[]") == {}


def test_why_slurm_has_counted_nothing_is_sacct_s_word() -> None:
    words = "Slurm accounting storage is disabled"
    with pytest.raises(RefusedError, match=f"sacct failed with exit code 1: {words}"):
        read_usage(["5"], lambda _: CommandResult("", 1, words))


def test_the_jobs_of_a_chain_are_counted_together() -> None:
    first = Used("qstat", elapsed=100, longest=100, cpu_seconds=50, memory=3, submitted=1)
    second = Used("qstat", elapsed=40, longest=40, memory=5, cpus=8)
    assert first.and_then(second) == Used(
        "qstat", 1, None, 140, 100, cpus=8, cpu_seconds=50, memory=5
    )


def test_runs_are_compared_by_what_differs(tmp_path: Path) -> None:
    jobs = [
        make(
            tmp_path,
            f"{number}.pbs",
            ranks=4,
            lines=metrics(4, steps=500, seed=number),
            overrides=(f"run.args.lr={rate}",),
            settings={"steps": 1000, "lr": rate},
        )
        for number, rate in enumerate((1e-3, 3e-4))
    ]
    told = of(*jobs)
    assert told.comparison is not None
    assert told.comparison.settings == ("lr",)
    assert [row.loss for row in told.comparison.rows] == sorted(
        run.training.loss for run in told.runs if run.training and run.training.loss
    )
    assert {name for name, _ in told.comparison.curves} == {"lr=0.001", "lr=0.0003"}
    assert told.comparison.measure == "validation loss"
    best = told.comparison.rows[0]
    assert best.validation == min(row.validation or 9 for row in told.comparison.rows)
    assert told.summary.startswith(
        f"2 of 2 runs succeeded. Best by validation loss: {best.title}, "
    )
    assert "0.0003" in render_page(told, now=NOW)
    assert "run.args.lr" not in format_text(told, now=NOW)


def test_a_value_counts_wherever_it_came_from(tmp_path: Path) -> None:
    """From the spec, which was edited, `--set`, words behind `--`, or a task of an array."""

    def build(number: int, *overrides: str, **args: object) -> JobRecord:
        run = {"script": "train.py", "args": {"lr": 1e-3, "warm-up": 5, **args}}
        content = spec(1, run=run)
        values = {"lines": "", "settings": {}, "content": content, "overrides": overrides}
        return make(tmp_path, f"{number}.pbs", ranks=1, **values)  # type: ignore[arg-type]

    array = build(5, 'array={"values": {"lr": [5e-3, 6e-3]}}')
    array = replace(array, tasks=2, id="5[].pbs")
    (tmp_path / "runs/gpt-web/5").rename(array.run_dir) if not array.run_dir.is_dir() else None
    array.save()
    jobs = [
        build(1),
        build(2, lr=2e-3),
        build(3, "run.args.lr=3e-3"),
        build(4, "run.args+=--lr 4e-3 --warm-up=5.0"),
    ]
    told = of(*jobs, array)
    assert told.comparison
    assert told.comparison.settings == ("lr",)
    values = {
        row.id: (row.title, *map(float, filter(None, row.differs))) for row in told.comparison.rows
    }
    assert [values[f"{number}.pbs"][1] for number in range(1, 5)] == [1e-3, 2e-3, 3e-3, 4e-3]
    assert [values[f"5[{task}].pbs"][1] for task in range(2)] == [5e-3, 6e-3]
    assert all(
        title == f"lr={lr}" or float(title.removeprefix("lr=")) == lr
        for title, lr in values.values()
    )


def test_what_a_run_has_not_recorded_yet_is_no_difference(tmp_path: Path) -> None:
    ended = make(tmp_path, "1.pbs", ranks=1, lines=metrics(1, steps=500))
    queued = make(tmp_path, "2.pbs", ranks=1, lines="", settings={})
    told = of(ended, queued)
    assert told.comparison
    assert told.comparison.settings == ()


def test_the_tasks_of_an_array_are_runs(tmp_path: Path) -> None:
    content = spec(4, array={"values": {"lr": [1e-3, 3e-4], "seed": [0, 1]}})
    array = make(tmp_path, "9[].pbs", ranks=4, lines="", content=content)
    shutil.rmtree(array.run_dir / "attempts")
    array = JobRecord(**{**vars(array), "tasks": 4})
    array.save()
    for index in range(3):
        task = array.task(index)
        lines = "".join(json.dumps(line) + "\n" for line in metrics(4, steps=100, seed=index))
        task.run_dir.mkdir()
        (task.run_dir / "metrics.jsonl").write_text(lines)
        (task.run_dir / "attempts/0").mkdir(parents=True)
        (task.run_dir / "attempts/0/outcome").write_text("done 0\n")
    told = of(array, array.task(0), array)  # each run once, however it is named
    assert [run.id for run in told.runs] == [f"9[{index}].pbs" for index in range(4)]
    assert told.comparison is not None
    assert {"lr", "seed"} <= set(told.comparison.settings)
    assert told.runs[1].settings["seed"] == "1"
    assert told.runs[1].site == "NCI Gadi (Australia)"
    assert told.summary.startswith("3 of 4 runs succeeded.")
    assert told.runs[3].state == "unknown"
    assert told.runs[3].reason == "it has not begun here; the scheduler does not answer"
    assert any("there is no qstat command here" in note for note in told.notes)


def test_the_tasks_of_an_array_that_was_started_by_hand_have_the_values_of_its_script(
    tmp_path: Path,
) -> None:
    content = spec(4, array={"list": [{"i": "a", "-lr": 1e-3}, {"i": "-1", "-lr": 3e-4}]})
    array = make(tmp_path, "9[].pbs", ranks=4, lines="", content=content)
    (array.run_dir / "job.yaml").unlink()
    array = JobRecord(**{**vars(array), "tasks": 2})
    array.save()
    told = of(array)
    values = [{"i": "a", "lr": "0.001"}, {"i": "-1", "lr": "0.0003"}]
    assert [run.varied for run in told.runs] == values
    assert told.comparison
    assert told.comparison.settings == ("i", "lr")
    script = array.run_dir / "script"
    script.write_text(script.read_text().replace("-lr 0.001)", "-lr '0.001)"))
    assert of(array).runs[0].varied == {}


@pytest.mark.parametrize(("kind", "number"), [("pbs", "9.pbs"), ("slurm", "9")])
def test_of_tasks_that_share_a_job_no_scheduler_is_asked(
    tmp_path: Path, kind: str, number: str
) -> None:
    array = {"values": {"lr": [1, 2]}, "together": 2}
    asks = {"scheduler": kind, "resources": {"gpus_per_node": 1, "cpus_per_gpu": 1}}
    content = {"name": "a", "array": array, "run": {"module": "m"}, **asks}
    job = make(tmp_path, number, ranks=1, lines="", content=content)
    job = JobRecord(**{**vars(job), "tasks": 2, "together": 2})
    job.save()
    usage, problem = read_accounting(list(job.parts))
    assert (usage, problem) == (
        {},
        f"{kind} counts a job that tasks share, and not each of its tasks",
    )
    assert [run.varied for run in of(job).runs] == [{"lr": "1"}, {"lr": "2"}]


def test_a_rerun_of_one_task_has_the_values_of_the_task(tmp_path: Path) -> None:
    """And what an array was given on the command line is no setting beside those."""
    choices = '[{"lr": 2}, {"lr": 3, "environment.variables.A": "b"}]'
    words = (f'array={{"list": {choices}, "numbers": [4, 5]}}', "run.args.steps=7")
    job = make(tmp_path, "9.pbs", ranks=1, lines="", overrides=words, settings={})
    loaded = load((job.run_dir / "job.yaml").read_text(), *words)
    (job.run_dir / "script").write_text(render(resolve(loaded, task=1)))
    (run,) = of(job).runs
    assert run.varied == {"JOBGEN_TASK": "5", "A": "b", "lr": "3"}
    assert run.settings.items() >= run.varied.items()
    assert not any(key.startswith("array") for key in run.settings)


def test_a_run_that_timed_out_is_told_so_once_and_at_its_last_start(tmp_path: Path) -> None:
    content = spec(4) | {"resources": {"nodes": 1, "walltime": "50m"}}
    job = make(tmp_path, "4.pbs", ranks=4, lines="", content=content, outcomes=("cancelled 143",))
    script, began = job.run_dir / "script", job.run_dir / "attempts/0/script"
    os.utime(script, (job.submitted, job.submitted))
    began.write_text(script.read_text())
    os.utime(began, (BEGAN, BEGAN))
    told = of(job)
    assert told.summary == "It reached its walltime after 50 min. It waited 30 min in the queue."
    assert "50 min  timeout  n000" in format_text(told, now=NOW)


def test_a_task_without_arguments_has_no_values(tmp_path: Path) -> None:
    content = spec(4, array={"tasks": 2})
    array = make(tmp_path, "9[].pbs", ranks=4, lines="", content=content)
    array = JobRecord(**{**vars(array), "tasks": 2})
    array.save()
    assert [run.varied for run in of(array).runs] == [{}, {}]


def test_a_start_without_an_outcome_lasted_until_its_last_sign_of_life(tmp_path: Path) -> None:
    """Of a chain that was continued; the time before that counts from its first submission."""
    lines = metrics(4, steps=100)
    job = make(tmp_path, "4.pbs", ranks=4, lines=lines, outcomes=("", ""))
    job = replace(job, submitted=BEGAN + 3500, first_submitted=job.submitted, counted_from=1)
    job.save()
    sign = job.run_dir / "attempts/0/node-0.alive"
    sign.write_text("")
    os.utime(sign, (BEGAN + 900, BEGAN + 900))
    (job.run_dir / "attempts/1/node-0.alive").write_text("")  # now
    run = report([job], now=BEGAN + 4000).runs[0]
    assert (run.state, run.ran, run.submitted, run.waited) == ("running", 1300, BEGAN - 1800, 1800)
    assert run.ledger
    assert run.ledger.seconds["queued"] == 1800 + 2700
    (job.run_dir / "attempts/1/outcome").write_text("done 0\n")
    os.utime(job.run_dir / "attempts/1/outcome", (BEGAN + 3700, BEGAN + 3700))
    assert of(job).runs[0].ran == 1000


def test_none_of_equal_runs_is_the_best(tmp_path: Path) -> None:
    line = {"kind": "step", "step": 10, "loss": 0.1}
    runs = [make(tmp_path, name, ranks=4, lines=[line]) for name in ("4.pbs", "5.pbs")]
    assert of(*runs).summary == "2 of 2 runs succeeded."


def test_runs_that_are_not_done_are_neither_best_nor_in_a_mean(tmp_path: Path) -> None:
    """Their losses count only where no run is done, which is said."""

    def build(*outcomes: str) -> Report:
        jobs = [
            make(
                tmp_path / "-".join(outcomes).replace(" ", ""),
                f"{number}.pbs",
                ranks=4,
                lines=[{"kind": "step", "step": 10, "loss": number / 10, "tokens_per_s": number}],
                overrides=[f"run.args.lr={10 - number // 2}", f"run.args.seed={number}"],
                outcomes=(outcome,),
            )
            for number, outcome in enumerate(outcomes, start=1)
        ]
        return of(*jobs)

    told = build("failed 1", "done 0", "done 0")
    assert told.comparison
    assert [row.id for row in told.comparison.rows] == ["2.pbs", "3.pbs", "1.pbs"]
    assert told.comparison.order.endswith("; runs that are not done come last")
    (group,) = told.comparison.groups
    assert (group.runs, group.mean) == (2, pytest.approx(0.25))
    words = "2 of 3 runs succeeded. Best by loss: lr=9 seed=2, 0.2. Fastest: lr=9 seed=3, "
    assert told.summary.startswith(words)
    none = build("failed 1", "failed 1").summary
    assert none.startswith(
        "0 of 2 runs succeeded. Best of runs that are not done, by loss: lr=10 seed=1, 0.1."
    )


@pytest.mark.parametrize(
    ("steps", "validations", "whose"),
    [
        ((0.9, 0.05, math.nan, math.nan), (), "loss"),
        ((0.9, math.nan, 0.05, math.inf), (0.02,), "loss"),
        ((0.9, 0.05), (0.02, math.nan), "validation loss"),
        ((math.nan, math.nan), (), "loss"),
    ],
)
def test_a_run_whose_losses_end_in_no_number_is_never_the_best(
    tmp_path: Path, steps: tuple[float, ...], validations: tuple[float, ...], whose: str
) -> None:
    def build(number: int, losses: tuple[float, ...], kind: str = "step") -> list[dict[str, Any]]:
        return [{"kind": kind, "step": at, "loss": loss} for at, loss in enumerate(losses, 1)]

    bad = build(1, steps) + build(1, validations, "val")
    good = build(2, (0.9, math.nan, 0.7)) + build(2, (0.8,) * bool(validations), "val")
    runs = [
        make(tmp_path, f"{number}.pbs", ranks=4, lines=lines, overrides=[f"run.args.lr={number}"])
        for number, lines in enumerate((bad, good, bad), 1)
    ]
    told = of(*runs)
    assert told.comparison
    assert [row.id for row in told.comparison.rows] == ["2.pbs", "1.pbs", "3.pbs"]
    assert told.comparison.order.endswith("; runs whose loss is not a number come last")
    measure, best = ("validation loss", 0.8) if validations else ("loss", 0.7)
    assert told.summary == (
        f"3 of 3 runs succeeded. Best by {measure}: lr=2, {best}."
        " The loss is not a number at the end of lr=1, lr=3."
    )
    assert "Best" not in of(runs[0], runs[2]).summary
    alone = of(runs[0])
    assert re.search(f": the {whose} is not a number from step [1-4] on[.]", alone.summary)
    assert "fell" not in alone.summary
    row = re.search(r"\n +lr=1; 1[.]pbs .* not a number ", format_text(told, now=NOW))
    assert bool(row) == (whose == "loss")
    assert "fell from 0.9 to 0.7" in of(runs[1]).summary


@pytest.mark.parametrize(
    ("at", "done"),
    [
        (range(30), "30 steps"),
        ((0, 1), "2 steps"),
        (range(1, 31), "30 steps"),
        # Resumed: some steps twice, some lines lost, and in another run folder.
        ([*range(30), *range(25, 60)], "60 steps"),
        ([*range(30), *range(35, 60)], "60 steps"),
        (range(30, 61), "60 steps"),
        # Every tenth: the first line may be from before all steps.
        (range(0, 101, 10), "100 steps"),
        ((1, *range(10, 101, 10)), "100 steps"),
        ((0,), "0 steps"),
        (range(1001), "1,000 of 1,000 steps"),
        (range(1000), "1,000 of 1,000 steps"),
    ],
)
def test_a_program_that_counts_from_0_has_done_one_step_more(
    tmp_path: Path, at: Sequence[int], done: str
) -> None:
    lines = [{"kind": "step", "step": step, "loss": 2.0} for step in at]
    told = of(
        make(
            tmp_path,
            "4.pbs",
            ranks=4,
            lines=lines,
            settings={"steps": 1000} if " of " in done else {},
        )
    )
    assert f" {done} on 4 ranks" in told.summary


def test_runs_that_go_on_have_not_failed(tmp_path: Path) -> None:
    jobs = [make(tmp_path, name, ranks=4, lines="", outcomes=("",)) for name in ("4.pbs", "5.pbs")]
    for job in jobs:
        (job.run_dir / "attempts/0/node-0.alive").write_text("")
    assert of(*jobs).summary == "0 of 2 runs succeeded, 2 running."


def test_runs_whose_values_are_long_are_named_by_their_ids(tmp_path: Path) -> None:
    runs = [
        make(
            tmp_path / str(number),
            f"{number}.pbs",
            ranks=4,
            lines="",
            content=spec(4, name=f"run{number}"),
            overrides=[f"run.args.data=/scratch/{'long-path/' * 8}{number}"],
        )
        for number in (4, 5)
    ]
    comparison = of(*runs).comparison
    assert comparison
    assert [row.title for row in comparison.rows] == ["run4 4.pbs", "run5 5.pbs"]


def test_checkpoints_after_the_last_line_of_steps_count(tmp_path: Path) -> None:
    step = {"kind": "step", "attempt": 0, "step": 10, "step_s": 0.9, "ckpt_s": 0.0}
    save = {"kind": "save", "attempt": 0, "step": 10, "ckpt_s": 300.0, "time": BEGAN + 2000}
    lines = [step | {"time": BEGAN + 1000}, save]
    told = format_text(of(make(tmp_path, "4.pbs", ranks=4, lines=lines)), now=NOW)
    assert "time spent on checkpoints  10 %" in told
    without = of(make(tmp_path, "5.pbs", ranks=4, lines=lines[:1]))
    assert "time spent on checkpoints" not in format_text(without, now=NOW)


def test_a_failed_run_is_told_of_in_whole_sentences(tmp_path: Path) -> None:
    job = make(tmp_path, "4.pbs", ranks=4, lines="", outcomes=("continued 0", "failed 1"))
    told = format_text(of(job), now=NOW)
    assert "how much of it was productive is not known; " in told
    assert "50 min  continued " in told
    assert "50 min  failed with exit code 1  n000" in told
    assert "Advice" not in told


def test_the_command_writes_a_page_and_prints_its_place(tmp_path: Path) -> None:
    make(tmp_path, "3.pbs", ranks=4, lines=metrics(4, steps=100))
    make(tmp_path, "5.pbs", ranks=4, lines=metrics(4, steps=100))
    ended = jobgen("report", "3")
    assert (ended.code, ended.out, ended.err) == (0, "runs/gpt-web/3/report.html\n", "")
    assert Path("runs/gpt-web/3/report.html").read_text().startswith("<!DOCTYPE html>")
    assert jobgen("report", "3", "5", "-o", "a/b.html").out == "a/b.html\n"
    assert "2 of 2 runs" in Path("a/b.html").read_text()
    assert jobgen("report", "3", "-o", "-").out.startswith("<!DOCTYPE html>")
    assert jobgen("report", "3", "--text").out.startswith("gpt-web 3.pbs\nIt succeeded after")
    assert jobgen("report", "3", "--text", "-o", "a.txt").out == ""
    assert Path("a.txt").read_text().startswith("gpt-web 3.pbs\nIt succeeded after")
    told = json.loads(jobgen("report", "3", "--json").out)
    assert told["runs"][0]["training"]["unit"] == "tokens"
    latest = jobgen("report")  # as of all commands: the latest where none is named
    assert latest.code == 0
    assert Path(latest.out.strip()).is_file()
    assert "no job '4' below" in jobgen("report", "4").err
    assert jobgen("report", "3", "--text", "--json").code == 2


@pytest.mark.slow
def test_a_large_run_has_a_small_page(tmp_path: Path) -> None:
    lines = metrics(1024, steps=100_000, every=1)
    told = of(make(tmp_path, "1.pbs", ranks=1024, lines=lines, slow=700))
    html = render_page(told, now=NOW)
    assert len(html) < 500_000
    assert html == render_page(told, now=NOW)
    training = told.runs[0].training
    assert training is not None
    assert {14.5, 0.5} <= set(training.losses.y)


def test_what_is_embedded_is_what_its_makers_published() -> None:
    folder = ROOT / "jobgen/report/page"
    digests = {
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    }
    for name, digest in digests.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_the_page_asks_nobody_for_anything(tmp_path: Path) -> None:
    html = render_page(of(make(tmp_path, "3.pbs", ranks=4, lines=metrics(4, steps=100))), now=NOW)
    assert "default-src 'none'" in unescape(html)
    assert [word for word in ("src=", "href=", "@import", "url(") if word in html] == []


def test_a_terminal_gets_the_first_of_many_nodes(tmp_path: Path) -> None:
    told = format_text(
        of(make(tmp_path, "4.pbs", ranks=256, lines=metrics(256, steps=50))), now=NOW
    )
    assert "n015  60-63" in told
    assert "n016" not in told
    assert "\n  and 48 more\n" in told
