"""`--host`: commands on another machine, by the user's own ssh, with jobgen as it is there."""

from __future__ import annotations

import codecs
import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from jobgen import __version__
from jobgen.cli.options import STDOUT
from jobgen.cli.printing import put_err, report_recoveries
from jobgen.cli.target import SpecCommand
from jobgen.errors import SchedulerUnavailableError, UsageError
from jobgen.output import make_printable, offer_line

if TYPE_CHECKING:
    from jobgen.spec.load import LoadedSpec
    from jobgen.spec.model import Run

# OpenSSH's own exit code: no connection (ssh(1), EXIT STATUS).
_NO_CONNECTION = 255
# People have PATH from the files of a login shell, which may print; that is not for stdout.
_LOGIN = 'exec 4>&1 >&2; exec bash -lc \'exec >&4 4>&-; "$@"\' bash "$@"'
_NAME = re.compile(r"(?!\d+$)[A-Za-z0-9_/.][A-Za-z0-9_/.@%+=,-]*")  # no option of ssh, no port
# What is printed before the first of these is of the shell's own files, such as .bashrc.
_BEGUN, _SENT = b"\0jobgen begins\n", b"\0jobgen has the files\n"
_PROGRAM = os.path.join(os.path.dirname(__file__), "remote.sh")


class RemoteHost:
    """A machine to which ssh connects, and a folder there, relative to the home folder."""

    def __init__(self, text: str) -> None:
        """Parse `login.site` or `me@login.site:FOLDER`; by default FOLDER has this one's name."""
        self.name, _, folder = text.partition(":")
        self.folder = folder or re.sub(r"^(?=\d+$)", "./", os.path.basename(os.getcwd()))
        if not all(map(_NAME.fullmatch, (self.name, self.folder))):
            hint = "write it as login.site or me@login.site:FOLDER, without blanks or '~'"
            ports = "ports go into ~/.ssh/config, and a folder named 22 is :./22"
            raise UsageError(f"--host {text!r}: {hint}; {ports}; FOLDER would be {self.folder!r}")

    def run_jobgen(
        self, words: Sequence[str], files: str = "", *, keep: list[bytes] | None = None
    ) -> int:
        """Run a command of jobgen in the folder, with what it prints; return its exit code.

        A submission sends packed `files` before. What is printed on stdout is added to `keep` where
        that is given. Raises SchedulerUnavailableError without a connection, or without jobgen.
        """
        with open(_PROGRAM, encoding="utf-8") as program:
            text = program.read()
        argv = ["bash", "-c", text, "bash", self.name, self.folder, __version__, *words]
        argv = ["ssh", "-T", self.name, shlex.join(["bash", "-c", _LOGIN, "bash", *argv])]
        submits = words[0] == "submit"
        output = _RemoteOutput([_BEGUN, _SENT] if submits else [_BEGUN], keep)
        from jobgen.process import run_attached

        try:
            code = run_attached(argv, f"{files}\n".encode(), output.take)
        except KeyboardInterrupt:
            if submits:
                put_err(f"\n{self._describe_submission(output)}")
            raise
        finally:
            output.end()
        doubt = f"; {self._describe_submission(output)}" if submits else ""
        self._tell_failure(code, doubt)
        return code

    def _tell_failure(self, code: int, doubt: str) -> None:
        """Raise what an exit code of ssh means, or print that of jobgen there."""
        if code < 0:
            message = f"ssh to {self.name} was killed by signal {-code}{doubt}"
            raise SchedulerUnavailableError(message)
        if code >= _NO_CONNECTION:
            raise SchedulerUnavailableError(f"ssh to {self.name} failed with code {code}{doubt}")
        if code == 127:
            where = f"jobgen is not in PATH of a login shell on {self.name} (bash -l)"
            hint = "install it there or add its folder to PATH in ~/.bash_profile"
            by_hand = "or copy the script and submit it with the scheduler's command"
            raise SchedulerUnavailableError(f"{where}; {hint}, {by_hand}")
        if code:
            put_err(f"jobgen on {self.name} exited with {code}")

    def _describe_submission(self, output: _RemoteOutput) -> str:
        if output.marks:
            return f"nothing was submitted on {self.name}"
        check = offer_line("jobgen", "list", "--host", f"{self.name}:{self.folder}")
        return f"the job may have been submitted on {self.name}; check with {check}"


class _RemoteOutput:
    """What a command there prints, but for marks, which tell how far it has come."""

    def __init__(self, marks: list[bytes], keep: list[bytes] | None) -> None:
        self.marks = marks  # that have not come yet
        self._keep = keep
        self._text = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, chunk: bytes) -> bytes:
        """Pass on a chunk once it is known to be output of the command; return what to answer."""
        self._text += chunk
        answer = b""
        while self.marks and self.marks[0] in self._text:
            mark = self.marks.pop(0)
            before, _, self._text = self._text.partition(mark)
            put_err(before.decode(errors="replace"), end="")
            answer = b"\n" if mark == _SENT else b""
        if not self.marks:
            text, self._text = self._text, b""  # none is left for stderr if the pipe is closed
            if self._keep is not None:
                self._keep.append(text)
            elif sys.stdout.isatty():
                sys.stdout.write(make_printable(self._decoder.decode(text)))
            else:
                sys.stdout.buffer.write(text)
            sys.stdout.flush()
        return answer

    def end(self) -> None:
        """Pass on what came before any mark."""
        put_err(self._text.decode(errors="replace"), end="")


