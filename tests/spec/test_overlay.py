"""What lies below a spec: the one it extends, the project's defaults, the user's own config."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from support import Ended, jobgen

from jobgen.spec import yaml_nodes
from jobgen.spec.json_schema import make_schema
from jobgen.spec.load import LoadedSpec, load
from jobgen.spec.model import JobSpec

BASE = """\
name: base
scheduler: slurm
queue: gpu
resources: {nodes: 2, walltime: 1h}
run: {module: m, args: {lr: 1, epochs: 3}}
environment: {modules: [a, b], variables: {A: 1}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, with an empty home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    """A file, in a folder that is made."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def of_user(text: str) -> None:
    """The user's config."""
    write("config/jobgen/config.yaml", text)


def where(loaded: LoadedSpec, path: str) -> str:
    """The place of a value."""
    return str(loaded.positions[path])


def test_a_spec_changes_what_it_extends() -> None:
    write("base.yaml", BASE)
    write(
        "job.yaml",
        "extends: base.yaml\nname: mine\nqueue: null\nresources: {nodes: 4}\n"
        "run: {args: {lr: 2, epochs: ~, seed: 5}}\nenvironment: {modules: [c]}\n",
    )
    loaded = load("job.yaml")
    spec = loaded.spec
    assert (spec.name, spec.queue, spec.scheduler) == ("mine", (), "slurm")
    assert (spec.resources.nodes, spec.resources.walltime) == (4, 3600)
    assert (spec.run.module, spec.run.args) == ("m", {"lr": "2", "seed": "5"})
    assert (spec.environment.modules, spec.environment.variables) == (("c",), {"A": "1"})
    assert where(loaded, "resources.walltime") == "base.yaml:4:33"
    assert where(loaded, "resources.nodes") == "job.yaml:4:20"
    assert where(loaded, "run.args.lr") == "job.yaml:5:18"


def test_a_chain_is_looked_for_from_each_files_own_folder() -> None:
    write("common/all.yaml", BASE)
    write("common/gpu.yaml", "extends: all.yaml\nresources: {gpus_per_node: 4}\n")
    write("jobs/job.yaml", "extends: ../common/gpu.yaml\nname: c\n")
    loaded = load("jobs/job.yaml")
    assert (loaded.spec.name, loaded.spec.resources.gpus_per_node) == ("c", 4)
    assert where(loaded, "queue") == "jobs/../common/all.yaml:3:8"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"job.yaml": "extends: job.yaml\n"}, "job.yaml:1:10: extends: is a circle: job"),
        (
            {"job.yaml": "extends: b.yaml\n", "b.yaml": "extends: ./job.yaml\n"},
            "b.yaml:1:10: extends: is a circle: job.yaml -> b.yaml -> ./job.yaml",
        ),
        ({"job.yaml": "extends: no.yaml\n"}, "job.yaml:1:10: extends: 'no.yaml' does not exist;"),
        ({"job.yaml": "extends: [a]\n"}, "job.yaml:1:10: extends: expected text, got a list"),
        (
            {"job.yaml": "extends: b.yaml\n", "b.yaml": BASE.replace("nodes: 2", "nodes: x")},
            "b.yaml:4:20: resources.nodes: expected a whole number",
        ),
        (
            {"job.yaml": "extends: b.yaml\n", "b.yaml": "a: [\n"},
            "a list that does not end",
        ),
        ({"job.yaml": "extends: b.yaml\n", "b.yaml": "queue: a\n"}, "job.yaml:1:1: name: is missi"),
        (
            {
                "job.yaml": "extends: b.yaml\nrun: {args: {lr: 2}}\n",
                "b.yaml": "run: {args: --lr 1 -v}\n",
            },
            "job.yaml:2:7: run.args: these keys would replace all of text ('--lr 1 -v') at b.yaml",
        ),
    ],
)
def test_what_cannot_be_extended(files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        write(name, text)
    code, out, err = jobgen("render")
    assert (code, out) == (3, "")
    assert message in err


@pytest.mark.parametrize(
    ("spec", "base", "said", "hint"),
    [
        ("job.yaml", "base.yaml", "../base.yaml", "did you mean base.yaml?"),
        ("jobs/job.yaml", "jobs/base.yaml", "jobs/base.yaml", "did you mean base.yaml?"),
        ("jobs/job.yaml", "base.yaml", "base.yaml", "did you mean ../base.yaml?"),
        ("jobs/job.yaml", "base.yaml", "../bsae.yaml", "did you mean ../base.yaml?"),
    ],
)
def test_a_base_that_lies_elsewhere_is_named(spec: str, base: str, said: str, hint: str) -> None:
    write(base, BASE)
    write(spec, f"extends: {said}\nname: mine\n")
    assert hint in jobgen("check", spec).err
    write(spec, f"extends: {hint.split()[-1].strip('?')}\nname: mine\n")
    assert jobgen("render", spec).code == 0


def test_what_an_alias_shares_is_changed_in_one_place_alone() -> None:
    write("b.yaml", BASE + "launch: &x {rendezvous: static}\n")
    write("base.yaml", "extends: b.yaml\nnotify: &n {on: [end]}\n")
    write("job.yaml", "extends: base.yaml\nenvironment: {variables: &v {B: 2}}\n")
    assert load("job.yaml").spec.environment.variables == {"A": "1", "B": "2"}
    assert load("b.yaml").spec.environment.variables == {"A": "1"}


TREES = st.recursive(
    st.none() | st.integers(0, 9),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), TREES, max_size=3)


