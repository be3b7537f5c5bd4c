"""What jobgen renders, held against each site's own published example, difference by difference."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from golden import SITES, rendered
from support import EXAMPLES, ROOT, load, load_program

from jobgen.plan.plan import Plan
from jobgen.plan.resolve import resolve
from jobgen.sites import search

PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "published.yaml").read_text()
)
PORTABLE = next(path for path in EXAMPLES if path.stem == "portable").read_text()
# Fabrics on which the script has to set up NCCL's plugin; what a fault on GH200 asks for.
SLINGSHOT = {
    name for name in SITES if getattr(search.load(name).network, "fabric", "") == "slingshot"
}
GH200 = {"isambard-ai", "cscs-clariden", "olivia", "deltaai"}


def plan_for(site: str, *overrides: str) -> Plan:
    return resolve(load(PORTABLE, *SITES[site], *overrides), site=site, today="2026-11-22")


def find_differences(site: str, facts: dict[str, Any]) -> Iterator[str]:
    """Yield each fact of the example, by its name, that the script for the same job has not."""
    own = facts.get("spec", [])
    script, plan = rendered(site, *own), plan_for(site, *own)
    script = re.sub(r" \\\n *", " ", script)  # a command is one line, however it is wrapped
    lines = re.findall(r"^#(?:PBS|SBATCH) (.*)", script, re.MULTILINE)
    yield from (directive for directive in facts["directives"] if directive not in lines)
    yield from (fact for fact in facts.get("launch", []) if not re.search(fact, script))
    for name, value in facts.get("variables", {}).items():
        if plan.environment.variables.get(name) != str(value):
            yield name
    for key in ("devices", "numa_binding"):
        if key in facts:
            has = getattr(plan.launch, key, None)
            if (list(has) if isinstance(has, tuple) else has) != facts[key]:
                yield key


def test_every_difference_from_a_published_example_has_a_reason(subtests: pytest.Subtests) -> None:
    for site, facts in PUBLISHED.items():
        with subtests.test(site):
            assert set(find_differences(site, facts)) == set(facts.get("differs", {}))


def test_the_facts_say_where_and_when_they_were_read() -> None:
    assert len(PUBLISHED) >= 29
    assert all(facts["source"] and facts["date"] for facts in PUBLISHED.values())


def test_every_slingshot_site_uses_its_plugin_or_says_what_is_missing() -> None:
    """NCCL_NET makes a missing plugin fail at once; brics/nccl and Frontier's module set it."""
    assert len(SLINGSHOT) >= 10
    for site in SLINGSHOT:
        variables, network = plan_for(site).environment.variables, plan_for(site).defaults.network
        loads = site in ("isambard-ai", "alcf-aurora", "deltaai")  # by their modules
        assert loads or network or "NCCL_NET" in variables, site
        assert (f"# network: {network}\n" in rendered(site)) == bool(network), site


def test_gh200_on_slingshot_is_protected_from_wrong_sums() -> None:
    for site in GH200:
        assert plan_for(site).environment.variables["NCCL_PROTO"] == "^LL128", site


def test_each_site_says_which_queue_network_and_binding_a_job_gets() -> None:
    """The table of docs/reference/sites.md."""
    generate = load_program(ROOT / "docs" / "generate.py")
    for site in SITES:
        profile = search.load(site)
        words, address = generate.describe_queues(profile)
        if profile.verified is not None:
            assert words, site
            assert address, site
            known = generate.describe_network(profile) != "not known"
            assert known == (profile.network is not None), site
    assert generate.describe_queues(search.load("nci-gadi"))[0] == "gpuvolta, dgxa100, gpuhopper"
    assert generate.describe_binding(search.load("alcf-polaris")) == (
        "GPUs 3,2,1,0; --depth=8 --cpu-bind depth"
    )
    assert "--numa-binding=exclusive" in generate.describe_binding(search.load("lumi-g"))
