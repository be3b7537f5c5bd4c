"""What the runtime notes of a node's use: called without a script around it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from support import ROOT

from jobgen.jobs.usage import GpuSample, read_last_samples

BESIDE = ROOT / "templates" / "runtime" / "beside.sh"
USAGE = ROOT / "templates" / "runtime" / "features" / "usage.sh"
HOLD = """
import time
held = bytearray(300 << 20)
end = time.process_time() + 1.5
while time.process_time() < end:
    pass
time.sleep(60)
"""
NVIDIA = """\
#!/bin/sh
echo "$*" >{folder}/asked
echo '97, 40123, 81559, 402.11'
echo '[N/A], 512, 81559, [Not Supported]'
"""
# As rocm-smi 6 prints it, after an empty line.
ROCM = """\
#!/bin/sh
echo
printf 'device,Average Graphics Package Power (W),GPU use (%%),'
echo 'VRAM Total Memory (B),VRAM Total Used Memory (B)'
echo 'card0,90.0,12,68702699520,10850304'
echo 'card1,N/A,0,68702699520,0'
echo
"""


def command(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text.replace("{folder}", str(folder)))
    (folder / name).chmod(0o755)


def bash(text: str, *arguments: object, **variables: str) -> str:
    """What a program prints that has the functions at hand."""
    script = f"set -euo pipefail\n. {USAGE}\n{text}"
    done = subprocess.run(
        ["bash", "-c", script, "bash", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | variables,
    )
    return done.stdout


def gpus(folder: Path, **variables: str) -> tuple[GpuSample, ...]:
    """What Python reads of what the node's tool says."""
    text = bash("list_gpus", PATH=f"{folder}:{os.environ['PATH']}", **variables)
    line = {"time": 1, "cpu_s": 1, "memory": 1, "gpus": text}
    (folder / "usage").mkdir()
    (folder / "usage" / "n1.jsonl").write_text(json.dumps(line) + "\n")
    return read_last_samples(folder, "n1")[0].gpus


def test_gpus_as_nvidia_smi_tells_of_them(tmp_path: Path) -> None:
    command(tmp_path, "nvidia-smi", NVIDIA)
    assert gpus(tmp_path, CUDA_VISIBLE_DEVICES="2,3") == (
        GpuSample(use=97, memory=40123 << 20, total=81559 << 20, power=402.11),
        GpuSample(use=None, memory=512 << 20, total=81559 << 20, power=None),
    )
    assert (tmp_path / "asked").read_text().startswith("-i 2,3 --query-gpu=")


def test_gpus_as_rocm_smi_tells_of_them(tmp_path: Path) -> None:
    command(tmp_path, "rocm-smi", ROCM)
    assert gpus(tmp_path) == (
        GpuSample(use=12, memory=10850304, total=68702699520, power=90),
        GpuSample(use=0, memory=0, total=68702699520, power=None),
    )


def test_the_processes_of_the_job_on_this_node_are_counted_until_it_ends(tmp_path: Path) -> None:
    own = {"JOBGEN_RUN_DIR": str(tmp_path), "JOBGEN_NODE": "n1"}
    started = [
        subprocess.Popen([sys.executable, "-c", HOLD], env=os.environ | own | changes)
        for changes in ({}, {"JOBGEN_NODE": "n2"}, {"JOBGEN_RUN_DIR": "/elsewhere"})
    ]
    try:
        watch = [
            "bash",
            "-c",
            f". {BESIDE}; . {USAGE}; note_usage {started[0].pid} {tmp_path} n1 3",
        ]
        noting = subprocess.Popen(watch)
        file = tmp_path / "usage" / "n1.jsonl"
        end = time.monotonic() + 60
        while not file.exists() or file.read_text().count("\n") < 2:
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert noting.wait(20) == 0
    last = json.loads(file.read_text().splitlines()[1])
    assert (last["attempt"], last["processes"], last["gpus"]) == (3, 1, "")
    assert 300 << 20 <= last["memory"] <= 400 << 20
    assert last["most"] >= last["memory"]
    assert 0.05 <= last["cpu_s"] <= 30
    assert abs(last["time"] - time.time()) < 120
    assert not (tmp_path / "usage" / "n2.jsonl").exists()
