"""A shell or a tool runs the program and hides, or makes, its exit code."""

from __future__ import annotations

import ctypes
import time

from program import kill_self, main, planted, raise_with, read_table, shell

read_table(__file__)


@planted(
    "pipe-head",
    "left-early or peer-lost or exit -13 or exit 1 or exception or exit 0",
    "2",
    "",
    changes=shell(
        "if [ $RANK = 2 ]; then python train.py pipe-head | head -n 1; exit; fi; "
        "python train.py pipe-head"
    ),
)
def print_into_head() -> None:
    while True:
        print("another line of words", flush=True)
        time.sleep(0.05)


planted(
    "subshell-code",
    "exit 77 or exception",
    "1",
    "no licence",
    mode="slurm",
    changes=shell("(python train.py subshell-code) || exit 77"),
)(raise_with("PermissionError", "no licence for the solver"))


planted(
    "timeout-tool",
    "exit 124 or exit 1 or hang or collective-timeout",
    "all",
    "124|time",
    mode="pbs-direct",
    changes=shell("timeout 5 python train.py timeout-tool; exit $?"),
)(lambda: time.sleep(60))


planted(
    "semicolon-hides",
    "left-early or exception",
    "3",
    "fold 9",
    mode="pbs-direct",
    changes=shell("python train.py semicolon-hides; echo finished"),
)(raise_with("LookupError", "there is no fold 9"))


@planted(
    "tee-masks",
    "exception or left-early",
    "2",
    "'labels'",
    changes=shell("python train.py tee-masks 2>&1 | tee log-$RANK"),
)
def raise_into_tee() -> None:
    {}["labels"]


@planted(
    "or-true",
    "left-early or exit -11",
    "1",
    "SIGSEGV|Segmentation",
    mode="pbs-direct",
    changes=shell("python train.py or-true || true"),
)
def crash_behind_true() -> None:
    ctypes.string_at(0)


planted(
    "or-words",
    "killed or exit 1 or exit -9",
    "3",
    "Killed|SIGKILL",
    changes=shell("python train.py or-words || { echo 'training failed' >&2; exit 1; }"),
)(kill_self)


@planted(
    "retry-loop",
    "exit 9 or exception",
    "all",
    "no vocab",
    early=True,
    mode="pbs-direct",
    changes=shell(
        "for i in 1 2 3; do python train.py retry-loop && exit 0; sleep 0.2; done; exit 9"
    ),
)
def raise_thrice() -> None:
    raise ValueError("tokenizer.json has no vocab")


@planted(
    "trap-exits-0",
    "exception or left-early",
    "2",
    "patch size 14",
    changes=shell("trap 'rm -rf scratch; exit 0' EXIT; python train.py trap-exits-0"),
)
def raise_in_trap() -> None:
    raise ValueError("patch size 14 does not divide 224 + 1")


@planted(
    "module-run",
    "exception",
    "1",
    "not in list",
    mode="slurm",
    changes={"run": {"command": ["python", "-m", "train", "module-run"]}},
)
def raise_in_module() -> None:
    ["train", "test"].index("validation")


if __name__ == "__main__":
    main()
