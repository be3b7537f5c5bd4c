"""The options of launchers that a spec does not keep, by name."""

from __future__ import annotations

import re

from jobgen.batchscript.convert.draft import Draft
from jobgen.batchscript.convert.program import Candidate

MPI_LAUNCHERS = {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "aprun", "ibrun"}


_SRUN_SAID = frozenset(
    re.findall(
        r"\S+",
        "-n --ntasks -N --nodes --ntasks-per-node -c --cpus-per-task --gpus-per-node --gpus-per- "
        "task --gres --gpus -G --kill-on-bad-exit -K -u --unbuffered -l --label --export --mem -p "
        "--partition -A --account -J --job-name --exclusive --overlap --exact -w "
        "--nodelist --mpi --wait -W --jobid --distribution -m --cpus-per- "
        "gpu --comment --container-image --container-mounts --container-workdir --environment "
        "--cpu-bind --gpu-bind --cpu_bind --mem-bind --hint --pty --ntasks-per-gpu --quiet -Q "
        "--verbose -v --qos -q --constraint -C --network --threads-per-core -ul -lu -O "
        "--overcommit --mem-per-gpu --mem-per-cpu --open-mode --accel-bind --gpus-per- "
        "socket --propagate",
    )
)


def note_options(draft: Draft, chosen: Candidate) -> None:
    """Name the options of the launchers of a program that are not kept."""
    _note_step_options(draft, chosen)
    _note_mpi_options(draft, chosen)


def _note_step_options(draft: Draft, chosen: Candidate) -> None:
    """Name the options of srun that are not kept."""
    for launcher in chosen.started.launchers:
        if launcher.name != "srun":
            continue
        for option, value in launcher.options:
            mpi = option == "--mpi" and value != "none"
            unknown = option not in _SRUN_SAID and not option.startswith(
                ("--container", "--no-cont")
            )
            if option in (
                "--cpu-bind",
                "--cpu_bind",
                "--mem-bind",
                "--accel-bind",
                "--hint",
                "--distribution",
                "-m",
            ):
                draft.check(chosen.line, f"{option}={value}", "jobgen binds by itself")
            elif option in ("-o", "--output", "-e", "--error"):
                shown = f"{option}={value}"
                draft.check(chosen.line, shown, "its output is in the logs of the run folder")
            elif option in ("-D", "--chdir"):
                draft.lose(chosen.line, f"{option}={value}", "write cd before it")
            elif option in ("-i", "--input") and value not in ("none", "/dev/null"):
                draft.lose(chosen.line, f"{option}={value}", "the program has no input")
            elif option == "--jobid" and value.isdecimal():
                draft.lose(chosen.line, f"{option}={value}", "a step of another job")
            elif unknown or mpi or (option == "--export" and not value.startswith("ALL")):
                shown = f"{option}={value}" if value else option
                draft.check(chosen.line, shown, "an option of srun that is not kept")


# What the spec says by its own keys, or jobgen by itself.
_MPI_SAID = re.compile(
    r"-?-(np?|c|ntasks|ppn|N|npernode|perhost|pernode|(host|machine)file|f|hosts?|H|x|g?env|genvall"
    r"|allow-run-as-root|oversubscribe|l|q|v|prepend-rank|line-buffer|label|tag-output|report-bindings|display-(map|allocation))|-e"
)
_MPI_BINDS = re.compile(
    r"-?-(cpu-bind|gpu-bind|mem-bind|bind-to|map-by|rank-by|depth|d|cc|ss)|-S|-j"
)
_UNBOUND = re.compile(r"none|slot|ppr:\d+:node")


def _note_mpi_options(draft: Draft, chosen: Candidate) -> None:
    """Name the options of mpiexec and its like that are not kept."""
    for launcher in chosen.started.launchers:
        for option, value in launcher.options if launcher.name in MPI_LAUNCHERS else ():
            shown = f"{option} {value}".strip()
            if _MPI_BINDS.fullmatch(option):
                if not _UNBOUND.fullmatch(value):
                    draft.check(chosen.line, shown, "jobgen binds by itself")
            elif not _MPI_SAID.fullmatch(option):
                reason = f"an option of {launcher.name} that is not kept"
                draft.check(chosen.line, shown, reason)