def pack_submission(path: str, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """Return packed files that a submission needs, and the words that say what only this one knows.

    A spec's are itself, what it extends, the project's defaults and profiles, the files that `run`
    or its roles start, and what it says to `send`, or else all that git does not ignore here. A
    script goes with its spec.
    """
    from jobgen.machine.transfer import pack_files
    from jobgen.rendering.check import is_script, read_script
    from jobgen.spec.load import load

    files, words = [path], list[str]()
    if is_script(path):
        from pathlib import Path

        script = read_script(Path(path))
        path = str(script.path.parent / script.header.spec)
        if not os.path.isfile(path):
            return pack_files([*files, *_list_known()], {}), words
        files.append(path)
        spec = load(path, script.header.overrides)
    else:
        spec = load(path, overrides, user=True)
        words = [word for one in spec.overrides[len(overrides) :] for word in ("--set", one)]
        if words:
            put_err(f"from your own config: {' '.join(words[1::2])}")
    texts = _add_read(files, spec, path)
    files += chain.from_iterable(_list_started(part.spec.run) for part in spec.programs())
    files += [*(spec.spec.send or _list_known()), *filter(os.path.isdir, [".jobgen"])]
    _warn_of_profile(spec.spec.site)
    return pack_files(files, texts), words


def _list_started(run: Run) -> list[str]:
    """Return the files of this folder that a program is, or that its Python or shell runs."""
    from jobgen.review.files import find_program
    from jobgen.review.subject import is_here

    named = [run.body or "", *re.findall(r".+\.(?:py|sh)$", find_program(run.words))]
    return [*filter(os.path.isfile, (run.script or "", *filter(is_here, named)))]


def _list_known() -> list[str]:
    """Return the files here that git does not ignore, but for run folders."""
    from jobgen.process import NEW_FILES, list_tracked_files

    known = list_tracked_files()
    if known is None:
        put_err("no git repository is here; the spec lists under send what else the job needs")
        return []
    return [*known, *(list_tracked_files(".", *NEW_FILES) or ())]


def _add_read(files: list[str], spec: LoadedSpec, path: str) -> dict[str, str]:
    """Add the files that were read for a spec; return its text where one is not below here."""
    read = {where.file for where in spec.positions.values()} - {path}
    others = sorted(filter(os.path.isfile, read))
    if not any(map(_is_outside, others)):
        files += others
        return {}
    put_err(f"{path}: sent as one file with {', '.join(others)}")
    return {os.path.relpath(path): spec.write_whole()}


def _is_outside(file: str) -> bool:
    return os.path.relpath(file).startswith("..")


def _warn_of_profile(name: str | None) -> None:
    """Say that the job may lack the profile of its site there."""
    from jobgen.sites import search

    for file in search.find(name).files if name and search.exists(name) else ():
        if _is_outside(file) and not file.startswith(search.BUILT_IN):
            hint = f"copy it to .jobgen/sites/{os.path.basename(file)} of the project to send it"
            put_err(f"warning: the profile {file} exists only on this machine; {hint}")


class RemoteCommand(click.Command):
    """A command with --host, whose other options are checked here and sent there."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.params.append(
            click.Option(
                ["--host"],
                metavar="HOST[:FOLDER]",
                help="Use jobgen on HOST over ssh, in FOLDER below home"
                " (default: this folder's name).",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual; keep the words given, but for the host."""
        words = iter(list(args))
        kept: list[str] = []
        for word in words:
            if word == "--host":
                next(words, None)
            elif not word.startswith("--host="):
                kept.append(word)
        ctx.meta["words"] = kept
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it here, or there."""
        host = ctx.params.pop("host")
        if host is None:
            if self.name != "submit":  # which looks at no job
                report_recoveries()
            return super().invoke(ctx)
        if (output := ctx.params.get("output") or STDOUT) != STDOUT:
            hint = f"have it printed, with -o - > {output}"
            raise UsageError(f"--host: {output} would be written on the host; {hint}")
        there, files, own = RemoteHost(host), "", list[str]()
        if self.name == "submit":
            files, own = pack_submission(ctx.params["path"], ctx.params["overrides"])
        return there.run_jobgen([str(self.name), *own, *ctx.meta["words"]], files)


class RemoteSpecCommand(SpecCommand, RemoteCommand):
    """A command of both kinds: its words behind `--` are sent as the override that they are."""
