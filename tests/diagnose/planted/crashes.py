"""Code that is not Python ends the process: C++, Fortran, MPI, OpenMP."""

from __future__ import annotations

import ctypes
import faulthandler
import mmap
import os
import sys
import threading
from pathlib import Path

from program import RANK, complain, main, planted, read_table

read_table(__file__)


@planted("segv-thread", "exit -11", "2", "SIGSEGV", mode="slurm")
def crash_in_a_thread() -> None:
    faulthandler.enable()
    thread = threading.Thread(target=ctypes.string_at, args=(0,))
    thread.start()
    thread.join()


@planted("bus-error", "exit -7", "1", "SIGBUS")
def map_a_cut_file() -> None:
    path = Path(f"cut-{RANK}.bin")
    path.write_bytes(bytes(1 << 16))
    with path.open("r+b") as file:
        view = mmap.mmap(file.fileno(), 0)
        os.truncate(path, 0)
        print(view[0])


@planted("segv-with-stack", "exit -11", "0", "SIGSEGV")
def crash_with_stack() -> None:
    faulthandler.enable()
    ctypes.string_at(0)


@planted("ucx-signal", "exit -11", "1", "SIGSEGV", mode="pbs-direct")
def crash_in_ucx() -> None:
    complain(
        "[ava02:21329:1:21329] Caught signal 11 (Segmentation fault: address not mapped to object "
        "at address 0x8)\n==== backtrace (tid:  21329) ====\n 0 0x0000000000068d1c ucs_handle_error"
        "()  ucs/debug/debug.c:641\n 1 0x000000000036ac7f MPIDI_CH3_EagerContigShortSend()  ??:0\n"
        "================================="
    )
    ctypes.string_at(0)


@planted(
    "ompi-pml",
    "exit 1 or launcher",
    "all",
    "pml framework|PML ucx",
    early=True,
    mode="local-direct",
)
def open_no_pml() -> None:
    line = "-" * 74
    complain(
        f"{line}\nNo components were able to be opened in the pml framework.\n\nThis typically "
        "means that either no components of this type were\ninstalled, or none of the installed "
        f"components can be loaded.\n\n  Host:      cn557\n  Framework: pml\n{line}\n"
        "[cn557:1724353] PML ucx cannot be selected"
    )
    sys.exit(1)


@planted("ompi-pmi", "exit 1 or launcher", "all", "PMI", early=True)
def start_without_pmi() -> None:
    line = "-" * 74
    complain(
        f'{line}\nThe application appears to have been direct launched using "srun",\nbut OMPI was '
        "not built with SLURM's PMI support and therefore cannot\nexecute. There are several "
        f"options for building PMI support under\nSLURM.\n\nPlease configure as appropriate and try"
        f" again.\n{line}\n*** An error occurred in MPI_Init_thread\n*** on a NULL communicator\n"
        "*** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n***    and "
        "potentially your MPI job)"
    )
    sys.exit(1)


if __name__ == "__main__":
    main()