def plain(node: yaml_nodes.Node) -> object:
    """A tree as data."""
    if isinstance(node, yaml_nodes.Mapping):
        return {key: plain(item) for key, item in node.items.items()}
    assert isinstance(node, yaml_nodes.Scalar)
    return None if node.kind == "null" else int(node.text)


def merged(lower: object, upper: object) -> object:
    """What merging means."""
    if not isinstance(upper, dict):
        return upper
    result = dict(lower) if isinstance(lower, dict) else {}
    for key, value in upper.items():
        result[key] = merged(result.get(key), value)
    return {key: value for key, value in result.items() if value is not None or key not in upper}


@given(MAPPINGS, MAPPINGS)
def test_merging(lower: dict[str, object], upper: dict[str, object]) -> None:
    below, above = (yaml_nodes.parse(json.dumps(tree), file="x") for tree in (lower, upper))
    found = yaml_nodes.merge(below, above)
    assert plain(found) == merged(lower, upper)
    assert found.keys.keys() >= found.items.keys()
    assert (plain(below), plain(above)) == (lower, upper)


def test_defaults_of_the_project_lie_below_the_spec_and_what_it_extends() -> None:
    write(".jobgen.yaml", "account: ours\nqueue: slow\nresources: {nodes: 8, walltime: 9h}\n")
    write("jobs/base.yaml", BASE)
    write("jobs/job.yaml", "extends: base.yaml\n")
    loaded = load("jobs/job.yaml")
    assert (loaded.spec.account, loaded.spec.queue) == ("ours", ("gpu",))
    assert (loaded.spec.resources.nodes, loaded.spec.resources.walltime) == (2, 3600)
    assert where(loaded, "account") == ".jobgen.yaml:1:10"
    # The same from wherever it is asked for, but not beyond the project.
    write("other/.git/x", "")
    write("other/job.yaml", BASE)
    assert load("other/job.yaml").spec.account is None


def test_a_stale_script_is_noticed_when_what_lies_below_has_changed() -> None:
    write(".jobgen.yaml", "account: ours\n")
    write("base.yaml", BASE)
    write("job.yaml", "extends: base.yaml\nname: mine\n")
    assert jobgen("render", "--out-dir", ".").code == 0
    assert jobgen("check", "job.yaml").code == 0
    for name, old, new in ((".jobgen.yaml", "ours", "other"), ("base.yaml", "gpu", "cpu")):
        text = Path(name).read_text()
        write(name, text.replace(old, new))
        ended = jobgen("check", "job.yaml")
        assert (ended.code, f"{new}\n" in ended.out) == (4, True)
        write(name, text)
    assert jobgen("check", "job.yaml").code == 0


def rendered(*words: str) -> Ended:
    """What `jobgen render` prints."""
    ended = jobgen("render", *words)
    assert ended.code == 0, ended.err
    return ended


def command(script: str) -> str:
    """The command in the header."""
    found = re.search("^# to render it again: (.*)", script, re.M)
    assert found
    return found[1]


def test_the_users_account_is_in_the_script_and_in_the_command_that_renders_it() -> None:
    write("job.yaml", BASE)
    without = rendered().out
    of_user("account: vp91\nnotify: {email: me@x.org, on: [end]}\nsite: nci-gadi\n")
    script = rendered("--out-dir", ".") and Path("job.sbatch").read_text()
    assert "#SBATCH --account=vp91\n" in script
    assert "#SBATCH --mail-user=me@x.org\n#SBATCH --mail-type=END\n" in script
    line = command(script)
    assert line == (
        "jobgen render job.yaml --set account=vp91"
        " --set notify.email=me@x.org --set 'notify.on=[end]'"
    )
    # Whoever checks it, and whoever renders it by that command, gets the same bytes.
    for other in ("account: theirs\n", "{}\n", None):
        if other is None:
            Path("config/jobgen/config.yaml").unlink()
        else:
            of_user(other)
        assert jobgen("check", "job.sbatch").code == 0
        again = ["--set", "account=vp91", "--set", "notify.email=me@x.org"]
        assert rendered(*again, "--set", "notify.on=[end]").out == script
    assert rendered().out == without


