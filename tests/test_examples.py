"""The examples' committed scripts are the golden files of rendering, and README keeps its word."""

import re
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from jobgen import errors
from jobgen.cli.main import cli

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_committed_scripts_are_what_the_example_renders(example: Path) -> None:
    result = CliRunner().invoke(cli, ["check", str(example)], catch_exceptions=False)
    assert (result.exit_code, result.stdout) == (0, "")


def test_the_repository_passes_the_check_that_it_offers_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    result = CliRunner().invoke(cli, ["check", "--all"], catch_exceptions=False)
    assert (result.exit_code, result.output) == (0, "")


def test_scripts_of_all_schedulers_are_committed() -> None:
    scripts = {path.name for path in (ROOT / "examples").iterdir()}
    assert {"quickstart.sh", "quickstart.sbatch", "quickstart.pbs", "gadi-2x4.pbs"} <= scripts


def test_gadi_is_asked_for_totals_in_its_own_words() -> None:
    """As NCI's documentation has it: no select, ncpus 12 times ngpus, storage, -P."""
    script = (ROOT / "examples" / "gadi-2x4.pbs").read_text()
    assert re.findall("^#PBS (.*)", script, re.MULTILINE) == [
        "-N gadi-2x4",
        "-P vp91",
        "-q gpuvolta",
        "-l ncpus=96",
        "-l ngpus=8",
        "-l mem=360gb",
        "-l walltime=00:05:00",
        "-j oe",
        "-k oed",
        "-l storage=scratch/vp91",
    ]


def test_commands_and_options_of_readme_exist() -> None:
    blocks = "\n".join(re.findall(r"^```(?:sh|console)\n(.*?)^```", README, re.M | re.S))
    used = re.findall(r"^(?:\$ )?jobgen (\w+)(.*)", blocks, re.MULTILINE)
    used += re.findall(r"`jobgen (\w+)([^`]*)`", README)
    assert len(used) >= 6
    for command, rest in used:
        found = cli.get_command(click.Context(cli), command)
        assert found, command
        if isinstance(found, click.Group) and rest.split():
            found = found.get_command(click.Context(found), rest.split()[0]) or found
        known = {option for param in found.params for option in param.opts}
        assert set(re.findall(r"(?<= )--?[a-z][a-z-]*", rest)) <= known, f"{command}{rest}"


def test_exit_codes_of_readme_are_those_of_the_errors() -> None:
    listed = dict(re.findall(r"(\d+) ([\w' ()-]+?)(?= ·|\.|\n)", README[README.index("## Exit") :]))
    kinds = {kind.exit_code: kind for kind in errors.JobgenError.__subclasses__()}
    assert sorted(kinds) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert {str(code) for code in kinds} <= listed.keys()


def test_ci_runs_the_two_commands_of_readme() -> None:
    program = re.search(
        r"^readme_command\(\) \{.*?^\}", (ROOT / ".ci/run").read_text(), re.M | re.S
    )
    assert program
    commands = [
        subprocess.run(
            ["bash", "-c", f"{program[0]}\nreadme_command {number}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in (1, 2)
    ]
    assert "jobgen submit examples/quickstart.yaml --wait" in commands[0]
    assert commands[1].strip().endswith("&& .venv/bin/python -m pytest")
