"""Secrets are warned of, never shown, and can be handed over by the shell that submits."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from support import jobgen, plan_of

from jobgen.errors import SpecError
from jobgen.jobs import journal
from jobgen.jobs.code import read_code
from jobgen.jobs.record import JobRecord
from jobgen.jobs.submission import prepare_plan
from jobgen.plan.resolve import resolve
from jobgen.spec.load import load
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
        ("DB_PASSWORD", "hunter2", True),
        ("DB_PASSWORD", "12345678", True),
        ("client-secret", "a$b$c", True),
        ("MY_PAT", "ghp_" + "a1" * 18, True),
        ("ANYTHING", "github_pat_" + "a1" * 20, True),
        ("ANYTHING", "hf_" + "a1" * 17, True),
        ("NGC_CLI", "nvapi-" + "a1" * 20, True),
        ("AUTH", "Bearer eyJhbGciOiJIUzI1NiJ9", True),
        ("DATABASE_URL", "postgres://ada:lovelace@db.example/runs", True),
        ("PASSPHRASE", "correct horse", True),
        ("DATA_URL", "https://data.example/set.tar", False),
        ("auth-type", "kerberos", False),
        ("DATA_PATH", "something/long", False),
        ("use-secret", "true", False),
        ("key-" * 40, KEY, False),
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
        {"run": {"command": ["env", f"WANDB_API_KEY={KEY}", "python"]}},
        {"environment": {"setup": f"export WANDB_API_KEY='{KEY}'"}},
        {"array": {"values": {"wandb-api-key": [KEY, "x"]}}, "run": {"module": "m"}},
        {"array": {"list": [{"WANDB_API_KEY": KEY}, {"WANDB_API_KEY": KEY}]}},
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
    with pytest.raises(SpecError, match="--export asks for what"):
        plan_of(own)
    both = make_spec(environment={"from_shell": ["A_KEY"], "variables": {"A_KEY": "x"}})
    with pytest.raises(SpecError, match="is also set in variables"):
        plan_of(both)


@pytest.mark.parametrize(
    "text",
    [
        f"export HF_TOKEN={KEY}",
        f"export HF_TOKEN='a {KEY} b'",
        f"""export HF_TOKEN='a '\\''{KEY} b'""",
        f'export HF_TOKEN="a \\" {KEY} b"',
        f"HF_TOKEN=a\\ {KEY}",
        f"+    export HF_TOKEN={KEY}",
        f"-HF_TOKEN: {KEY}",
        f"  variables: {{A: b, HF_TOKEN: {KEY}, C: d}}",
        f"  HF_TOKEN: some words {KEY}   # mine",
        f"args: [--a, b, --hf-token, {KEY}]",
        f"args: [--hf-token={KEY}]",
        f"command: python train.py --hf-token {KEY} --lr 3",
        f'# jobgen: {{"overrides": ["environment.variables.HF_TOKEN={KEY}"], "tasks": 2}}',
        f"# to render it again: jobgen render --set environment.variables.HF_TOKEN={KEY}",
        f"jobgen: task 0: --hf-token {KEY}",
        f'+    self.hf_token = "{KEY}"  # mine',
    ],
)
def test_a_secret_is_masked_however_it_is_written(text: str) -> None:
    masked = mask_text(text)
    assert KEY not in masked
    assert MASK in masked
    for other in ("--a, b", "C: d", "--lr 3", '"tasks": 2', "# mine"):
        assert (other in text) == (other in masked), "and nothing else"


@pytest.mark.parametrize(
    "text",
    [
        *("export OMP_NUM_THREADS=12345678", "sort_key: name", "--tokens 1000000000", "key: value"),
        *(
            "export TOKENIZERS_PARALLELISM=something",
            "KEY_FILE=/home/me/.key",
            "HF_TOKEN=$HF_TOKEN",
        ),
        *("token = load(name)", 'if token == "something-else":', "+tokenizer = Tokenizer()"),
        *("tokens:", "the monkey = something", "batch-tokens: 524288", "key: |", "keys: [a, b]"),
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize("piece", ["a-", "key-", "key=", "--key", "--key,  ", "key='a", 'key="\\a'])
def test_masking_takes_time_by_the_length_alone(piece: str) -> None:
    began = time.process_time()
    mask_text(piece * (250_000 // len(piece)))
    assert time.process_time() - began < 1


COMMAND = ["echo", "--password=sekret-6", "--hf-token", "sekret-7-word"]
WHERE: dict[str, object] = {
    "environment": {
        "variables": {"HF_TOKEN": "sekret-1-in-variables", "DB_PASSWORD": "sekret 2"},
        "setup": "export OPENAI_API_KEY=sekret-3-in-setup",
    },
    "array": {"values": {"api-key": ["sekret-4-in-array", "sekret-5-in-array"]}},
    "run": {"command": COMMAND},
}
SET = ("--set", "environment.variables.MY_TOKEN=sekret-8-by-set")


def test_no_command_shows_a_secret_but_the_one_that_prints_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(json.dumps(make_spec("local", launch={"mode": "direct"}, **WHERE)))
    assert jobgen("render", "-o", "job.sh", *SET)[0] == 0
    changed = {**WHERE, "run": {"command": ["printf", *COMMAND[1:]]}, "launch": {"mode": "direct"}}
    Path("job.yaml").write_text(json.dumps(make_spec("local", **changed)))
    for words in (
        ["explain", *SET],
        ["explain", "--all", *SET],
        ["explain", "--json", *SET],
        ["check", "job.sh"],
        ["check", "--json", "job.sh"],
        ["check", "--format", "github", "job.sh"],
        ["submit", "job.sh"],
        ["render", "-o", "job.sh", *SET],
        ["render", "-o", "b.sh", *SET, "--set", "environment.variables.MY_TOKEN=[sekret-9-wrong]"],
    ):
        _, out, err = jobgen(*words)
        assert "sekret" not in out + err, words


def test_the_changes_of_a_job_have_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    Path("train.py").write_text("\n")
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "one"]):
        subprocess.run([*git, *words], check=True)
    Path("train.py").write_text(f'login("hf_{"a1" * 17}")\nAPI_KEY = "{KEY}"\ntokenizer = load()\n')
    diff = read_code().diff
    assert diff.count(MASK) == 2
    assert KEY not in diff
    assert "a1a1" not in diff
    assert "+tokenizer = load()" in diff


def test_what_holds_a_secret_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that jobgen writes of a submission; and of what tells no secret, nothing."""
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    try:
        for name, spec, words in (
            ("a", make_spec("local", **WHERE), SET),
            ("b", make_spec("local", name="b"), ()),
        ):
            Path("job.yaml").write_text(json.dumps(spec))
            loaded = load("job.yaml", words[1:])
            submission = prepare_plan(loaded, resolve(loaded))
            job = JobRecord("7", name, "local", str(tmp_path), 1.0, (), token="1-1-a")
            intent = journal.create_intent(job, jobs=1, source=submission.source, diff="")
            with journal.keep_intent(intent, submission.text, folders=()):
                assert intent.path.stat().st_mode & 0o777 == (0o600 if words else 0o644)
                assert intent.script.stat().st_mode & 0o777 == (0o600 if words else 0o644)
                journal.record_job(intent, ["7"])
            for path in job.run_dir.iterdir():
                told = "sekret" in path.read_text()
                assert told == (bool(words) and path.name in ("script", "job.yaml")), path
                assert path.stat().st_mode & 0o777 == (0o600 if told else 0o644), path
    finally:
        os.umask(before)