def test_what_the_spec_or_the_project_says_wins_over_the_user() -> None:
    of_user("account: mine\nnotify: {email: me@x.org}\nsite: lumi-g\n")
    write(".jobgen.yaml", "account: ours\n")
    write("job.yaml", BASE + "notify: {on: [fail]}\n")
    loaded = load("job.yaml", user=True)
    assert loaded.spec.account == "ours"
    assert loaded.spec.notify == ("me@x.org", ("fail",))
    assert loaded.spec.site is None  # the spec says the scheduler
    assert loaded.overrides == ("notify.email=me@x.org",)
    assert where(loaded, "notify.email").endswith("config/jobgen/config.yaml:2:17")
    assert load("job.yaml").overrides == ()
    said = load("job.yaml", ["notify=null", "account=x"], user=True)
    assert (said.spec.notify, said.spec.account) == (None, "x")


@pytest.mark.parametrize(
    ("words", "site"),
    [([], True), (["--scheduler", "slurm"], False), (["--site", "slurm-generic"], False)],
)
def test_the_users_site_is_for_specs_that_name_no_scheduler(words: list[str], site: bool) -> None:
    of_user("site: slurm-generic\n")
    write("job.yaml", BASE.replace("scheduler: slurm\n", ""))
    assert ("--set site=slurm-generic" in command(rendered(*words).out)) == site


def test_a_job_on_this_machine_needs_nothing_of_the_users() -> None:
    of_user("account: mine\nsite: lumi-g\n")
    write("job.yaml", BASE.replace("slurm", "local"))
    assert command(rendered().out) == "jobgen render job.yaml"
    assert "--set account=mine" in command(rendered("--scheduler", "pbs").out)


@pytest.mark.parametrize("account", ["'123'", "'true'", "a:b", "a@b"])
def test_an_account_that_looks_like_something_else(account: str) -> None:
    of_user(f"account: {account}\n")
    write("job.yaml", BASE)
    config = Path.cwd() / "config/jobgen/config.yaml"
    assert rendered("--out-dir", ".").err == f"read beside job.yaml: {config}\n"
    assert jobgen("check", "job.yaml").code == 0
    assert f"--account={account.strip(chr(39))}\n" in Path("job.sbatch").read_text()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("queue: gpu\n", "config.yaml:1:1: queue: unknown key; the choices are\n    site     The "),
        ("acount: a\n", "config.yaml:1:1: acount: unknown key; did you mean 'account'?"),
        ("notify: {}\n", "config.yaml:1:9: notify: has none of email and on"),
        ("account: [a]\n", "config.yaml:1:10: account: expected text, got a list"),
        ("- a\n", "config.yaml:1:1: holds a list, not keys and values"),
    ],
)
def test_a_users_config_that_is_wrong(config: str, message: str) -> None:
    of_user(config)
    write("job.yaml", BASE)
    code, out, err = jobgen("render")
    assert (code, out) == (3, "")
    assert message in err


def test_explain_names_the_file_of_each_value() -> None:
    of_user("account: mine\n")
    write(".jobgen.yaml", "queue: slow\n")
    write("base.yaml", BASE.replace("queue: gpu\n", ""))
    write("job.yaml", "extends: base.yaml\nresources: {nodes: 3}\n")
    found = json.loads(jobgen("explain", "--json", "--set", "resources.walltime=2h").out)
    origins = {
        item["what"].split()[1].split("=")[0]: item["origin"] for item in found["directives"]
    }
    assert origins["--partition"][0] == ".jobgen.yaml:1:8: queue"
    assert origins["--job-name"] == ["base.yaml:1:7: name"]
    assert origins["--nodes"] == ["job.yaml:2:20: resources.nodes"]
    assert origins["--time"] == ["--set resources.walltime"]
    assert origins["--account"][0].endswith("config/jobgen/config.yaml:1:10: account")


def test_an_editor_does_not_ask_for_what_the_base_says() -> None:
    validator = Draft7Validator(json.loads(make_schema(JobSpec, title="job")))
    assert validator.is_valid({"extends": "base.yaml", "run": {"args": {"lr": 1}}})
    assert not validator.is_valid({"extends": 1})
    assert validator.is_valid({"run": {"args": {"lr": 1}}, "name": "a", "resources": {}})
    assert not validator.is_valid({"extends": "b", "run": {"module": "a", "script": "b"}})


def test_a_number_sign_is_no_comment_on_a_command_line() -> None:
    text = "name: a\nscheduler: local\nresources: {}\nrun: {module: m, args: {tag: x}}\n"
    for written, read in (
        ('#1 "best"', '#1 "best"'),
        ("a #b", "a #b"),
        ("'a' # b", "a"),
        ("a#b", "a#b"),
    ):
        assert load(text, [f"run.args.tag={written}"]).spec.run.args == {"tag": read}
