"""Every key about hardware is in the script's directives, named as left out, or refused."""

from pathlib import Path

import pytest
import yaml
from support import jobgen, working_in

from jobgen.spec.model import Resources

GIVEN = {"nodes": 2, "gpus_per_node": 4, "walltime": "1h"}
OTHER: dict[str, object] = {
    "nodes": 3,
    "gpus_per_node": 2,
    "gpu_type": "a100",
    "cpus_per_gpu": 8,
    "cpus_per_node": 32,
    "memory_per_node": "100GB",
    "disk_per_node": "50GB",
    "constraint": "ib=hdr",
    "spare_nodes": 1,
    "exclusive": True,
    "walltime": "2h",
}


def test_the_table_has_every_key() -> None:
    assert set(OTHER) == set(Resources._fields)


@pytest.mark.parametrize("scheduler", ["slurm", "pbs", "local"])
@pytest.mark.parametrize("key", OTHER)
def test_a_key_of_resources_is_never_dropped_in_silence(
    key: str, scheduler: str, tmp_path: Path
) -> None:
    with_key = _render({key: OTHER[key]}, scheduler, tmp_path)
    without = _render({}, scheduler, tmp_path)
    added = [line for line in with_key if line not in without]
    assert added, f"{key} on {scheduler}"


def _render(resources: dict[str, object], scheduler: str, folder: Path) -> list[str]:
    """The lines of a script, but for the one with the digest of its spec."""
    job = {"name": "a", "run": {"module": "m"}, "on_failure": {"then": "restart"}}
    (folder / "job.yaml").write_text(yaml.safe_dump(job | {"resources": GIVEN | resources}))
    with working_in(folder):
        done = jobgen("render", "--scheduler", scheduler)
    assert done.code == 0, done.err
    return [line for line in done.out.splitlines() if not line.startswith("# jobgen: {")]
