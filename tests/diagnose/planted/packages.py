"""Packages that cannot be imported, and extensions that cannot be compiled."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from program import RANK, complain, main, make_error, planted, read_table

read_table(__file__)


@planted("extension-build", "compiler or exception", "0", "cpu_adam|ninja")
def build_extension() -> None:
    complain("[1/3] c++ -MMD -MF cpu_adam.o.d -c cpu_adam.cpp -o cpu_adam.o\nFAILED: cpu_adam.o")
    complain("cpu_adam.cpp:12:10: fatal error: curand_kernel.h: No such file or directory")
    try:
        raise subprocess.CalledProcessError(1, ["ninja", "-v"])
    except subprocess.CalledProcessError as error:
        raise RuntimeError("Error building extension 'cpu_adam'") from error


@planted(
    "compile-no-compiler",
    "compiler",
    "all",
    "[Cc]ompiler|InductorError|nonexistent",
    torch=True,
    early=True,
    changes={"environment": {"variables": {"CXX": "/nonexistent/c++"}}},
)
def compile_model() -> None:
    import torch

    torch.compile(lambda x: torch.sin(x) + 1)(torch.ones(64))


@planted("shadowed-package", "exception", "all", "has no attribute", early=True)
def import_shadow() -> None:
    Path(f"own-{RANK}").mkdir(exist_ok=True)
    Path(f"own-{RANK}/calendar.py").write_text("x = 1\n")
    sys.path.insert(0, f"own-{RANK}")
    sys.modules.pop("calendar", None)
    import calendar

    calendar.timegm(time.gmtime())


@planted("circular-import", "import or exception", "all", "partially initialized", early=True)
def import_circular() -> None:
    Path(f"own-{RANK}").mkdir(exist_ok=True)
    Path(f"own-{RANK}/model.py").write_text("from loss import Loss\nclass Model: ...\n")
    Path(f"own-{RANK}/loss.py").write_text("from model import Model\nclass Loss: ...\n")
    sys.path.insert(0, f"own-{RANK}")
    __import__("model")


@planted("syntax", "exception", "all", "SyntaxError", early=True, mode="pbs-direct")
def import_wrong_syntax() -> None:
    Path(f"broken_{RANK}.py").write_text("def step(batch)\n    return batch\n")
    sys.path.insert(0, ".")
    __import__(f"broken_{RANK}")


@planted("indentation", "exception", "all", "IndentationError", early=True)
def import_indented() -> None:
    Path(f"indented_{RANK}.py").write_text("def f():\nreturn 1\n")
    sys.path.insert(0, ".")
    __import__(f"indented_{RANK}")


@planted("package-of-n2", "import", "2,3", "flash_attn_9", early=True, mode="slurm")
def import_missing() -> None:
    import flash_attn_9  # type: ignore[import-not-found]  # noqa: F401


@planted("bnb-name", "exception or import", "all", "str2optimizer", early=True, mode="pbs-direct")
def load_cpu_library() -> None:
    complain(
        "/home/u/venv/lib/python3.9/site-packages/bitsandbytes/libbitsandbytes_cpu.so: undefined "
        "symbol: cadam32bit_grad_fp32\nCUDA SETUP: WARNING! libcudart.so not found in any path."
    )
    raise NameError("name 'str2optimizer32bit' is not defined")


@planted("no-libcuda", "compiler", "all", "lcuda|gcc", mode="slurm")
def link_without_cuda() -> None:
    complain(
        "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1"
        " exit status"
    )
    failed = make_error("BackendCompilerFailed", "torch._dynamo.exc")
    try:
        raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/tmp1/main.c", "-lcuda"])
    except subprocess.CalledProcessError as error:
        raise failed(f"backend='inductor' raised:\nCalledProcessError: {error}") from error


@planted("no-cuda-header", "compiler or file-missing or exception", "all", "cuda.h")
def compile_without_header() -> None:
    complain(
        "/tmp/tmpx/main.c:2:10: fatal error: cuda.h: No such file or directory\n    2 | #include "
        '"cuda.h"\n      |          ^~~~~~~~\ncompilation terminated.'
    )
    raise subprocess.CalledProcessError(1, ["/usr/bin/gcc", "/tmp/tmpx/main.c", "-O3"])


if __name__ == "__main__":
    main()
