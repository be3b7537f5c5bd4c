"""Secrets are warned of, never shown, and can be handed over by the shell that submits."""

from pathlib import Path

import pytest
from support import jobgen, plan_of

from jobgen.errors import SpecError
from jobgen.spec.secrets import MASK, is_secret, mask_text

KEY = "0123456789abcdef0123"


def make_spec(scheduler: str = "slurm", **changes: object) -> dict[str, object]:
    return {
        "name": "a",
        "scheduler": scheduler,
        "resources": {"walltime": "5m"},
        "run": {"command": ["true"]},
        **changes,
    }


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("WANDB_API_KEY", KEY, True),
        ("HF_TOKEN", "hf_abcdefgh", True),
        ("AWS_SECRET_ACCESS_KEY", KEY, True),
        ("DB_PASSWORD", "correct horse", True),
        ("--api-key", KEY, True),
        ("apikey", KEY, True),
        ("TOKENIZERS_PARALLELISM", "something", False),
        ("batch-tokens", "something", False),
        ("KEY_FILE", "/home/me/.key", False),
        ("HF_TOKEN", "$HF_TOKEN_OF_MINE", False),
        ("MAX_TOKEN", "1000000000", False),
        ("sort-key", "name", False),
    ],
)
def test_what_is_a_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) == secret


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"variables": {"WANDB_API_KEY": KEY}}},
        {"run": {"module": "m", "args": {"wandb-api-key": KEY}}},
        {"run": {"module": "m", "args": ["--wandb-api-key", KEY]}},
        {"run": {"module": "m", "args": [f"--wandb-api-key={KEY}"]}},
        {"run": {"command": ["python", "--wandb-api-key", KEY], "args": {"a": "b"}}},
    ],
    ids=str,
)
def test_a_secret_in_the_spec_is_a_warning_without_its_value(changes: dict[str, object]) -> None:
    notes = [note for note in plan_of(make_spec(**changes)).notes if note.startswith("warning: ")]
    assert len(notes) == 1
    assert "write environment.from_shell: [WANDB_API_KEY]" in notes[0]
    assert KEY not in notes[0]


def test_explain_and_report_mask_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = (
        "name: a\nscheduler: slurm\nresources: {walltime: 5m}\n"
        f"run: {{module: m, args: [--token, {KEY}]}}\n"
        f"environment: {{variables: {{HF_TOKEN: {KEY}}}}}\n"
    )
    Path("job.yaml").write_text(spec)
    for words in ([], ["--json"]):
        out = jobgen("explain", *words).out
        assert f"HF_TOKEN={MASK}" in out
        assert KEY not in out
    script = jobgen("render").out
    assert script.count(KEY) == 2
    for text in (script, spec, f"args:\n  - --token\n  - {KEY}\n"):
        assert KEY not in mask_text(text)
    assert mask_text("export OMP_NUM_THREADS=12345678\n") == "export OMP_NUM_THREADS=12345678\n"


@pytest.mark.parametrize(
    ("scheduler", "line"),
    [("slurm", "#SBATCH --export=ALL,A_KEY,B_KEY"), ("pbs", "#PBS -v A_KEY,B_KEY"), ("local", "")],
)
def test_the_scheduler_takes_it_from_the_shell_that_submits(
    scheduler: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(
        f"name: a\nscheduler: {scheduler}\nresources: {{walltime: 5m}}\nrun: {{command: [x]}}\n"
        "environment: {from_shell: [A_KEY, B_KEY]}\n"
    )
    monkeypatch.setenv("A_KEY", KEY)
    monkeypatch.delenv("B_KEY", raising=False)
    code, _, err = jobgen("submit", "--dry-run")
    problem = "environment.from_shell: B_KEY: not set in this shell; export it before you submit"
    assert code == 3
    assert err.splitlines()[-1].endswith(f": {problem}")
    monkeypatch.setenv("B_KEY", KEY)
    code, out, _ = jobgen("submit", "--dry-run")
    assert code == 0
    assert KEY not in out
    assert not line or f"\n{line}\n" in out


def test_it_is_said_in_one_place_alone() -> None:
    own = make_spec(directives=["#SBATCH --export=NONE"], environment={"from_shell": ["A_KEY"]})
    with pytest.raises(SpecError, match="jobgen writes --export by itself"):
        plan_of(own)
    both = make_spec(environment={"from_shell": ["A_KEY"], "variables": {"A_KEY": "x"}})
    with pytest.raises(SpecError, match="is among the variables, too"):
        plan_of(both)
