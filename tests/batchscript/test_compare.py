"""`jobgen import --run-check`: a script beside the one that its spec renders."""

import json
from pathlib import Path

import pytest
from support import jobgen

from jobgen.batchscript.convert import import_script
from jobgen.batchscript.convert.compare import compare_scripts
from jobgen.batchscript.reader import Script

TEXT = """\
#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=4 --cpus-per-task=32 --mem=180G
#SBATCH --time=2:00:00
export NCCL_DEBUG=WARN
LR=3e-4
srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d train.py --lr $LR
"""


def verdicts(text: str) -> dict[str, tuple[str, str, str]]:
    """Each thing with what both scripts say of it, and whether that is the same."""
    script = Script("job.sbatch", text)
    rows = compare_scripts(script, import_script(script).yaml)
    return {row.what: (row.script, row.rendered, row.verdict) for row in rows}


def test_all_that_a_job_asks_for_and_runs_is_compared() -> None:
    assert verdicts(TEXT) == {
        "nodes": ("2", "2", "same"),
        "processes": ("8", "8", "same"),
        "GPUs of a node": ("4", "4", "same"),
        "memory of a node": ("180GB", "180GB", "same"),
        "walltime": ("02:00:00", "02:00:00", "same"),
        "variables": ("NCCL_DEBUG", "NCCL_DEBUG", "same"),
        "program": ("python3 train.py", "python3 train.py", "same"),
        "arguments": ("--lr 3e-4", "--lr 3e-4", "same"),
    }


@pytest.mark.parametrize(
    ("launch", "processes"),
    [
        ("srun python train.py", ("2", "2", "same")),
        ("srun --ntasks-per-node=4 python train.py", ("8", "8", "same")),
        ("mpiexec -n 8 --ppn 4 python train.py", ("8", "8", "same")),
    ],
)
def test_processes_are_counted_as_launchers_start_them(
    launch: str, processes: tuple[str, str, str]
) -> None:
    text = f"#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=4\n{launch}\n"
    assert verdicts(text)["processes"] == processes


def test_what_differs_is_told(tmp_path: Path) -> None:
    """The script trains on its first node alone; the spec's job on both."""
    path = tmp_path / "a.sbatch"
    path.write_text("#!/bin/bash\n#SBATCH --nodes=2\nexport A=1 MASTER_PORT=4\npython train.py\n")
    code, out, err = jobgen("import", "--run-check", path)
    rows = {line[:17].strip(): line.split()[-1] for line in out.splitlines()}
    assert (code, rows["nodes"], rows["processes"]) == (9, "same", "different")
    assert "the script runs it on the first node alone, the spec on all 2" in err
    assert json.loads(jobgen("import", "--run-check", "--json", path).out)["compared"][1] == {
        "what": "processes",
        "script": "1",
        "rendered": "2",
        "verdict": "different",
    }


def test_what_only_one_of_them_has(tmp_path: Path) -> None:
    text = TEXT.replace("srun torchrun", "export MASTER_PORT=29500\nsrun torchrun")
    script = Script("job.sbatch", text)
    yaml = import_script(script).yaml.replace('memory_per_node: "180GB"', "exclusive: true")
    rows = {row.what: row.verdict for row in compare_scripts(script, yaml)}
    assert rows["memory of a node"] == "only in the script"
    bare = Script("job.sbatch", text.replace(" --mem=180G", ""))
    rows = {row.what: row.verdict for row in compare_scripts(bare, import_script(script).yaml)}
    assert rows["memory of a node"] == "only in the rendered one"
