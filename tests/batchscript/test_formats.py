"""What lint writes for other programs, and what `--fix` writes into a script."""

import subprocess
from pathlib import Path

import pytest
from support import ROOT, jobgen

from jobgen.batchscript.lint import check
from jobgen.batchscript.lint.rule import MENDED, mend_text
from jobgen.batchscript.reader import Script

FAULTY = sorted((ROOT / "tests" / "batchscript" / "faulty").iterdir())
TEXT = """\
#!/bin/bash
#SBATCH --nodes=2 --gres=gpu:1
export MASTER_PORT=29500
srun python train.py, 100%
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A script with two faults, of which one can be mended."""
    path = tmp_path / "a,b.sbatch"
    path.write_text(TEXT)
    return path


def test_annotations_stand_at_their_lines(script: Path) -> None:
    code, out, _ = jobgen("lint", "--format", "github", script)
    place = str(script).replace(",", "%2C")
    first, last = out.splitlines()
    assert code == 8
    assert first.startswith(f"::error file={place},line=3,col=8,title=")
    assert last == (
        f"::error file={place},line=4,col=1,title=srun without --kill-on-bad-exit"
        "::srun goes on when one of its tasks has failed; add --kill-on-bad-exit=1 to srun"
    )


def test_a_message_of_an_annotation_ends_no_command(tmp_path: Path) -> None:
    path = tmp_path / "a.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH -A <my%0Aaccount>\ntrue\n")
    out = jobgen("lint", "--format", "github", path).out
    assert len(out.splitlines()) == 1
    assert "'<my%250Aaccount>'" in out


def test_a_script_of_another_shell_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "a.pbs"
    path.write_text("#!/bin/tcsh\n#PBS -N a\nsetenv A 1\n")
    assert jobgen("lint", path)[::2] == (0, f"{path}: tcsh runs it, and lint reads bash\n")


def test_fix_mends_the_file_and_lists_the_rest(script: Path) -> None:
    code, out, err = jobgen("lint", "--fix", script)
    assert (code, err) == (8, f"{script}: fixed\n1 fault found\n")
    assert [line.split(": ")[1] for line in out.splitlines()[::2]] == ["fixed-port"]
    assert script.read_text() == TEXT.replace("srun python", "srun --kill-on-bad-exit=1 python")
    before = script.stat().st_mtime_ns
    assert jobgen("lint", "--fix", script)[::2] == (8, "1 fault found\n")
    assert script.stat().st_mtime_ns == before


@pytest.mark.slow
def test_each_mend_takes_away_its_finding_and_brings_no_other(subtests: pytest.Subtests) -> None:
    mended = set()
    for path in FAULTY:
        with subtests.test(path.name):
            text = path.read_bytes().decode()
            site = "lumi-g" if path.stem == "site-limit" else None
            before = check(Script(path.name, text), site)
            after = mend_text(text, before)
            rules = [finding.rule.id for finding in check(Script(path.name, after), site)]
            assert rules == [item.rule.id for item in before if item.rule.id not in MENDED]
            assert (after == text) == (rules == [item.rule.id for item in before])
            mended |= {path.stem} - set(rules)
    assert mended == set(MENDED)


@pytest.mark.parametrize(
    ("line", "mended"),
    [
        ("srun -n 8 python a.py", "srun --kill-on-bad-exit=1 -n 8 python a.py"),
        (
            "srun python a.py | srun -n 2 cat",
            "srun --kill-on-bad-exit=1 python a.py | srun -n 2 cat",
        ),
        ("echo srun; srun python a.py", "echo srun; srun --kill-on-bad-exit=1 python a.py"),
        ("srun -K 1 python a.py", "srun -K 1 python a.py"),
        ('CMD="srun python a.py"\n$CMD', 'CMD="srun python a.py"\n$CMD'),
    ],
)
def test_only_a_plain_srun_is_mended(line: str, mended: str) -> None:
    head = "#!/bin/bash\n#SBATCH --nodes=2\n"
    text = f"{head}{line}\n"
    after = mend_text(text, check(Script("a", text)))
    assert after == f"{head}{mended}\n"
    assert subprocess.run(["bash", "-n"], input=after, text=True).returncode == 0


def test_bytes_that_are_no_text_survive_a_mend(tmp_path: Path) -> None:
    path = tmp_path / "a.sbatch"
    path.write_bytes(TEXT.encode() + b"# caf\xe9\n")
    assert jobgen("lint", "--fix", path).code == 8
    assert path.read_bytes().endswith(b"# caf\xe9\n")
    assert b"--kill-on-bad-exit=1" in path.read_bytes()
