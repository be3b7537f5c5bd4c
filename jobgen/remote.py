"""Commands on another machine: by the user's own ssh and rsync, with jobgen as it is there."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence

from jobgen import process
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


class Host:
    """A machine to which ssh connects, and a folder there, relative to the home folder."""

    def __init__(self, text: str) -> None:
        """Of `login.site` or `me@login.site:FOLDER`; no FOLDER means one called as the one here."""
        self.name, _, folder = text.partition(":")
        self.folder = folder or os.path.basename(os.getcwd())
        # Neither is read as an option, or expanded by a shell there, as rsync's was before 3.2.4.
        if not all(map(_NAME.fullmatch, (self.name, self.folder))):
            hint = "write it as login.site or me@login.site:FOLDER, without blanks and '~'"
            raise UsageError(f"--host {text!r}: {hint}; FOLDER would be {self.folder!r}")

    def send(self, files: Iterable[str]) -> None:
        """Copy files and folders that lie below the current one, where they differ there.

        Raises UsageError for others, and SchedulerUnavailableError without a connection.
        """
        found = []
        for path in dict.fromkeys(map(os.path.relpath, files)):
            if path.startswith(".."):
                raise UsageError(f"{path} lies outside of this folder, and is not sent to a host")
            found.append(f"./{path}")
        if self._run(["mkdir", "-p", "--", self.folder]):
            raise UsageError(f"the folder {self.folder} cannot be made on {self.name}")
        target = f"{self.name}:{self.folder}/"
        argv = ["rsync", "--rsh=ssh", "--archive", "--relative", "--", *found, target]
        self._check(argv, at_most=0)

    def jobgen(self, words: Sequence[str]) -> int:
        """Run a command of jobgen in the folder, with what it prints; returns its exit code.

        Raises SchedulerUnavailableError where there is no connection, or no jobgen.
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
        code = process.attached(argv)
        if code > at_most:
            raise SchedulerUnavailableError(f"{argv[0]} to {self.name} failed with code {code}")
        return code


def files_of(path: str, overrides: Iterable[str] = ()) -> list[str]:
    """The files that a submission needs which are here: those of a spec, or a script and its spec.

    A spec's are itself, what it extends, the project's defaults and profiles, and its `run.script`.
    """
    from jobgen import load
    from jobgen.check import is_script, read_script

    found = [path]
    if is_script(path):
        from pathlib import Path

        script = read_script(Path(path))
        path = str(script.path.parent / script.header.source)
        if not os.path.isfile(path):
            return found
        found.append(path)
    spec = load(path, overrides)
    read = {where.file for where in spec.positions.values()} - {path}
    found += filter(os.path.isfile, [*sorted(read), spec.spec.run.script or ""])
    return [*found, *filter(os.path.isdir, [".jobgen"])]
