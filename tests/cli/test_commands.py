"""The command line: what each command prints and writes, and its exit code."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from support import MINIMAL, ROOT, edited, jobgen, working_in

from jobgen.cli.following import run_shown
from jobgen.cli.main import cli
from jobgen.jobs import watch
from jobgen.output import write_file
from jobgen.rendering.runtime import Runtime, digest_text, split_script

SLURM = MINIMAL.replace("local", "slurm")
PBS = MINIMAL.replace("local", "pbs")
STOCK = ROOT / "tests" / "helpers" / "bin"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the schedulers' stand-ins first on PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{STOCK}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "calls"))
    monkeypatch.setenv("FAKE_STATE", "RUNNING")
    return tmp_path


def write(text: str, path: str = "job.yaml") -> None:
    """A spec in a file, whose folder is made."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def calls() -> list[str]:
    """The commands of schedulers that were run."""
    return Path("calls").read_text().splitlines() if Path("calls").exists() else []


def files(folder: str = ".") -> list[str]:
    """The files below a folder."""
    return sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())


def started(*arguments: str, **options: object) -> "subprocess.Popen[str]":
    """A `jobgen` command in a process of its own."""
    argv = [sys.executable, "-m", "jobgen", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    settings = {"stdout": pipe, "stderr": pipe, "text": True, "env": environment, **options}
    return subprocess.Popen(argv, **settings)  # type: ignore[call-overload, no-any-return]


class TestRender:
    def test_without_a_spec_it_is_job_yaml_to_stdout(self) -> None:
        write(MINIMAL)
        code, out, err = jobgen("render")
        assert (code, err) == (0, "")
        assert out.startswith("#!/bin/bash\n# a: 2 nodes x 1 process, for this machine alone\n")
        assert files() == ["job.yaml"]

    def test_to_a_file_in_a_folder_that_is_made(self) -> None:
        write(MINIMAL, "specs/a.yaml")
        assert jobgen("render", "specs/a.yaml", "-o", "new/deep/x.sh") == (0, "", "")
        assert Path("new/deep/x.sh").read_text() == jobgen("render", "specs/a.yaml").out
        assert files("new") == ["new/deep/x.sh"]

    @pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
    def test_a_script_has_the_mode_of_any_new_file(self, umask: int) -> None:
        write(MINIMAL)
        before = os.umask(umask)
        try:
            jobgen("render", "-o", "a.sh")
        finally:
            os.umask(before)
        assert Path("a.sh").stat().st_mode & 0o777 == 0o666 & ~umask

    def test_a_file_is_replaced_as_a_whole_or_not_at_all(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "a.sh", "--name", "other")
        other = Path("a.sh").read_text()

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device", "a.sh")

        monkeypatch.setattr(os, "replace", fail)
        assert jobgen("render", "-o", "a.sh") == (1, "", "a.sh: No space left on device\n")
        assert Path("a.sh").read_text() == other
        assert files() == ["a.sh", "job.yaml"]

    @pytest.mark.parametrize("at", ["set -", 'main "$@"'])
    def test_a_script_edited_by_hand_is_not_overwritten(self, at: str) -> None:
        write(SLURM)
        jobgen("render", "-o", "a b.sh")
        edited = Path("a b.sh").read_text().replace(at, f"# mine\n{at}", 1)
        Path("a b.sh").write_text(edited)
        code, out, err = jobgen("render", "-o", "a b.sh")
        assert (code, out) == (4, "")
        assert "to overwrite it, type: rm 'a b.sh' && jobgen render -o 'a b.sh'\n" in err
        assert Path("a b.sh").read_text() == edited
        assert jobgen("render", "-o", "a b.sh", "-N", "3") == (0, "", "")
        older = Path("a b.sh").read_text().replace("jobgen runtime ", "jobgen runtime 1", 1)
        Path("a b.sh").write_text(older)
        assert jobgen("render", "-o", "a b.sh", "-N", "3") == (0, "", "")
        assert Path("a b.sh").read_text() != older

    @pytest.mark.parametrize("name", ["job.yaml", "old.sbatch"])
    def test_what_render_has_not_written_is_not_overwritten(self, name: str) -> None:
        write(MINIMAL)
        Path("old.sbatch").write_text("#!/bin/bash\nsrun python train.py\n")
        before = Path(name).read_text()
        code, out, err = jobgen("render", "job.yaml", "-o", name)
        assert (code, out) == (2, "")
        assert f"{name} already exists and was not rendered by jobgen" in err
        assert Path(name).read_text() == before
        Path("empty.sh").touch()
        assert jobgen("render", "job.yaml", "-o", "empty.sh") == (0, "", "")
        assert jobgen("render", "job.yaml", "-o", "empty.sh") == (0, "", "")

    def test_a_symbolic_link_stays_one(self) -> None:
        write(MINIMAL)
        Path("link.sh").symlink_to("real.sh")
        jobgen("render", "-o", "link.sh")
        assert Path("link.sh").is_symlink()
        assert Path("real.sh").read_text().startswith("#!/bin/bash")

    def test_a_pipe_is_written_to_and_not_replaced(self) -> None:
        write(MINIMAL)
        os.mkfifo("pipe")
        with subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE, text=True) as reader:
            assert jobgen("render", "-o", "pipe") == (0, "", "")
            assert reader.communicate()[0].startswith("#!/bin/bash")
        assert Path("pipe").is_fifo()
        assert started("render", "-o", "/dev/stdout").communicate() == (jobgen("render").out, "")

    def test_a_folder_cannot_be_written_to_as_a_file(self) -> None:
        write(MINIMAL)
        Path("a").mkdir()
        assert jobgen("render", "-o", "a") == (1, "", "a: Is a directory\n")
        assert files() == ["job.yaml"]

    def test_several_specs_go_to_a_folder_each_by_its_own_name(self) -> None:
        write(MINIMAL, "x/a.yaml")
        write(SLURM, "b.yaml")
        write(PBS, "c.d.yaml")
        argv = ["render", "--out-dir", "out", "x/a.yaml", "b.yaml", "c.d.yaml"]
        assert jobgen(*argv) == (0, "", "")
        assert files("out") == ["out/a.sh", "out/b.sbatch", "out/c.d.pbs"]

    def test_two_specs_of_one_name_collide(self) -> None:
        write(MINIMAL, "x/a.yaml")
        write(MINIMAL, "y/a.yaml")
        code, out, err = jobgen("render", "--out-dir", "out", "x/a.yaml", "y/a.yaml")
        assert (code, out) == (2, "")
        assert "Error: two of the specs would both be written to out/a.sh\n" in err
        assert not Path("out").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["a.yaml", "b.yaml"], "several specs need --out-dir"),
            (["a.yaml", "b.yaml", "-o", "x"], "several specs need --out-dir"),
            (["-o", "x", "--out-dir", "y"], "--output and --out-dir exclude each other"),
            (["--scheduler", "lsf"], "'lsf' is not one of 'slurm', 'pbs', 'local'"),
            (["--sett", "a=b"], "--sett"),
            (["--set", "nodes"], "--set 'nodes': write it as nodes=VALUE, on one line"),
        ],
    )
    def test_wrong_usage(self, arguments: list[str], message: str) -> None:
        for name in ("a.yaml", "b.yaml", "job.yaml"):
            write(MINIMAL, name)
        code, out, err = jobgen("render", *arguments)
        assert (code, out) == (2, "")
        assert message in err

    def test_the_header_says_how_to_render_it_again(self) -> None:
        write(edited(("module: m", "command: [x]")), "my specs/a b.yaml")
        argv = ["my specs/a b.yaml", "--site", "pbs-generic", "--set", "resources.nodes=3"]
        script = jobgen("render", *argv, "--set", "run.args=['it''s']").out
        assert (
            "\n# to render it again: jobgen render 'a b.yaml' --site pbs-generic "
            "--set resources.nodes=3 --set 'run.args=['\"'\"'it'\"'\"''\"'\"'s'\"'\"']'\n"
        ) in script

    def test_bytes_do_not_depend_on_the_locale(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(edited(("module: m", "command: [é→]")))
        monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
        out, _ = started("render", text=False).communicate()
        assert out.decode() == jobgen("render").out


class TestCheck:
    def test_a_fresh_script(self) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "job.sh")
        assert jobgen("check") == (0, "", "job.sh: up to date\n")
        assert jobgen("check", "job.sh") == (0, "", "job.sh: up to date\n")

    @pytest.mark.parametrize("what", ["job.yaml", "job.sh"])
    def test_a_stale_script(self, what: str) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "job.sh")
        write(MINIMAL.replace("name: a", "name: b"))
        code, out, err = jobgen("check", what)
        assert (code, err) == (4, "job.sh: stale; render it again\n")
        lines = out.splitlines()
        assert lines[:2] == ["--- job.sh", "+++ job.yaml rendered now"]
        assert "-# a: 2 nodes x 1 process, for this machine alone" in lines
        assert "+# b: 2 nodes x 1 process, for this machine alone" in lines

    def test_a_script_that_somebody_has_edited_is_stale(self) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "job.sh")
        with Path("job.sh").open("a") as file:
            file.write("echo more\n")
        code, out, _ = jobgen("check")
        assert code == 4
        assert "-echo more\n" in out

    def test_comments_in_the_spec_do_not_matter(self) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "job.sh")
        write("# a comment\n" + MINIMAL)
        assert jobgen("check").code == 0

    def test_scripts_are_looked_for_in_out_dir(self) -> None:
        write(MINIMAL, "specs/a.yaml")
        jobgen("render", "specs/a.yaml", "--out-dir", "out")
        assert jobgen("check", "specs/a.yaml", "--out-dir", "out").code == 0
        message = (
            "specs/a.yaml: the spec is valid; it has no script yet; to write one: "
            "jobgen render specs/a.yaml -o {}/a.sh\n"
        )
        assert jobgen("check", "specs/a.yaml") == (0, "", message.format("specs"))
        Path("other").mkdir()
        checked = jobgen("check", "specs/a.yaml", "--out-dir", "other")
        assert checked == (4, "", message.format("other"))

    def test_the_script_to_write_has_a_name_that_is_free(self) -> None:
        write(MINIMAL)
        Path("job.sh").write_text("echo somebody else's\n")
        *_, command = jobgen("check").err.partition("to write one: jobgen ")
        assert command == "render job.yaml -o job2.sh\n"
        assert jobgen(*command.split()).code == 0

    def test_a_spec_without_a_script_is_checked_for_its_site(self) -> None:
        resources = "{gpus_per_node: 4, cpus_per_gpu: 8}"
        write(f"name: a\nsite: nci-gadi\nresources: {resources}\nrun: {{script: a.py}}\n")
        code, out, err = jobgen("check")
        assert (code, out) == (3, "")
        assert "there are 12 with each GPU" in err
        write("name: a\nresources: {nodes: 2}\nrun: {script: a.py, args: {o: $HOME/o}}\n")
        code, out, err = jobgen("check")
        assert (code, out) == (0, "")
        assert "--scheduler slurm -o job.sbatch" in err

    def test_a_plans_notes_are_told_beside_a_script_too(self) -> None:
        write(edited(("module: m", "command: [nproc, $HOME/o]")))
        alone = [line for line in jobgen("check").err.splitlines() if line.startswith("warning: ")]
        jobgen("render", "-o", "job.sh")
        assert alone
        told = [*alone, "job.sh: up to date"]
        assert jobgen("check") == (0, "", "".join(f"{line}\n" for line in told))

    @pytest.mark.parametrize("script", ["another name.sh", "a.slurm", "a.job", "a.bash"])
    def test_a_script_may_have_any_name(self, script: str) -> None:
        write(MINIMAL)
        jobgen("render", "-o", script)
        assert jobgen("check").code == 0
        write(MINIMAL.replace("name: a", "name: b"))
        for named in ((), (script,)):
            assert jobgen("check", *named).err == f"{script}: stale; render it again\n"

    def test_a_spec_may_have_several_scripts(self) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "wide.sbatch", "--scheduler", "slurm", "--set", "resources.nodes=8")
        jobgen("render", "-o", "job.pbs", "--site", "pbs-generic", "--set", "account='x'")
        assert jobgen("check").err == "job.pbs: up to date\nwide.sbatch: up to date\n"
        write(MINIMAL.replace("module: m", "module: n"))
        assert jobgen("check").err == (
            "job.pbs: stale; render it again\nwide.sbatch: stale; render it again\n"
        )

    def test_every_stale_and_missing_script_is_told(self) -> None:
        for name in ("a", "b", "c"):
            write(MINIMAL, f"{name}.yaml")
        jobgen("render", "--out-dir", ".", "a.yaml", "b.yaml")
        write(MINIMAL.replace("name: a", "name: b"), "b.yaml")
        code, _, err = jobgen("check", "a.yaml", "b.yaml", "c.yaml")
        assert code == 4
        assert err == (
            "a.sh: up to date\nb.sh: stale; render it again\nc.yaml: the spec is valid; it has no "
            "script yet; to write one: jobgen render c.yaml -o c.sh\n"
        )

    def test_a_script_whose_spec_is_gone(self) -> None:
        write(MINIMAL)
        jobgen("render", "-o", "job.sh")
        Path("job.yaml").unlink()
        message = (
            "job.sh: there is no job.yaml, from which it was rendered; name the spec instead: "
            "jobgen check SPEC --out-dir .\n"
        )
        assert jobgen("check", "job.sh") == (2, "", message)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "echo hello\n",
                "was not rendered by jobgen; it has no header that says so; to check it, type:"
                " jobgen lint x.sh; to submit it: jobgen import x.sh -o x.yaml, and then jobgen"
                " submit x.yaml",
            ),
            (b"\xff\xfe", "is not text"),
            (None, "No such file or directory"),
        ],
    )
    def test_a_script_that_is_none(self, text: str | bytes | None, message: str) -> None:
        if text is not None:
            Path("x.sh").write_bytes(text.encode() if isinstance(text, str) else text)
        assert jobgen("check", "x.sh") == (2, "", f"x.sh: {message}\n")

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ('"scheduler": "local"', '"scheduler": "lsf"'),
            ('"scheduler": "local"', '"scheduler": 3'),
            ('"groups": [', '"groups": [3, '),
            ('"name": "a"', '"name": "../a"'),
            ('"digest": ', '"digest" '),
            ("# jobgen: {", "# jobgen: "),
        ],
    )
    def test_a_header_that_somebody_has_damaged(self, old: str, new: str) -> None:
        write(MINIMAL)
        text = jobgen("render").out
        assert old in text
        Path("x.sh").write_text(text.replace(old, new, 1))
        message = "x.sh: was not rendered by jobgen; it has no header that says so; to check it,"
        message += " type: jobgen lint x.sh; to submit it: jobgen import x.sh -o x.yaml, and then"
        message += " jobgen submit x.yaml\n"
        assert jobgen("check", "x.sh") == (2, "", message)

    def test_a_part_2_that_somebody_has_edited_is_stale(self) -> None:
        write(MINIMAL)
        first, runtime = split_script(jobgen("render").out)
        assert runtime is not None
        body = runtime.text.replace("exit 1", "exit 2", 1)
        # A digest that the script states of itself proves nothing.
        for changed in (
            runtime._replace(text=body),
            Runtime(runtime.number, digest_text(body), body),
            Runtime(runtime.number - 1, digest_text(body), body),
        ):
            Path("job.sh").write_text(first + changed.as_text())
            code, out, err = jobgen("check")
            assert code == 4
            assert "its Part 2 was edited" in err
            assert "-die()" in out.replace("exit 2", "")

    def test_a_script_of_an_older_release_is_a_note_until_its_spec_changes(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(MINIMAL)
        first, runtime = split_script(jobgen("render").out)
        assert runtime is not None
        body = f"# of another release\n{runtime.text}"
        old = Runtime(runtime.number - 1, digest_text(body), body)
        monkeypatch.setattr("jobgen.rendering.check.read_released", lambda: [old.digest])
        Path("job.sh").write_text(first.replace("# of every process", "#") + old.as_text())
        note = "job.sh: runtime 1, current is 2: render again when convenient\n"
        assert jobgen("check") == (0, "", note)
        write(edited(("module: m", "module: n")))
        assert jobgen("check")[0] == 4


class TestSubmit:
    @pytest.mark.parametrize(
        ("spec", "job_id", "number", "call"),
        [
            (SLURM, "4242", "4242", "sbatch --parsable runs/a/submissions/{}.sbatch"),
            (PBS, "4242.pbs.example.org", "4242", "qsub runs/a/submissions/{}.pbs"),
        ],
    )
    def test_stdout_is_the_id_alone(self, spec: str, job_id: str, number: str, call: str) -> None:
        write(spec)
        code, out, err = jobgen("submit")
        following = f"next: jobgen logs -f {job_id}, jobgen status {job_id}\n"
        assert (code, out) == (0, f"{job_id}\n")
        assert err == f"run folder: runs/a/{number}\n{following}"
        token = json.loads(Path(f"runs/a/{number}/job.json").read_text())["token"]
        assert calls() == [call.format(token)]
        last = f"# submitted by jobgen as {token}\n"
        assert Path(f"runs/a/{number}/script").read_text() == jobgen("render").out + last
        assert not list(Path("runs/a/submissions").iterdir())

    def test_the_lines_that_are_offered_of_an_array_are_for_any_shell(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The brackets of its ID are a pattern; zsh finds no file for it and runs nothing."""
        write(PBS + "array: {tasks: 3}\n")
        write("#!/bin/sh\necho '52[].other'\n", "bin/qsub")
        Path("bin/qsub").chmod(0o755)
        monkeypatch.setenv("PATH", f"{Path('bin').resolve()}:{os.environ['PATH']}")
        err = jobgen("submit").err
        assert err.endswith("next: jobgen logs -f '52[].other', jobgen status '52[].other'\n")

    def test_what_was_submitted_is_on_record(self) -> None:
        write(SLURM)
        jobgen("submit", "--set", "resources.nodes=3")
        run_dir = Path("runs/a/4242")
        record = json.loads((run_dir / "job.json").read_text())
        assert (record["id"], record["name"], record["scheduler"]) == ("4242", "a", "slurm")
        assert record["folder"] == os.getcwd()
        assert (run_dir / "job.yaml").read_text() == SLURM
        rendered = jobgen("render", "--set", "resources.nodes=3").out
        assert (run_dir / "script").read_text().startswith(rendered)

    def test_folders_of_the_output_are_made_before(self) -> None:
        write(edited(("", 'directives: ["#SBATCH --output=logs/a/%j.out"]\n'), text=SLURM))
        assert jobgen("submit").out == "4242\n"  # the stand-in wants it
        assert Path("logs/a").is_dir()

    def test_variables_that_change_a_submission_are_told_before_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(SLURM)
        values = {"JOB_NAME": "b", "PARTITION": "debug", "OUTPUT": "/x", "ERROR": "/y"}
        values |= {"EXPORT": "NONE", "TIMELIMIT": "5"}
        for name, value in values.items():
            monkeypatch.setenv(f"SBATCH_{name}", value)
        expected = [
            "warning: SBATCH_ERROR=/y is set here: it is --error for sbatch",
            "warning: SBATCH_EXPORT=NONE is set here: it is --export for sbatch",
            "warning: SBATCH_JOB_NAME=b is set here: it is --job-name for sbatch and wins over that"
            " of the script",
            "warning: SBATCH_OUTPUT=/x is set here: it is --output for sbatch and wins over that of"
            " the script",
            "warning: SBATCH_PARTITION=debug is set here: it is --partition for sbatch",
            "warning: SBATCH_TIMELIMIT=5 is set here: it is --time for sbatch",
        ]
        for words in (["--dry-run"], []):
            code, _, err = jobgen("submit", *words)
            told = [line for line in err.splitlines() if line.startswith("warning: ")]
            assert (code, told) == (0, expected)
        write("#!/bin/sh\necho 'sbatch: error: invalid partition' >&2; exit 1\n", "bin/sbatch")
        Path("bin/sbatch").chmod(0o755)
        monkeypatch.setenv("PATH", f"{os.getcwd()}/bin:{os.environ['PATH']}")
        code, _, err = jobgen("submit", "--again")
        assert code == 5
        assert err.endswith(
            "\nset here, and read by sbatch: SBATCH_ERROR, SBATCH_EXPORT, SBATCH_JOB_NAME, "
            "SBATCH_OUTPUT, SBATCH_PARTITION, SBATCH_TIMELIMIT\n"
        )

    def test_variables_that_qsub_reads_are_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(SLURM.replace("slurm", "pbs"))
        monkeypatch.setenv("PBS_DPREFIX", "#QSUB")
        _, _, err = jobgen("submit", "--dry-run")
        assert err == (
            "warning: PBS_DPREFIX=#QSUB is set here: it is what begins a directive for qsub, in the"
            " place of #PBS\n"
        )

    def test_a_script_may_lie_in_the_image_of_a_container(self) -> None:
        own = "environment: {container: {image: a, runtime: apptainer}}\n"
        write(edited(("{module: m}", "{script: /opt/train.py}"), ("", own), text=SLURM))
        Path("a").touch()
        assert jobgen("submit").out == "4242\n"

    def test_a_dry_run_shows_all_and_does_nothing(self) -> None:
        write(edited(("", 'directives: ["#SBATCH --output=my-logs/%j.out"]\n'), text=SLURM))
        code, out, err = jobgen("submit", "--dry-run")
        assert (code, err, files()) == (0, "", ["job.yaml"])
        shown, script = out.split("# the script:\n")
        assert script == jobgen("render").out
        where, folders, file, command = shown.splitlines()
        assert where == f"# in {os.getcwd()}:"
        assert folders == "mkdir -p runs/a my-logs"
        name = file.removeprefix("# write the script below to ").removesuffix(", then")
        assert command == f"sbatch --parsable {name}"
        jobgen("submit")
        token = json.loads(Path("runs/a/4242/job.json").read_text())["token"]
        assert calls() == [command.replace("TOKEN", token)]

    def test_a_script_is_submitted_as_it_is(self) -> None:
        write(SLURM)
        jobgen("render", "-o", "wide.sbatch", "--set", "resources.nodes=8")
        assert jobgen("submit", "wide.sbatch").out == "4242\n"
        token = json.loads(Path("runs/a/4242/job.json").read_text())["token"]
        assert calls() == [f"sbatch --parsable runs/a/submissions/{token}.sbatch"]
        script = Path("wide.sbatch").read_text() + f"# submitted by jobgen as {token}\n"
        assert Path("runs/a/4242/script").read_text() == script

    def test_a_stale_script_is_refused_unless_told_otherwise(self) -> None:
        write(SLURM)
        jobgen("render", "-o", "job.sbatch")
        write(SLURM.replace("nodes: 2", "nodes: 3"))
        message = (
            "job.sbatch: not what job.yaml renders today; "
            "see `jobgen check job.sbatch`, render it again, or give --stale-ok\n"
        )
        assert jobgen("submit", "job.sbatch") == (4, "", message)
        assert calls() == []
        assert jobgen("submit", "job.sbatch", "--stale-ok").out == "4242\n"
        stale = "warning: job.sbatch: stale; job.yaml is submitted; render the script again\n"
        assert jobgen("submit", "--dry-run").err == stale
        ran = "runs/a/4242/script, which ran, is not what its spec renders: its line 2 differs; to "
        refused = jobgen("rerun", "4242", "--set", "name=b")
        assert (refused.code, ran in refused.err) == (4, True)
        # Of a rerun that is not so: it submits the spec that is on record.
        shutil.rmtree("runs")
        assert jobgen("submit").out == "4242\n"
        again = jobgen("rerun", "4242", "--set", "name=b", "--set", "queue=x", "--again")
        assert (again.out, "stale" in again.err) == ("4242\n", False)

    def test_a_name_with_a_blank_is_quoted_in_the_lines_that_are_offered(self) -> None:
        spec, script, other = "my job.yaml", "my job.sbatch", "an other.sh"
        Path(spec).write_text(SLURM)
        Path(other).write_text("#!/bin/bash\n")
        line = "jobgen render 'my job.yaml' -o 'my job.sbatch'"
        assert jobgen("check", spec).err.endswith(f"to write one: {line}\n")
        jobgen(*shlex.split(line)[1:])
        Path(spec).write_text(SLURM.replace("nodes: 2", "nodes: 3"))
        assert "; see `jobgen check 'my job.sbatch'`, " in jobgen("submit", script).err
        Path(script).write_text(Path(script).read_text().replace("nodes=2", "nodes=4"))
        Path(spec).write_text(SLURM)
        refused = jobgen("render", spec, "-o", script).err
        assert "see `jobgen check 'my job.sbatch'`; to overwrite it, type: rm 'my" in refused
        assert "jobgen import 'an other.sh' -o 'an other.yaml', and" in jobgen("submit", other).err
        assert "; `jobgen submit 'my job.yaml'` starts one\n" in jobgen("status", spec).err
        assert "type: jobgen submit 'my job.yaml'\n" in jobgen("frob", spec).err

    def test_a_script_alone_may_be_stale_or_not(self) -> None:
        write(SLURM)
        jobgen("render", "-o", "job.sbatch")
        Path("job.yaml").unlink()
        code, out, err = jobgen("submit", "job.sbatch")
        assert (code, out) == (0, "4242\n")
        assert "job.sbatch: job.yaml does not exist; the script may be stale\n" in err

    @pytest.mark.parametrize("option", [["--scheduler", "pbs"], ["--set", "a=b"], ["--site", "x"]])
    def test_a_script_has_its_values_already(self, option: list[str]) -> None:
        write(SLURM)
        jobgen("render", "-o", "job.sbatch")
        code, _, err = jobgen("submit", "job.sbatch", *option)
        assert code == 2
        assert "a rendered script already has its scheduler, site and values" in err

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            (SLURM, "sbatch failed with exit code 1: sbatch: error: Invalid account\n"),
            (PBS, "qsub failed with exit code 1: qsub: Invalid account\n"),
        ],
    )
    def test_the_scheduler_refuses(
        self, monkeypatch: pytest.MonkeyPatch, spec: str, message: str
    ) -> None:
        write(spec)
        monkeypatch.setenv("FAKE_REFUSAL", "Invalid account")
        assert jobgen("submit") == (5, "", message)
        assert not list(Path("runs").rglob("*.*"))

    @pytest.mark.parametrize(
        ("refusal", "command", "prints", "told"),
        [
            (
                "invalid partition specified: gpu",
                "scontrol",
                "PartitionName=batch Default=YES\nPartitionName=low Default=NO",
                "the queues of this cluster: batch, low",
            ),
            (
                "Invalid account or account/partition combination specified",
                "sacctmgr",
                "a1|a1\na1|a2",
                "the accounts that you may charge: a1, a2",
            ),
        ],
    )
    def test_a_refusal_is_answered_with_what_the_scheduler_reports(
        self, monkeypatch: pytest.MonkeyPatch, refusal: str, command: str, prints: str, told: str
    ) -> None:
        write(SLURM)
        write(f"#!/bin/sh\necho '{prints}'\n", f"bin/{command}")
        Path("bin", command).chmod(0o755)
        monkeypatch.setenv("PATH", f"{os.getcwd()}/bin:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_REFUSAL", refusal)
        failed = f"sbatch failed with exit code 1: sbatch: error: {refusal}"
        assert jobgen("submit") == (5, "", f"{failed}\n{told}\n")

    def test_a_refusal_of_several_lines_is_no_question_of_accounts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(PBS)
        monkeypatch.setenv("FAKE_REFUSAL", "invalid option -- 'Z'\nusage: qsub [-A account]")
        assert jobgen("submit").err.endswith("usage: qsub [-A account]\n")

    @pytest.mark.parametrize(
        ("code", "words", "told"),
        [
            (
                "0",
                "Charged: 8 SU\nsbatch: Job 7 to start at 2030-01-31T12:00:00 using 8 processors",
                "sbatch --test-only says: expected to start at 2030-01-31T12:00:00 using 8 "
                "processors; by the queue of this moment, so it may start sooner\n",
            ),
            ("0", "Submitted batch job 7", "sbatch --test-only says: Submitted batch job 7\n"),
            ("0", "", ""),
            (
                "1",
                "allocation failure: Invalid partition name specified",
                "warning: sbatch --test-only says that this job will not run: allocation failure: "
                "Invalid partition name specified\n",
            ),
        ],
    )
    def test_slurm_is_asked_first_and_the_submission_decides(
        self, monkeypatch: pytest.MonkeyPatch, code: str, words: str, told: str
    ) -> None:
        write(SLURM)
        monkeypatch.setenv("FAKE_TEST_CODE", code)
        monkeypatch.setenv("FAKE_TEST", words)
        ended = jobgen("submit")
        assert (ended.code, ended.out, len(calls())) == (0, "4242\n", 1)
        assert ended.err.startswith(f"{told}run folder: ")
        (asked,) = Path("calls.tests").read_text().splitlines()
        assert asked == calls()[0].replace("--parsable", "--test-only --parsable")
        monkeypatch.setenv("FAKE_REFUSAL", "Invalid partition")
        refused = "sbatch failed with exit code 1: sbatch: error: Invalid partition\n"
        assert jobgen("submit", "--again") == (5, "", refused)

    @pytest.mark.parametrize(("spec", "command"), [(SLURM, "sbatch"), (PBS, "qsub")])
    def test_the_scheduler_says_something_else_than_an_id(
        self, monkeypatch: pytest.MonkeyPatch, spec: str, command: str
    ) -> None:
        write(spec)
        monkeypatch.setenv("FAKE_OUTPUT", "Welcome!")
        code, out, err = jobgen("submit")
        assert (code, out) == (6, "")
        assert err.startswith(
            f"{command} printed no job id but 'Welcome!\\n'; there is no job yet, but one may "
        )

    @pytest.mark.parametrize(("spec", "there"), [(SLURM, "qsub"), (PBS, "sbatch")])
    def test_the_spec_and_not_path_decides_the_scheduler(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, spec: str, there: str
    ) -> None:
        """Slurm ships a qsub of its own."""
        write(spec)
        commands = folder / "commands"
        commands.mkdir()
        bash = shutil.which("bash")
        assert bash
        for command in (bash, STOCK / there):
            (commands / Path(command).name).symlink_to(command)
        monkeypatch.setenv("PATH", str(commands))
        missing = {"qsub": "sbatch", "sbatch": "qsub"}[there]
        message = f"there is no {missing} command here; is this a login node of the cluster?\n"
        assert jobgen("submit") == (6, "", message)
        assert calls() == []

    @pytest.mark.parametrize("command", ["check", "render", "explain", "submit"])
    @pytest.mark.parametrize(
        ("setup", "line"),
        [
            ("true\necho 'it is", 2),
            ("if true; then", 2),
            ("true\n}\nanother() {\n    true", 2),  # valid in a function, but not alone
            ("cat <<END\ntext", 3),  # valid alone, but not in a function
            ("echo a \\", 3),
        ],
    )
    def test_a_setup_that_is_not_bash_is_refused(self, setup: str, line: int, command: str) -> None:
        write(edited(("", f"environment: {{setup: {json.dumps(setup)}}}\n"), text=SLURM))
        code, out, err = jobgen(command)
        assert (code, out) == (3, "")
        assert f"job.yaml:5:22: environment.setup: not valid bash: bash: line {line}: " in err
        assert calls() == []

    def test_a_setup_of_comments_functions_and_documents_is_bash(self) -> None:
        setup = "# a\nf() {\n    case $1 in a) ;; esac\n}\ncat <<END\nit's {\nEND"
        write(edited(("", f"environment: {{setup: {json.dumps(setup)}}}\n"), text=SLURM))
        assert jobgen("check").code == 0
        write(edited(("", "environment: {setup: '# nothing yet'}\n"), text=SLURM))
        assert jobgen("check").code == 0

    def test_a_program_that_is_not_there_is_refused(self) -> None:
        write(SLURM.replace("module: m", "script: train.py"))
        message = (
            "job.yaml:4:15: run.script: no such file here: 'train.py'; "
            "paths are relative to the folder you submit from\n"
        )
        assert jobgen("submit") == (3, "", message)
        Path("train.py").touch()
        assert jobgen("submit").code == 0

    def test_a_venv_that_is_not_there_is_refused_unless_setup_makes_it(self) -> None:
        write(edited(("", "environment: {venv: env}\n"), text=SLURM))
        code, _, err = jobgen("submit", "--again")
        assert (code, "environment.venv: env is not here; " in err) == (2, True)
        assert calls() == []
        made = "environment: {venv: env, setup: python -m venv env}\n"
        write(edited(("", made), text=SLURM))
        assert jobgen("submit", "--again").code == 0

    def test_an_image_that_is_not_there_is_refused_unless_a_job_before_may_make_it(self) -> None:
        image = "environment: {container: {image: a.sif, runtime: apptainer}}\n"
        write(edited(("", image), text=SLURM))
        code, _, err = jobgen("submit")
        assert (code, "environment.container.image: a.sif is not here, " in err) == (2, True)
        assert calls() == []
        assert jobgen("submit", "--after", "12").code == 0
        write(edited(("", f"{image}after: [12]\n"), text=SLURM))
        assert jobgen("submit", "--again", "-J", "b").code == 0

    def test_a_job_without_the_account_that_its_site_requires_is_refused(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path(".jobgen/sites").mkdir(parents=True)
        profile = "extends: slurm-generic\naccount: {required: true}\n"
        Path(".jobgen/sites/lab.yaml").write_text(profile)
        write(SLURM)
        assert jobgen("submit", "--site", "lab") == (
            2,
            "",
            "job.yaml:1:1: every job here needs an account; write account: NAME, or submit it with "
            "-A NAME; nothing is submitted\n",
        )
        assert calls() == []
        assert jobgen("submit", "--site", "lab", "-A", "a").code == 0
        given = "directives=['#SBATCH --account=b']"
        assert jobgen("submit", "--site", "lab", "-J", "b", "--set", given).code == 0
        monkeypatch.setenv("SBATCH_ACCOUNT", "c")
        assert jobgen("submit", "--site", "lab", "-J", "c").code == 0

    @pytest.mark.parametrize(
        ("state", "code", "err"),
        [("COMPLETED", 0, ""), ("FAILED", 7, "job 4242: failed (FAILED)\n"),
         ("CANCELLED", 7, "job 4242: cancelled\n")],
    )  # fmt: skip
    def test_wait_ends_as_the_job_does(
        self, monkeypatch: pytest.MonkeyPatch, state: str, code: int, err: str
    ) -> None:
        write(SLURM)
        monkeypatch.setattr(watch, "POLL_SECONDS", 0.0)
        monkeypatch.setenv("FAKE_STATE", state)
        ended = jobgen("submit", "--wait")
        assert ended == (code, "4242\n", f"run folder: runs/a/4242\n{err}")

    def test_control_c_while_waiting(self) -> None:
        write(SLURM)
        process = started("submit", "--wait")
        assert process.stdout
        assert process.stdout.readline() == "4242\n"
        while not any(call.startswith("squeue") for call in calls()):  # then it waits
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 130
        how = "wait for it with jobgen wait 4242, or end it with jobgen cancel 4242"
        assert err.endswith(f"job 4242 is not cancelled; {how}\n\ninterrupted\n")


class TestStatusAndCancel:
    @pytest.mark.parametrize(
        ("spec", "state", "printed"),
        [
            (SLURM, "PENDING", "queued"),
            (SLURM, "RUNNING", "running"),
            (SLURM, "COMPLETED", "done"),
            (SLURM, "TIMEOUT", "timeout"),
            (PBS, "Q", "queued"),
            (PBS, "R", "running"),
            (PBS, "F", "done"),
        ],
    )
    def test_the_state_is_alone_on_the_first_line(
        self, monkeypatch: pytest.MonkeyPatch, spec: str, state: str, printed: str
    ) -> None:
        write(spec)
        job_id = jobgen("submit").out.strip()
        monkeypatch.setenv("FAKE_STATE", state)
        for word in (job_id, "runs/a/4242"):
            code, out, err = jobgen("status", word)
            assert (code, out.splitlines()[0], err) == (0, printed, "")

    def test_a_job_that_the_scheduler_has_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(SLURM)
        jobgen("submit")
        monkeypatch.setenv("FAKE_FAIL", "yes")
        why = "it has not begun here; the scheduler no longer knows it\n"
        assert jobgen("status", "4242") == (0, f"unknown\n{why}", "")

    @pytest.mark.parametrize(
        ("spec", "call"), [(SLURM, "scancel 4242"), (PBS, "qdel 4242.pbs.example.org")]
    )
    def test_cancel(self, spec: str, call: str) -> None:
        write(spec)
        jobgen("submit")
        for word in ("4", "424"):  # whole ids alone
            assert jobgen("cancel", word).code == 2
        code, out, err = jobgen("cancel", "4242")
        assert (code, out) == (0, "")
        assert err == f"a {call.split()[1]}: cancelled\n"
        assert calls()[-1] == call

    @pytest.mark.parametrize("command", ["status", "cancel"])
    @pytest.mark.parametrize("job", ["x7", "", "*", "../x"])
    def test_a_job_that_is_not_there(self, command: str, job: str) -> None:
        message = f"no job {job!r} below ./runs; give an ID, a name or a run folder\n"
        assert jobgen(command, job) == (2, "", message)


@pytest.mark.parametrize("command", ["render", "check", "submit --dry-run", "--help"])
def test_a_reader_that_has_seen_enough_is_no_traceback(command: str) -> None:
    write(MINIMAL)
    if command == "check":
        jobgen("render", "-o", "job.sh")
    write(MINIMAL.replace("name: a", "name: b"))
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = started(*command.split(), stdout=write_end)
    os.close(write_end)
    assert process.communicate()[1] == ""
    assert process.returncode == 1


def test_every_command_has_a_short_line_in_the_help() -> None:
    page = jobgen("--help").out
    for name, command in cli.commands.items():
        assert command.hidden or f"  {name} " in page, command
    lines = [line for line in page.splitlines() if re.match(r"  [a-z]+ {2,}[A-Z]", line)]
    assert len(lines) == len(cli.list_commands(click.Context(cli)))
    assert all(len(line.split(maxsplit=1)[1]) <= 55 for line in lines)
    for name in cli.list_commands(click.Context(cli)):
        assert cli.get_command(click.Context(cli), name), name


def test_without_a_command_the_help_is_shown_as_it_is() -> None:
    shown = jobgen()
    assert shown.code == 2
    assert shown.err == jobgen("--help").out
    assert shown.out == ""


def test_help_and_version() -> None:
    git = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    assert jobgen("--version") == (0, f"jobgen 0.1.0 ({commit})\n", "")
    code, out, _ = jobgen("-h")
    assert code == 0
    assert "Exit codes: 0 ok, 1 unexpected error, 2 wrong usage" in out
    assert jobgen("nothing").code == 2


def test_control_c_while_jobgen_begins_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    ended = subprocess.run(
        [sys.executable, "-m", "jobgen", "list"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted\n")


def test_a_closed_stdout_is_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(MINIMAL)
    command = [sys.executable, "-m", "jobgen", "render"]
    ended = subprocess.run(
        ["bash", "-c", 'exec "$@" >&-', "bash", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stderr) == (1, "stdout: Bad file descriptor\n")


def test_a_file_called_dash_is_stdout() -> None:
    write(SLURM)
    script = jobgen("render")
    assert jobgen("render", "-o", "-") == script
    write(script.out, "job.sbatch")
    assert jobgen("import", "job.sbatch", "-o", "-") == jobgen("import", "job.sbatch")
    ended = jobgen("render", "-o", "-", "--out-dir", "scripts")
    assert (ended.code, files()) == (2, ["job.sbatch", "job.yaml"])
    assert jobgen("init", "-").out.startswith("# yaml-language-server: $schema=job.schema.json\n")
    assert jobgen("init", "-", "--json").code == 2
    assert not Path("-").exists()
    assert not Path("job.schema.json").exists()


@pytest.mark.parametrize("command", ["lint", "import"])
def test_a_spec_given_as_a_script_is_named_with_the_command_that_takes_it(
    command: str, tmp_path: Path
) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text("name: a\nrun: {script: train.py}\n")
        Path("config.yaml").write_text("optimizer: {lr: 1e-3}\ntrainer: {epochs: 3}\n")
        code, _, err = jobgen(command, "job.yaml")
        other = jobgen(command, "config.yaml")
    assert code == other.code == 2
    assert err == "job.yaml is a job spec, not a job script; type: jobgen check job.yaml\n"
    assert other.err == (
        "config.yaml is not a job script; the spec here is job.yaml; type: jobgen check job.yaml\n"
    )


@pytest.mark.parametrize(("command", "done"), [("lint", 0), ("import", 0)])
def test_a_job_script_counts_as_one_whatever_its_name(
    command: str, done: int, tmp_path: Path
) -> None:
    with working_in(tmp_path):
        Path("job.yaml").write_text("#!/bin/bash\n#SBATCH --time=1:00:00\npython3 train.py\n")
        told = jobgen("check", "job.yaml").err
        ended = jobgen(command, "job.yaml")
    assert f"`jobgen {command} job.yaml`" in told
    assert ended.code == done
    assert "not a job script" not in ended.err


@pytest.mark.parametrize("command", ["lint", "import"])
def test_a_file_of_another_tool_given_as_a_script_is_named(command: str, tmp_path: Path) -> None:
    with working_in(tmp_path):
        Path("Dockerfile").write_text("FROM pytorch/pytorch\nCMD [python, train.py]\n")
        code, out, err = jobgen(command, "Dockerfile")
    assert (code, out) == (2, "")
    assert err.startswith("Dockerfile builds an image, and is not a job script; build it, and ")


def test_a_run_shows_what_its_rank_0_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for job in ("6", "7"):  # another's, and a start before this one
        for name in ("attempts/0", "logs/n1"):
            Path(f"runs/a/{job}/{name}").mkdir(parents=True)
        Path(f"runs/a/{job}/logs/n1/rank-0.out").write_text("old\n")
    lines = "cd runs/a; mkdir 7/attempts/1; printf 'a\\nb' | tee -a [67]/logs/n1/rank-0.out; exit 5"
    assert run_shown(["bash", "-c", f"{{ {lines}; }} >/dev/null"], "a") == 5
    assert capsys.readouterr().out == "a\nb"


def test_a_word_that_is_nearly_right_and_a_file_that_cannot_be_written_are_named(
    tmp_path: Path,
) -> None:
    with working_in(tmp_path):
        with pytest.raises(OSError, match="No space left") as refused:
            write_file("/dev/full", "text")
        assert refused.value.filename == "/dev/full"
        assert jobgen("list", "--state", "Runing").err.endswith("; did you mean running?\n")
        assert jobgen("report", "--format", "text").err.endswith("type: jobgen report --text\n")
