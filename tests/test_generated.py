"""What is made from the program: the man page, the schemas of the wheel, pages of docs."""

import re
import shutil
import subprocess
import sys
from types import ModuleType

import click
import pytest
from support import ROOT, jobgen, load_program

from jobgen.batchscript.lint import RULES
from jobgen.cli.main import cli
from jobgen.spec.fields import list_paths, read_fields
from jobgen.spec.model import JobSpec, Ready, Role


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The module docs/generate.py."""
    path = list(sys.path)
    module = load_program(ROOT / "docs" / "generate.py")
    sys.path[:] = path
    return module


def test_the_pages_are_what_the_program_says(generate: ModuleType) -> None:
    """If not: python docs/generate.py."""
    for name, write in generate.PAGES.items():
        assert (ROOT / "docs" / "reference" / name).read_text() == write(), name
    assert (ROOT / "SKILL.md").read_text() == generate.skill()
    assert (ROOT / "templates/runtime/restart.sh").read_text() == generate.write_faults()


def test_every_key_of_a_spec_is_on_its_page(generate: ModuleType) -> None:
    page = (ROOT / "docs" / "reference" / "spec.md").read_text()
    records = {path for path, _ in generate.list_records(JobSpec)}
    assert (
        set(list_paths(JobSpec)) - records <= generate.EXAMPLES.keys() <= set(list_paths(JobSpec))
    )
    of_roles = len(read_fields(Role)) + len(read_fields(Ready))
    assert len(re.findall(r"^\| (`|\[)", page, re.M)) == len(list_paths(JobSpec)) + of_roles
    for line in ("#SBATCH --time=04:00:00", "#PBS -l walltime=04:00:00", "module purge", "lr 3e-4"):
        assert line in page


def test_every_link_of_a_finding_leads_to_a_section() -> None:
    page = (ROOT / "docs" / "reference" / "lint.md").read_text()
    sections = {f"docs/reference/lint.md#{name}" for name in re.findall("^## (.*)$", page, re.M)}
    assert {rule.docs for rule in RULES} == sections


def test_the_man_page_has_every_command_option_and_exit_code(generate: ModuleType) -> None:
    page = generate.man_page().replace("\\-", "-")
    for path, command in generate.commands(cli):
        assert f'.SS "jobgen {path} ' in page
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(name in page for name in option.opts)
    codes = page.partition('.SH "EXIT STATUS"')[2]
    found = re.findall(r"^\\fB(\d+)\\fR$", codes, re.M)
    assert found == ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "130"]


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_roff_has_nothing_to_say_against_the_man_page(generate: ModuleType) -> None:
    argv = ["groff", "-man", "-ww", "-Tutf8", "-P-c"]
    ended = subprocess.run(argv, input=generate.man_page(), capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    plain = re.sub(".\b", "", ended.stdout)  # bold is a character printed twice
    assert "EXIT STATUS" in plain
    assert "--site NAME" in plain


def test_the_wheel_has_the_schemas_that_jobgen_prints(generate: ModuleType) -> None:
    shared = dict(generate.shared())
    assert shared["share/jobgen/job.schema.json"] == jobgen("schema", "job").out
    assert shared["share/jobgen/site.schema.json"] == jobgen("schema", "site").out
