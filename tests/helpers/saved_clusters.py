"""Login nodes whose scheduler's commands print what was once saved: tests/machine/captured."""

import contextlib
import getpass
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

SAVED = ROOT / "tests" / "machine" / "captured"
ACCOUNTS = f"sacctmgr-nP-show-user-{getpass.getuser()}-withassoc-format=defaultaccount,account"
REPLAY = """\
#!/bin/bash
file={folder}/${{0##*/}}
for word; do if [[ $word == -* ]]; then file+=$word; else file+=-$word; fi; done
[[ -f $file ]] || {{ echo "${{0##*/}}: illegal option -- $*" >&2; exit 2; }}
exec cat "$file"
"""


@contextlib.contextmanager
def replayed(name: str | Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine whose scheduler's commands print what was saved, and fail at all else."""
    bin_folder = folder / "bin"
    shutil.rmtree(bin_folder, ignore_errors=True)
    bin_folder.mkdir(parents=True)
    slurm = any((SAVED / name).glob("scontrol*"))
    tools = "sbatch srun scancel scontrol sacctmgr" if slurm else "qsub qdel qstat pbsnodes"
    for tool in tools.split():
        (bin_folder / tool).write_text(REPLAY.format(folder=SAVED / name))
        (bin_folder / tool).chmod(0o755)
    for tool in ("bash", "cat", "id", "hostname"):
        (bin_folder / tool).symlink_to(str(shutil.which(tool, path=os.defpath)))
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(bin_folder))
        yield


def program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/bash\n{text}\n")
    file.chmod(0o755)


def saved(home: Path, name: str = "slurm-mixed", **answers: str) -> Path:
    """A saved cluster, its clock set to now, and with other answers to some commands."""
    copy = home / name
    shutil.copytree(SAVED / name, copy, dirs_exist_ok=True)
    config = copy / "scontrol-show-config"
    if config.exists():
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S")
        config.write_text(re.sub(r"(?<=as of )\S+", stamp, config.read_text()))
    for file, text in answers.items():
        (copy / file).write_text(text)
    return copy
