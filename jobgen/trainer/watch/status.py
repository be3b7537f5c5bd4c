"""What a job script reads to know how the run went: `status.json`, `DONE`, `STOPPED`.

They lie in $JOBGEN_RUN_DIR when it is set, else in the run folder. `status.json` holds

- state: "running", "completed", "stopped" or "failed". A process that is killed cannot change
  it, so "running" after the end of the job means killed.
- reason: what stopped the run or made it fail, else null
- step: optimizer steps in the newest checkpoint, that is, what the next start does not repeat
- resumable: whether there is such a checkpoint
- time: when this was written, Unix time in seconds
"""

import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..output.files import replace_text

_STARTED = time.time()


class Status:
    """The status files that this job's script looks at."""

    def __init__(self, run_folder: Path) -> None:
        self.folder = Path(os.environ.get("JOBGEN_RUN_DIR") or run_folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stop_file = self.folder / "STOP"  # whose appearance asks the run to stop

    def running(self, step: int) -> None:
        """Say that training goes on from this step; marks of an earlier start are removed."""
        for name in ("DONE", "STOPPED"):
            (self.folder / name).unlink(missing_ok=True)
        self._write("running", None, step)

    def saved(self, step: int) -> None:
        """Say that a run that goes on has this checkpoint; not where a rank says it has failed."""
        if self._read().get("state") == "running":
            with suppress(OSError):  # of a full disk; it is said again with the next one
                self._write("running", None, step)

    def ended(self, step: int, reason: str | None = None) -> None:
        """Say that all steps are done or, for a reason, that the run stopped as asked."""
        self._write("stopped" if reason else "completed", reason, step)
        replace_text(self.folder / ("STOPPED" if reason else "DONE"), f"step {step}\n")
        # Answered; left in place it would stop the next start after its first step.
        self.stop_file.unlink(missing_ok=True)

    def failed(self, error: BaseException, *, step: int) -> bool:
        """Say that the run failed, unless a rank of this start already has; returns whether.

        The first one knows the cause; those after it only lost their peer.
        """
        written = self._read()
        if written.get("state") == "failed" and written.get("time", 0) >= _STARTED:
            return False
        where = f"rank {os.environ.get('RANK', '0')} on {socket.gethostname()}"
        with suppress(OSError):  # what is wrong with the disk may be why it fails
            self._write("failed", f"{where}: {type(error).__name__}: {error}", step)
        return True

    def _read(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        except (OSError, ValueError):
            return {}
        return record

    def _write(self, state: str, reason: str | None, step: int) -> None:
        record = {"state": state, "reason": reason, "step": step, "resumable": step > 0}
        text = json.dumps(record | {"time": time.time()})
        replace_text(self.folder / "status.json", text + "\n")
