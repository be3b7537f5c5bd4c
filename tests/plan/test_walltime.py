"""What a spec's `walltime` comes to: the plan, the directives, and what is submitted."""

import json
import os
from pathlib import Path

import pytest
from support import MINIMAL, ROOT, complaint, edited, jobgen, load, plan_of

from jobgen import schedulers
from jobgen.plan.plan import Chain
from jobgen.plan.resolve import resolve
from jobgen.rendering import header
from jobgen.rendering.explain import explain
from jobgen.rendering.render import render

LIMITED = edited(("nodes: 2", "nodes: 2, walltime: 2h"))
STOCK = ROOT / "tests" / "helpers" / "bin"


def spec(walltime: str) -> str:
    """A spec of two hours with this `walltime`."""
    return f"{LIMITED}on_walltime: {walltime}\n"


@pytest.mark.parametrize(
    ("walltime", "scheduler", "chain"),
    [
        ("{}", "slurm", Chain(notice=300, last_call=60, then="stop", timer=False)),
        ("{notice: 1m}", "pbs", Chain(notice=60, last_call=30, then="stop")),
        (
            "{then: requeue}",
            "slurm",
            Chain(notice=300, last_call=60, then="requeue", at_most=10, timer=False),
        ),
        (
            "{then: resubmit, at_most: 3}",
            "slurm",
            Chain(notice=300, last_call=60, then="resubmit", at_most=3, timer=False),
        ),
        ("{then: resubmit}", "pbs", Chain(notice=300, last_call=60, then="held", at_most=10)),
        ("{then: requeue}", "local", Chain(notice=300, last_call=60, then="stop")),
    ],
)
def test_what_is_decided(walltime: str, scheduler: str, chain: Chain) -> None:
    assert plan_of(spec(walltime), scheduler=scheduler).walltime.chain == chain
    assert plan_of(LIMITED, scheduler=scheduler).walltime.chain == Chain()


@pytest.mark.parametrize(
    ("text", "scheduler", "message"),
    [
        (
            MINIMAL + "on_walltime: {}\n",
            "slurm",
            "5:14: on_walltime: needs a walltime; add resources.walltime, such as 2h",
        ),
        (
            spec("{notice: 2h}"),
            "slurm",
            "5:23: on_walltime.notice: the walltime must be longer than the notice (02:00:00); "
            "write e.g. notice: 1m, or a longer walltime",
        ),
        (
            spec("{}").replace("2h", "5m"),
            "local",
            "5:14: on_walltime.notice: the walltime must be longer than the notice (00:05:00, the "
            "default); write e.g. notice: 1m, or a longer walltime",
        ),
        (
            spec("{notice: 20h}").replace("2h", "2d"),
            "slurm",
            "5:23: on_walltime.notice: 20:00:00 is more than Slurm takes, 18:12:15",
        ),
        (
            spec("{then: requeue}"),
            "pbs",
            "5:21: on_walltime.then: PBS lets only operators put a job back into the queue; "
            "write resubmit",
        ),
        (
            spec("{at_most: 3}"),
            "slurm",
            "5:24: on_walltime.at_most: has no effect: the job starts only once; add then: "
            "resubmit, or requeue on Slurm",
        ),
    ],
)
def test_what_cannot_be_done(text: str, scheduler: str, message: str) -> None:
    assert complaint(text, scheduler=scheduler) == f"job.yaml:{message}"


@pytest.mark.parametrize(
    ("walltime", "scheduler", "lines"),
    [
        ("{}", "slurm", ["#SBATCH --signal=B:USR1@300"]),
        ("{notice: 90s, then: resubmit}", "slurm", ["#SBATCH --signal=B:USR1@90"]),
        ("{then: requeue}", "slurm", ["#SBATCH --signal=B:USR1@300", "#SBATCH --requeue"]),
        ("{then: resubmit}", "pbs", []),
    ],
)
def test_directives(walltime: str, scheduler: str, lines: list[str]) -> None:
    of = schedulers.SCHEDULERS[scheduler].directives
    plain = of(plan_of(LIMITED, scheduler=scheduler))
    assert [
        line for line in of(plan_of(spec(walltime), scheduler=scheduler)) if line not in plain
    ] == lines


def test_local_says_that_nothing_goes_on_here() -> None:
    assert plan_of(spec("{then: requeue}")).left_out == ("on_walltime.then",)
    assert plan_of(spec("{then: stop}")).left_out == ()


