"""`--host`: commands on another machine, by the user's own ssh, with jobgen as it is there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import click

from jobgen.errors import SchedulerUnavailableError, UsageError

# OpenSSH's own exit code: no connection (ssh(1), EXIT STATUS).
_NO_CONNECTION = 255
# A command ends where the connection does: sshd sends it no signal, but its input ends.
# People have PATH from the files of a login shell, which may print; that is not for stdout.
_LOGIN = 'exec 4>&1 >&2; exec bash -lc \'exec >&4 4>&-; "$@"\' bash "$@"'
_NAME = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_/.@%+=,-]*")
_WHILE_CONNECTED = (
    'exec 3<&0; "$@" </dev/null & command=$!; '
    "{ cat <&3; kill $command; } >/dev/null 2>&1 & watch=$!; "
    "wait $command; code=$?; kill $watch; exit $code"
)


class RemoteHost:
    """A machine to which ssh connects, and a folder there, relative to the home folder."""

    def __init__(self, text: str) -> None:
        """Parse `login.site` or `me@login.site:FOLDER`; by default FOLDER has this one's name."""
        self.name, _, folder = text.partition(":")
        self.folder = folder or os.path.basename(os.getcwd())
        # Neither is read as an option, or expanded by a shell there, as rsync's was before 3.2.4.
        if not all(map(_NAME.fullmatch, (self.name, self.folder))):
            hint = "write it as login.site or me@login.site:FOLDER, without blanks and '~'"
            raise UsageError(f"--host {text!r}: {hint}; FOLDER would be {self.folder!r}")

    def send(self, files: Iterable[str]) -> None:
        """Copy files and folders below the current one that differ there.

        Raises UsageError for others, and SchedulerUnavailableError without a connection.
        """
        paths = []
        for path in dict.fromkeys(map(os.path.relpath, files)):
            if path.startswith(".."):
                raise UsageError(f"{path}: outside of this folder; jobgen will not send it")
            paths.append(f"./{path}")
        if self._run(["mkdir", "-p", "--", self.folder]):
            raise UsageError(f"cannot make the folder {self.folder} on {self.name}")
        target = f"{self.name}:{self.folder}/"
        argv = ["rsync", "--rsh=ssh", "--archive", "--relative", "--", *paths, target]
        self._check(argv, at_most=0)

    def run_jobgen(self, words: Sequence[str]) -> int:
        """Run a command of jobgen in the folder, with what it prints; return its exit code.

        Raises SchedulerUnavailableError without a connection, or without jobgen.
        """
        program = f"cd -- {shlex.quote(self.folder)} || exit; {_WHILE_CONNECTED}"
        code = self._run(["bash", "-c", program, "bash", "jobgen", *words])
        if code == 127:
            hint = "install it there, or copy the script and submit it with the scheduler's command"
            raise SchedulerUnavailableError(f"there is no jobgen on {self.name}; {hint}")
        return code

    def _run(self, argv: Sequence[str]) -> int:
        remote = shlex.join(["bash", "-c", _LOGIN, "bash", *argv])
        return self._check(["ssh", "-T", self.name, remote], at_most=_NO_CONNECTION - 1)

    def _check(self, argv: Sequence[str], *, at_most: int) -> int:
        from jobgen.process import run_attached

        code = run_attached(argv)
        if code > at_most:
            raise SchedulerUnavailableError(f"{argv[0]} to {self.name} failed with code {code}")
        return code


def list_files(path: str, overrides: Iterable[str] = ()) -> list[str]:
    """Return the files here that a submission needs: those of a spec, or a script and its spec.

    A spec's are itself, what it extends, the project's defaults and profiles, and its `run.script`.
    """
    from jobgen import load
    from jobgen.rendering.check import is_script, read_script

    files = [path]
    if is_script(path):
        from pathlib import Path

        script = read_script(Path(path))
        path = str(script.path.parent / script.header.spec)
        if not os.path.isfile(path):
            return files
        files.append(path)
    spec = load(path, overrides)
    read = {where.file for where in spec.positions.values()} - {path}
    files += filter(os.path.isfile, [*sorted(read), spec.spec.run.script or ""])
    return [*files, *filter(os.path.isdir, [".jobgen"])]


class RemoteCommand(click.Command):
    """A command with --host. The rest of its line is checked here, and runs there."""

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options)
        self.params.append(
            click.Option(
                ["--host"],
                metavar="HOST[:FOLDER]",
                help="Do it there, by ssh, in FOLDER (from home; else named as this one).",
            )
        )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as usual; keep the words given, but for --host."""
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
            return super().invoke(ctx)
        there = RemoteHost(host)
        if self.name == "submit":
            there.send(list_files(ctx.params["path"], ctx.params["overrides"]))
        return there.run_jobgen([str(self.name), *ctx.meta["words"]])
