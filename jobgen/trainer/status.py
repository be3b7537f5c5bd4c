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
from dataclasses import dataclass
from pathlib import Path

from .files import replace_text

_STARTED = time.time()


@dataclass(frozen=True)
class Status:
    """The status files of one job; `folder` must exist."""

    folder: Path

    @classmethod
    def of_job(cls, run_folder: Path) -> "Status":
        """Return the status files that this job's script looks at."""
        folder = Path(os.environ.get("JOBGEN_RUN_DIR") or run_folder)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder)

    @property
    def stop_file(self) -> Path:
        """The file whose appearance asks the run to stop."""
        return self.folder / "STOP"

    def running(self, step: int) -> None:
        """Say that training goes on from this step; marks of an earlier start are removed."""
        for name in ("DONE", "STOPPED"):
            (self.folder / name).unlink(missing_ok=True)
        self._write("running", None, step)

    def completed(self, step: int) -> None:
        """Say that all steps are done."""
        self._end("completed", None, step, mark="DONE")

    def stopped(self, step: int, reason: str) -> None:
        """Say that the run stopped as asked."""
        self._end("stopped", reason, step, mark="STOPPED")

    def failed(self, error: BaseException, *, step: int) -> bool:
        """Say that the run failed, unless a rank of this start already has; returns whether.

        The first one knows the cause; those after it only lost their peer.
        """
        try:
            said = json.loads((self.folder / "status.json").read_text())
            if said["state"] == "failed" and said["time"] >= _STARTED:
                return False
        except (OSError, ValueError, KeyError):
            pass  # No readable status: then this is the first word about it.
        where = f"rank {os.environ.get('RANK', '0')} on {socket.gethostname()}"
        self._write("failed", f"{where}: {type(error).__name__}: {error}", step)
        return True

    def _end(self, state: str, reason: str | None, step: int, *, mark: str) -> None:
        self._write(state, reason, step)
        replace_text(self.folder / mark, f"step {step}\n")
        # Answered; left in place it would stop the next start after its first step.
        self.stop_file.unlink(missing_ok=True)

    def _write(self, state: str, reason: str | None, step: int) -> None:
        record: dict[str, object] = {"state": state, "reason": reason, "step": step}
        record |= {"resumable": step > 0, "time": time.time()}
        replace_text(self.folder / "status.json", json.dumps(record) + "\n")
