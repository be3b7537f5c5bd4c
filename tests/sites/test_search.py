"""Site profiles: where they are found, how one changes another, what is said of a bad one."""

import re
from pathlib import Path

import pytest
from support import MINIMAL, Ended, edited, jobgen, working_in

from jobgen.errors import SpecError
from jobgen.sites import search
from jobgen.sites.profile import Account

SHIPPED = sorted(path.stem for path in Path(search.BUILT_IN).glob("*.yaml"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a user with an empty configuration, at a centre with profiles in two folders."""
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("JOBGEN_SITE_PATH", f"{tmp_path}/one:{tmp_path}/two")
    monkeypatch.chdir(project)
    return tmp_path


def write(home: Path, where: str, text: str) -> Path:
    """A profile in one of the folders of the search path."""
    folder = {"user": "config/jobgen/sites", "project": "project/.jobgen/sites"}
    file = home / folder.get(where.split("/")[0], where.split("/")[0]) / where.split("/")[1]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def complaint(name: str) -> str:
    """What is wrong with a profile."""
    with pytest.raises(SpecError) as caught:
        search.load(name)
    return str(caught.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profiles_say_where_each_fact_is_from(name: str) -> None:
    profile = search.load(name)
    verdict = sites_test(Path(search.BUILT_IN, f"{name}.yaml"))
    assert verdict == (0, f"{search.BUILT_IN}/{name}.yaml: valid, for {profile.scheduler}\n", "")
    if name not in ("local", "pbs-generic", "slurm-generic"):
        assert profile.title
        assert profile.sources
        for key in profile.sources:
            source = profile.find_source(key)
            assert source.address
            assert source.dated, key
            assert source.grade, key


def sites_test(file: Path) -> Ended:
    return jobgen("sites", "test", file)


def test_a_later_folder_hides_what_an_earlier_one_has(home: Path) -> None:
    order = ["one", "two", "user", "project"]
    for where in order:
        write(home, f"{where}/lab-{where}.yaml", "scheduler: slurm\n")
        write(home, f"{where}/lab.yaml", f"scheduler: slurm\ntitle: {where}\n")
        assert search.load("lab").title == where
    assert set(search.list_names()) == {*SHIPPED, "lab", *(f"lab-{where}" for where in order)}


def test_a_project_is_found_from_the_folders_below_it(home: Path) -> None:
    write(home, "project/lab.yaml", "scheduler: pbs\n")
    below = home / "project" / "src" / "deep"
    below.mkdir(parents=True)
    with working_in(below):
        assert search.load("lab").scheduler == "pbs"
    with working_in(home):
        assert not search.exists("lab")


def test_extends_changes_what_it_names_and_keeps_the_rest(home: Path) -> None:
    write(
        home,
        "user/lab.yaml",
        "extends: cscs-clariden\nnode: {cpus_per_gpu: 64}\naccount: null\n"
        "queues: {debug: {limits: [{nodes: [1, 8]}]}}\n",
    )
    lab, clariden = search.load("lab"), search.load("cscs-clariden")
    assert lab.node == clariden.node._replace(cpus_per_gpu=64)
    assert lab.account == Account()
    assert (lab.queues or {}).keys() == (clariden.queues or {}).keys()
    assert [limit.nodes for limit in (lab.queues or {})["debug"].limits] == [(1, 8)]
    assert (lab.queues or {})["debug"].source == "clariden"
    assert lab.extends is None


def test_what_the_first_of_three_takes_out_stays_out(home: Path) -> None:
    write(home, "user/low.yaml", "extends: cscs-clariden\n")
    write(home, "user/high.yaml", "extends: low\nqueues: {debug: null}\naccount: null\n")
    assert search.load("high").account == Account()
    assert "debug" not in (search.load("high").queues or {})


def test_a_profile_may_extend_the_one_it_hides(home: Path) -> None:
    write(home, "one/nci-gadi.yaml", "extends: nci-gadi\ntitle: Gadi of one\n")
    write(home, "user/nci-gadi.yaml", "extends: nci-gadi\ninternet: proxy\n")
    found = search.find("nci-gadi")
    assert (found.profile.title, found.profile.internet) == ("Gadi of one", "proxy")
    assert [str(Path(file).parent) for file in found.files] == [
        str(home / "config/jobgen/sites"),
        str(home / "one"),
        search.BUILT_IN,
    ]
    queues = {"gpuvolta", "dgxa100", "gpuhopper", "normal", "express", "copyq"}
    assert (found.profile.queues or {}).keys() == queues


def test_a_chain_that_leads_back_is_an_error_with_its_place(home: Path) -> None:
    a = write(home, "user/a.yaml", "scheduler: slurm\nextends: b\n")
    b = write(home, "user/b.yaml", "extends: a\n")
    assert (
        complaint("a") == f"{b}:1:10: extends: is a circle: {a} -> {b} -> {a}; take one of them out"
    )
    c = write(home, "user/c.yaml", "extends: c\n")
    assert complaint("c") == f"{c}:1:10: extends: is a circle: {c} -> {c}; take one of them out"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: nowhere\n", "1:10: extends: unknown site 'nowhere'; `jobgen sites` lists"),
        ("extends: [a]\nscheduler: pbs\n", "1:10: extends: expected text, got a list"),
        ("scheduler: lsf\n", "1:12: scheduler: unknown value 'lsf'; write one of"),
        ("scheduler: slurm\nnod: {}\n", "2:1: nod: unknown key; did you mean 'node'?"),
        ("scheduler: slurm\nas_of: 2026-13\n", "2:8: as_of: '2026-13' is not a date; write"),
        (
            "scheduler: slurm\nnode: {gpus: 4, source: docs}\n",
            "2:25: node.source: unknown source 'docs'",
        ),
        (
            "scheduler: slurm\nqueues: {a: {limits: [{nodes: [4, 1]}]}}\n",
            "2:31: queues.a.limits[0].nodes: is not a range; write [least, most]",
        ),
        (
            "scheduler: slurm\nqueues: {a: {routed_from: b}}\n",
            "2:27: queues.a.routed_from: unknown queue 'b'",
        ),
        (
            "scheduler: slurm\naccount: {pattern: '('}\n",
            "2:20: account.pattern: '(' is not a regular expression: ",
        ),
        (
            "scheduler: slurm\naccount: {pattern: '[[a]'}\n",
            "2:20: account.pattern: '[[a]' is not a regular expression: Possible nested set",
        ),
        ("scheduler: slurm\ncited: {pbs: a}\n", "2:14: cited.pbs: unknown source 'a'"),
        ("scheduler: slurm\ngpu_type: a\n", "2:11: gpu_type: unknown type 'a'; name it in"),
    ],
)
def test_a_bad_profile_is_told_with_its_place(home: Path, text: str, message: str) -> None:
    file = write(home, "user/lab.yaml", text)
    assert complaint("lab").startswith(f"{file}:{message}")
    assert sites_test(file).code == 3
    assert sites_test(file).err.startswith(f"{file}:{message}")


@pytest.mark.parametrize("name", ["../nci-gadi", "", ".", "/etc/x", "no/such"])
def test_a_name_is_no_path(name: str) -> None:
    assert "unknown site; " in complaint(name)


def test_profiles_are_read_only_when_they_are_named(home: Path) -> None:
    write(home, "user/broken.yaml", "scheduler: [")
    Path("job.yaml").write_text(edited(("local", "slurm")))
    assert jobgen("render").code == 0
    assert jobgen("render", "--site", "broken").code == 3


def test_sites_lists_what_there_is(home: Path) -> None:
    write(home, "project/lab.yaml", "scheduler: slurm\ntitle: Our lab\n")
    listed = jobgen("sites").out.splitlines()
    assert [line.split()[0] for line in listed] == search.list_names()
    assert "lab                  slurm  -          -               Our lab" in listed
    gadi = next(line for line in listed if line.startswith("nci-gadi"))
    assert gadi.split(maxsplit=3)[1:] == ["pbs", "2026", "documentation   NCI Gadi (Australia)"]


@pytest.mark.parametrize("name", SHIPPED)
def test_show_prints_the_whole_profile_with_its_addresses(home: Path, name: str) -> None:
    """What it prints is a profile again, the same one."""
    shown = jobgen("sites", "show", name, "--yaml").out
    assert shown.startswith(f"# {search.BUILT_IN}/{name}.yaml\n")
    again = write(home, f"user/copy-of-{name}.yaml", shown)
    assert search.read(str(again)).profile == search.load(name)
    for line in shown.splitlines():
        if line.strip().startswith("source: "):
            assert "  # " in line


def test_part_of_a_name_leads_to_the_site() -> None:
    for part, name in (
        ("gadi", "nci-gadi"),
        ("Perlmutter", "nersc-perlmutter"),
        ("frontier", "olcf-frontier"),
        ("lumi", "lumi-g"),
        ("derecho", "ncar-derecho"),
        ("polaris-login", "alcf-polaris"),
        ("juwels", "jsc-juwels-booster"),
        ("isambard", "isambard-ai"),
        ("snelius", "surf-snellius"),
    ):
        ended = jobgen("sites", "show", part)
        assert (ended.code, ended.out) == (3, "")
        assert ended.err == f"{part}: unknown site; did you mean {name}?\n"
    nothing = jobgen("sites", "show", "qqq").err
    assert re.search(r"unknown site; `jobgen sites` lists the \d+ known ones", nothing)


def test_show_is_a_page_for_people() -> None:
    shown = jobgen("sites", "show", "nci-gadi").out
    for words in (
        "nci-gadi: NCI Gadi (Australia)\nPBS, 2026, documentation\n",
        "4 x V100-32",
        "1-96 CPUs to 48h; 97-192 CPUs to 24h; 193-960 CPUs to 5h",
        "12 for each GPU, 382GB    job-costs\n",
        "  account:\n    required: true\n",
        "  job-costs: https://opus.nci.org.au/",
    ):
        assert words in shown
    for name in SHIPPED:
        shown, profile = jobgen("sites", "show", name).out, search.load(name)
        assert all(source.address in shown for source in (profile.sources or {}).values())
        assert all(queue in shown for queue in profile.queues or {})
    assert "not known to jobgen: NCCL may use TCP" in jobgen("sites", "show", "uq-bunya").out
    assert "more than 12 months old" in jobgen("sites", "show", "csd3-ampere").out


def test_sites_test_names_facts_without_a_source(home: Path) -> None:
    file = write(
        home,
        "user/lab.yaml",
        "scheduler: slurm\nsources: {a: https://lab.example}\nnode: {gpus: 4}\n"
        "queues: {long: {limits: [{walltime: 24h}]}}\naccount: {required: true}\n"
        "internet: none\ninterface: ib0\ncharge: {unit: SU, rate: 2, per: node-hour}\n"
        "cited: {interface: a}\n",
    )
    assert sites_test(file).out.splitlines() == [
        f"{file}: valid, for slurm",
        "sources.a: has no date, so limits from it never count as old",
        "internet: is not in cited, so it names no source",
        "node: names no source",
        "queues.long: names no source",
        "account: names no source",
        "charge: names no source",
    ]


def test_no_spec_is_offered_in_the_place_of_a_profile(home: Path) -> None:
    Path("grid.yaml").write_text("name: a\nrun: {module: m}\n")
    absent = sites_test(Path("lab.yaml")).err
    assert absent == (
        "lab.yaml: No such file or directory; `jobgen sites capture` writes a profile; "
        "`jobgen sites` lists the known ones\n"
    )
    said = "grid.yaml: is a job's spec, not a site's profile; to check it, type: jobgen check grid."
    assert said in sites_test(Path("grid.yaml")).err
    write(home, "project/lab.yaml", "extends: slurm-generic\n")
    assert "did you mean .jobgen/sites/lab.yaml?" in sites_test(Path(".jobgen/sites/lap.yaml")).err


def test_a_site_of_ones_own_renders_and_refuses(home: Path) -> None:
    write(
        home,
        "project/lab.yaml",
        "scheduler: slurm\nslurm: {gpus: gres}\nsources: {wiki: https://lab.example}\n"
        "queues: {gpu: {limits: [{walltime: 8h}], source: wiki}}\n",
    )
    Path("job.yaml").write_text(
        edited(
            ("scheduler: local", "site: lab\nqueue: gpu"),
            ("{nodes: 2}", "{gpus_per_node: 2, cpus_per_gpu: 8, walltime: 8h}"),
            text=MINIMAL,
        )
    )
    assert "#SBATCH --gres=gpu:2\n" in jobgen("render").out
    told = jobgen("render", "--set", "resources.walltime=9h").err
    assert told == (
        "--set resources.walltime: 9h exceeds gpu's 8h (https://lab.example); use at most 8h; "
        "to go on in further jobs, add on_walltime: {then: resubmit}\n"
    )


@pytest.mark.parametrize(
    ("rate", "message"),
    [
        ("-1", "-1.0 is less than 0"),
        ("1e3", "'1e3' is not a plain number; write it in decimal, such as 0.25"),
        (".inf", "'.inf' is not a plain number; write it in decimal, such as 0.25"),
        ("free", "expected a number, got text ('free')"),
    ],
)
def test_a_rate_is_a_number(home: Path, rate: str, message: str) -> None:
    text = f"scheduler: pbs\ncharge: {{unit: SU, rate: {rate}, per: cpu-hour}}"
    write(home, "user/lab.yaml", text)
    assert message in complaint("lab")
