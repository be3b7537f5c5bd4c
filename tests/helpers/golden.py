"""What examples/portable.yaml becomes on each site that jobgen ships.

Run as a program, this rewrites those of tests/scripts/golden: of each script the part that is
the site's, as the runtime below it is the same everywhere.
"""

from pathlib import Path

from support import ROOT, jobgen

from jobgen import schedulers
from jobgen.rendering.runtime import split_script
from jobgen.sites import search

# What a site wants beside the example.
GPUS_1, GPUS_2, GPUS_8 = (f"resources.gpus_per_node={number}" for number in (1, 2, 8))
ONE_NODE, CPUS = "resources.nodes=1", "resources.cpus_per_gpu=8"
SITES: dict[str, list[str]] = {
    "local": [],
    "slurm-generic": [],
    "pbs-generic": [],
    "abci3": ["account=a", GPUS_8],
    "alcf-aurora": ["account=a", "filesystems=[flare]", "resources.gpus_per_node=12"],
    "alcf-polaris": ["account=a", "filesystems=[home, eagle]"],
    "alcf-sophia": ["account=a", "filesystems=[home, eagle]", GPUS_8],
    "alliance-fir": ["account=def-a"],
    "alliance-killarney": ["account=aip-a"],
    "alliance-narval": ["account=def-a"],
    "alliance-nibi": ["account=def-a"],
    "alliance-rorqual": ["account=def-a"],
    "alliance-tamia": ["account=aip-a"],
    "alliance-trillium-gpu": ["account=def-a"],
    "alliance-vulcan": ["account=aip-a"],
    "archer2-gpu": ["account=a"],
    "aws-parallelcluster": [GPUS_8],
    "bsc-mn5-acc": ["account=a", "queue=acc_ehpc"],
    "c3se-alvis": ["account=a", "resources.gpu_type=A100"],
    "cineca-leonardo": ["account=a"],
    "csc-roihu": ["account=project_1"],
    "cscs-clariden": ["account=a"],
    "csd3-ampere": ["account=a-GPU"],
    "deltaai": ["account=a-dtai-gh"],
    "imperial-cx3": [ONE_NODE, "resources.gpu_type=L40S", CPUS, "resources.memory_per_node=200GB"],
    "imperial-hx1": [ONE_NODE],
    "isambard-ai": [],
    "it4i-karolina": ["account=a", GPUS_8],
    "jean-zay": ["account=a", "resources.gpu_type=h100"],
    "jhu-dsai": ["resources.gpu_type=h100"],
    "jsc-jupiter": ["account=a"],
    "jsc-juwels-booster": ["account=a"],
    "lumi-g": ["account=project_1", GPUS_8],
    "metacentrum": [CPUS, "resources.memory_per_node=100GB", "resources.disk_per_node=100GB"],
    "miyabi-g": ["account=a", GPUS_1],
    "nas-cabeus": ["account=a", "resources.gpu_type=mil_a100"],
    "ncar-casper": ["account=a", "resources.gpu_type=h100"],
    "ncar-derecho": ["account=a"],
    "nci-gadi": [
        "account=ab12",
        "resources.gpu_type=v100",
        "resources.memory_per_node=380GB",
        "environment.venv=/g/data/ab12/venv",
        "run.args.data=/scratch/cd34/corpus.txt",
    ],
    "nersc-perlmutter": ["account=a"],
    "nscc-aspire2a": ["account=a"],
    "nscc-aspire2a-plus": ["account=a", GPUS_8],
    "olcf-frontier": ["account=a", GPUS_8],
    "olivia": ["account=nn1k"],
    "pawsey-setonix": ["account=a-gpu", GPUS_8],
    "reannz-mahuika": ["resources.gpu_type=a100", CPUS],
    "sigma2-betzy": ["account=nn1k"],
    "sigma2-saga": ["account=nn1k", "resources.gpu_type=a100"],
    "surf-snellius": ["resources.gpu_type=a100"],
    "tacc-horizon": [GPUS_2],
    "tacc-lonestar6": ["resources.gpu_type=a100", "resources.gpus_per_node=3"],
    "tacc-stampede3": [],
    "tacc-vista": [GPUS_1],
    "tud-capella": [],
    "unsw-katana": [],
    "uppmax-bianca": ["account=a", GPUS_2],
    "uppmax-pelle": ["account=a", "resources.gpu_type=l40s"],
    "uq-bunya": ["account=a_b", "resources.gpu_type=a100", GPUS_2, CPUS],
    "vsc-sofia": [GPUS_8],
    "cines-adastra": ["account=a"],
    "fasrc-kempner": ["account=a"],
    "gatech-phoenix": ["account=gts-a"],
    "gwdg-grete": [],
    "hlrs-hunter": ["account=a"],
    "kit-horeka": [],
    "lrz-ai": [],
    "mit-engaging": [ONE_NODE, GPUS_2],
    "ncsa-delta": ["account=a-delta-gpu"],
    "nsc-berzelius": ["account=berzelius-1"],
    "nyu-torch": ["account=torch_pr_1_a"],
    "psc-bridges2": [GPUS_8],
    "rwth-claix": [],
    "sdsc-expanse": ["account=a"],
    "uf-hipergator": [],
}
FOLDER = ROOT / "tests" / "scripts" / "golden" / "sites"
SUFFIX = {name: schedulers.SCHEDULERS[name].suffix for name in ("slurm", "pbs", "local")}


def golden(site: str) -> Path:
    """The file of a site's part of its script, which is no whole one for `jobgen check`."""
    return FOLDER / f"{site}{SUFFIX[search.load(site).scheduler]}.part1"


def rendered(site: str, *overrides: str) -> str:
    """What the command prints for it, with the few values that the site wants."""
    values = [*SITES[site], *overrides]
    options = [word for value in values for word in ("--set", value)]
    ended = jobgen("render", ROOT / "examples" / "portable.yaml", "--site", site, *options)
    assert ended.code == 0, ended.err
    return ended.out


def cut(script: str) -> str:
    """Part 1, which is the site's."""
    return split_script(script)[0]


if __name__ == "__main__":
    texts = {golden(site): cut(rendered(site)) for site in SITES}
    for path in set(FOLDER.iterdir()) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.write_text(text)