@pytest.mark.parametrize(
    ("then", "scheduler", "what"),
    [
        ("stop", "slurm", "00:05:00 before the end the program is asked to stop"),
        ("requeue", "slurm", "then the job is requeued, 10 starts in all"),
        ("resubmit", "slurm", "another job continues, 10 starts in all"),
        ("resubmit", "pbs", "another job continues, 10 starts in all"),
    ],
)
def test_explain_says_what_happens(then: str, scheduler: str, what: str) -> None:
    loaded = load(spec(f"{{then: {then}}}"))
    found = explain(loaded, resolve(loaded, scheduler=scheduler))
    (decision,) = (each for each in found.decisions if each.what.startswith("before the limit: "))
    assert decision.what.endswith(what)
    assert decision.origin == ("job.yaml:5:14: on_walltime", "job.yaml:5:21: on_walltime.then")
    (variable,) = (each for each in found.variables if each.what.startswith("JOBGEN_END="))
    assert variable.origin == ("job.yaml:3:33: resources.walltime",)


@pytest.mark.parametrize(("scheduler", "jobs"), [("pbs", 4), ("slurm", 1), ("local", 1)])
def test_the_script_knows_how_many_jobs_are_submitted(scheduler: str, jobs: int) -> None:
    script = render(plan_of(spec("{then: resubmit, at_most: 4}"), scheduler=scheduler))
    found = header.read(script)
    assert found is not None
    assert found.jobs == jobs


class TestSubmission:
    """With a `qsub` that counts, and refuses the job whose number is FAKE_REFUSE."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        own = tmp_path / "bin"
        own.mkdir()
        (own / "qsub").write_text(
            "#!/bin/bash\n"
            'printf "qsub %s\\n" "$*" >>"$FAKE_LOG"\n'
            'number=$(grep -c "^qsub" "$FAKE_LOG")\n'
            'if ((number == ${FAKE_REFUSE:-0})); then echo "qsub: would exceed" >&2; exit 1; fi\n'
            'echo "$number.pbs"\n'
        )
        (own / "qsub").chmod(0o755)
        monkeypatch.setenv("PATH", f"{own}:{STOCK}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_LOG", str(tmp_path / "calls"))
        monkeypatch.setenv("FAKE_STATE", "Q")
        Path("job.yaml").write_text(
            spec("{then: resubmit, at_most: 3}").replace("local", "pbs")
            + 'directives: ["#PBS -v C=2", "#PBS -v A=1,B"]\n'  # of which qsub takes the last
        )

    @staticmethod
    def calls() -> list[str]:
        return Path("calls").read_text().splitlines()

    def test_all_jobs_of_a_chain_are_submitted_each_behind_the_one_before(self) -> None:
        Path("job.pbs").write_text(jobgen("render").out)
        done = jobgen("submit", "job.pbs")
        assert (done.code, done.out) == (0, "1.pbs\n")
        assert done.err.startswith("run folder: runs/a/1\n")
        record = json.loads(Path("runs/a/1/job.json").read_text())
        script = f"runs/a/submissions/{record['token']}.pbs"
        assert self.calls() == [
            f"qsub {script}",
            f"qsub -W depend=afterany:1.pbs -v A=1,B,JOBGEN_CHAIN=1 {script}",
            f"qsub -W depend=afterany:2.pbs -v A=1,B,JOBGEN_CHAIN=1 {script}",
        ]
        assert record["links"] == ["2.pbs", "3.pbs"]

    def test_a_dry_run_shows_it(self) -> None:
        out = jobgen("submit", "--dry-run").out
        line = "qsub -W depend=afterany:BEFORE -v A=1,B,JOBGEN_CHAIN=FIRST runs/a/submissions/"
        (found,) = (each for each in out.splitlines() if each.startswith(line))
        assert found.endswith("    # 2 times")

    def test_what_is_refused_is_said_and_the_rest_stays(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FAKE_REFUSE", "3")
        code, out, err = jobgen("submit")
        assert (code, out) == (0, "1.pbs\n")
        refusal = "qsub failed with exit code 1: qsub: would exceed"
        assert err.startswith(f"only 2 of the chain's 3 jobs are queued: {refusal}\n")
        assert json.loads(Path("runs/a/1/job.json").read_text())["links"] == ["2.pbs"]

    def test_cancel_ends_the_last_first_so_that_none_starts(self) -> None:
        jobgen("submit")
        assert jobgen("cancel", "1")[:2] == (0, "")
        assert self.calls()[-1:] == ["qdel 3.pbs 2.pbs 1.pbs"]

    @pytest.mark.parametrize(
        ("state", "said"),
        [("Q", ("queued", "")), ("F", ("failed", "it stopped before it was done"))],
    )
    def test_a_chain_stands_as_its_next_job(
        self, monkeypatch: pytest.MonkeyPatch, state: str, said: tuple[str, str]
    ) -> None:
        jobgen("submit")
        attempt = Path("runs/a/1/attempts/0")
        attempt.mkdir(parents=True)
        (attempt / "job").write_text("1\n")
        (attempt / "outcome").write_text("continued 0\n")
        monkeypatch.setenv("FAKE_STATE", state)
        code, out, err = jobgen("status", "1")
        assert (code, err) == (0, "")
        assert out.startswith("\n".join(said))
        asked = [line for line in self.calls() if line.startswith("qstat")]
        assert asked == ["qstat -f -F dsv 2.pbs 3.pbs"]
