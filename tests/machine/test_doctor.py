"""`jobgen doctor`: what it looks at on a machine, what it makes of it, and how long it takes."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from cluster_fixtures import PATIENCE, Cluster, Pbs, Slurm
from saved_clusters import ACCOUNTS, program, replayed, saved
from support import jobgen, working_in

from jobgen.errors import RefusedError
from jobgen.machine import checks as folder
from jobgen.machine.checks import (
    Check,
    check_folder,
    compare_clocks,
    find_file_system,
    format_checks,
)
from jobgen.machine.cluster import detect_scheduler, recognise
from jobgen.schedulers import SCHEDULERS

JOB = """\
name: a
scheduler: slurm
queue: gpu
resources: {nodes: 2, gpus_per_node: 4, cpus_per_gpu: 8}
environment: {venv: venv}
run: {script: train.py}
"""
Checks = dict[str, dict[str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user in a folder with a job, its script, and a Python that has a torch at once."""
    work = tmp_path / "work"
    (work / ".git").mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("JOBGEN_SITE_PATH", "CC_CLUSTER", "NERSC_HOST", "LMOD_SYSTEM_NAME"):
        monkeypatch.delenv(name, raising=False)
    # A busy machine may need more than a few seconds for what the saved commands print.
    monkeypatch.setattr("jobgen.machine.doctor.SECONDS", PATIENCE)
    monkeypatch.setattr("jobgen.machine.checks._SECONDS_APART", PATIENCE)
    Path("job.yaml").write_text(JOB)
    Path("train.py").write_text("from accelerate import Accelerator\n\nAccelerator()\n")
    program(Path("venv/bin/activate"), "")
    program(Path("venv/bin/python3"), "echo 2.13.0")
    return tmp_path


def doctor(cluster: Path, home: Path, patch: pytest.MonkeyPatch, *words: str) -> tuple[int, Checks]:
    """Its exit code and its checks."""
    with replayed(cluster, home, patch):
        ended = jobgen("doctor", "--json", *words)
    assert ended.out, ended.err
    return ended.code, {check["what"]: check for check in json.loads(ended.out)["checks"]}


def test_a_cluster_that_is_ready(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = doctor(saved(home), home, monkeypatch, "job.yaml")
    assert code == 0
    assert list(checks) == [
        *("scheduler", "scheduler's clock", "site", "queue", "account", "torch"),
        *("shared folder", "space", "inodes", "file system's clock", "script", "venv"),
    ]
    for name in ("scheduler", "scheduler's clock", "queue", "torch", "script", "venv"):
        assert checks[name]["verdict"] == "ok", checks[name]
    assert checks["scheduler"]["message"] == "Slurm 20.11.9, 6 queues of the cluster mixed"
    assert checks["queue"]["message"] == "gpu exists"
    assert checks["torch"]["message"].startswith("2.13.0, imported by ")
    assert checks["site"]["verdict"] == "unknown"
    assert checks["site"]["message"].startswith("no site profile matches this machine, ")
    assert checks["account"]["verdict"] == "unknown"  # there is no accounting to ask
    assert list(doctor(saved(home), home, monkeypatch)[1]) == list(checks)  # it finds job.yaml


def test_each_fault_is_told_with_what_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = JOB.replace("queue: gpu", "queue: gpus").replace("venv: venv", "venv: $HOME/no/venv")
    Path("job.yaml").write_text(text.replace("train.py", "$NOT_SET_HERE/train.py"))
    code, checks = doctor(saved(home), home, monkeypatch, "job.yaml")
    assert code == 8
    assert checks["queue"]["message"] == "gpus does not exist"
    assert checks["queue"]["remedy"] == "write queue: one of gpu, large, mig, cpu, empty, admin"
    assert checks["venv"]["message"] == f"{os.environ['HOME']}/no/venv does not exist"
    assert checks["script"]["verdict"] == "unknown"
    assert "$NOT_SET_HERE is not set here" in checks["script"]["message"]
    assert "torch" not in checks  # what is wrong is said of the venv
    failed = [check for check in checks.values() if check["verdict"] == "fail"]
    assert len(failed) == 2
    assert all(check["remedy"] for check in failed)


@pytest.mark.parametrize(
    ("name", "change", "key", "message"),
    [
        (
            "slurm-mixed",
            ("node: 4", "node: 64"),
            "gpus_per_node",
            "64 GPUs, more than the 4 of a node (",
        ),
        (
            "slurm-mixed",
            ("nodes: 2", "nodes: 900"),
            "nodes",
            "900 nodes with 4 GPUs each; only 4 have",
        ),
        ("slurm-mixed", ("nodes: 2", "walltime: 90h"), "walltime", "90h exceeds gpu's 48h "),
        (
            "openpbs",
            ("node: 4", "node: 64"),
            "gpus_per_node",
            "64 GPUs, more than the 4 of a node (",
        ),
        (
            "openpbs",
            ("nodes: 2", "nodes: 9"),
            "nodes",
            "9 nodes with 4 GPUs each; only 2 have that",
        ),
    ],
)
def test_what_the_cluster_does_not_have_is_told(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: tuple[str, str],
    key: str,
    message: str,
) -> None:
    kind = "pbs" if name == "openpbs" else "slurm"
    Path("job.yaml").write_text(JOB.replace(*change).replace("slurm", kind))
    code, checks = doctor(saved(home, name), home, monkeypatch)
    assert code == 0
    check = checks[f"resources.{key}"]
    assert check["message"].startswith(message)
    assert "captured" not in check["message"]
    assert check["remedy"].startswith("use at most ")


def test_a_pbs_job_has_the_path_of_a_login_shell(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "login/python3", "echo no torch >&2; exit 1")
    (home / ".bash_profile").write_text(f"echo hello\nPATH={home}/login:$PATH\n")
    monkeypatch.setenv("HOME", str(home))
    text = JOB.replace("environment: {venv: venv}\n", "")
    Path("job.yaml").write_text(text.replace("slurm", "pbs"))
    torch = doctor(saved(home, "openpbs"), home, monkeypatch)[1]["torch"]
    assert (
        torch["message"]
        == f"{home}/login/python3: {home}/login/python3 failed with exit code 1: no torch"
    )
    assert torch["remedy"].startswith("a PBS job does not have your PATH; name an environment that")


def test_a_file_that_is_not_there_is_told_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("job.yaml").write_text(
        JOB.replace("train.py", "none.py").replace("venv: venv", "venv: no")
    )
    with replayed(saved(home), home, monkeypatch):
        told = jobgen("doctor").out
    assert told.count("none.py does not exist") == 1
    assert told.count("is not here") == 0
    Path("no").mkdir()
    with replayed(saved(home), home, monkeypatch):
        told = jobgen("doctor").out
    assert (told.count("no has no bin/activate"), told.count("does not exist")) == (1, 1)


def test_what_a_spec_is_refused_for_is_one_of_the_checks(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open("job.yaml", "a") as file:
        file.write("on_walltime: {}\n")
    code, checks = doctor(saved(home), home, monkeypatch)
    assert (code, checks["queue"]["verdict"], checks["spec"]["verdict"]) == (8, "ok", "fail")
    assert "on_walltime: " in checks["spec"]["message"]


@pytest.mark.parametrize(
    ("account", "enforced", "verdict", "message"),
    [
        ("physics", True, "ok", "you can charge physics"),
        (
            None,
            True,
            "ok",
            "not given, so the job charges your default; your accounts are ml, physics",
        ),
        ("chemistry", True, "fail", "you cannot charge chemistry; your accounts are ml, physics"),
        # Slurm takes any account without a word where associations are not enforced.
        ("chemistry", False, "warn", "you cannot charge chemistry; your accounts are ml, physics"),
    ],
)
def test_slurm_tells_whose_accounts_there_are(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    account: str | None,
    enforced: bool,
    verdict: str,
    message: str,
) -> None:
    cluster = saved(home, **{ACCOUNTS: "ml|physics\nml|ml\n"})
    if not enforced:
        config = cluster / "scontrol-show-config"
        config.write_text(config.read_text().replace("associations,limits,qos", "none"))
    Path("job.yaml").write_text(JOB + (f"account: {account}\n" if account else ""))
    code, checks = doctor(cluster, home, monkeypatch, "job.yaml")
    assert (checks["account"]["verdict"], checks["account"]["message"]) == (verdict, message)
    assert code == (8 if verdict == "fail" else 0)


def test_a_site_whose_jobs_need_an_account_is_not_ready_without_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Path(".jobgen/sites/lab.yaml")
    profile.parent.mkdir(parents=True)
    profile.write_text("extends: slurm-generic\naccount: {required: true}\n")
    code, checks = doctor(saved(home), home, monkeypatch, "job.yaml", "--site", "lab")
    assert (code, checks["account"]["verdict"]) == (8, "fail")
    assert checks["account"]["message"] == "none given, and every job here needs one"


def test_a_cluster_without_accounting_is_called_so() -> None:
    def ask(argv: Sequence[str]) -> str:
        if argv[0] == "id":
            return "me\n"
        raise RefusedError("sacctmgr: You are not running a supported accounting_storage plugin")

    with pytest.raises(RefusedError, match=r"^this cluster has no accounting$"):
        SCHEDULERS["slurm"].cluster.list_accounts(ask)


def test_another_scheduler_than_the_jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, checks = doctor(saved(home, "openpbs"), home, monkeypatch, "job.yaml")
    assert code == 8
    assert checks["scheduler"]["message"] == "PBS 23.06.06 is here, the job is for slurm"
    code, checks = doctor(
        saved(home, "openpbs"), home, monkeypatch, "job.yaml", "--scheduler", "pbs"
    )
    assert checks["scheduler"]["message"] == "PBS 23.06.06, 4 queues of the cluster login"
    assert checks["queue"]["message"] == "gpu exists"
    assert checks["account"]["message"] == "none given; PBS does not list accounts"


def test_whether_pbs_keeps_ended_jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = saved(home, "openpbs")
    Path("job.yaml").unlink()
    _, checks = doctor(cluster, home, monkeypatch)
    assert checks["job history"]["message"] == "PBS keeps ended jobs"
    server = cluster / "qstat-B-f-F-json"  # without the line it is as PBS is installed
    server.write_text(re.sub(r',\s*"job_history_enable":.*', "", server.read_text()))
    _, checks = doctor(cluster, home, monkeypatch)
    message = checks["job history"]["message"]
    assert message.startswith("PBS forgets a job at its end (job_history_enable is unset)")


def test_a_queue_that_takes_or_starts_no_jobs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = saved(home, "openpbs")
    Path("job.yaml").write_text(JOB.replace("slurm", "pbs").replace("gpu\n", "workq\n"))
    _, checks = doctor(cluster, home, monkeypatch)
    assert checks["queue"]["verdict"] == "ok"
    queues = cluster / "qstat-Q-f-F-json"
    told = queues.read_text()
    for key, words in (("enabled", "takes no jobs"), ("started", "starts no jobs")):
        queues.write_text(re.sub(rf'("{key}":\s*)"True"', r'\1"False"', told))
        _, checks = doctor(cluster, home, monkeypatch)
        assert checks["queue"]["message"] == f"workq {words} ({key} = False)"
        assert checks["queue"]["verdict"] == "warn"


def test_a_scheduler_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = saved(home)
    (cluster / "scontrol--oneliner-show-partition").unlink()
    code, checks = doctor(cluster, home, monkeypatch)
    assert code == 8
    assert "Slurm 20.11.9 does not answer: scontrol failed" in checks["scheduler"]["message"]


def test_of_two_schedulers_that_are_down_the_job_s_own_is_told_of_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in SCHEDULERS.values():
        for name in each.cluster.PROGRAMS if each.can.batch else ():
            program(home / "bin" / name, 'echo "${0##*/} is down" >&2; exit 1')
    monkeypatch.setenv("PATH", f"{home}/bin:{os.defpath}")
    for wanted, command in (("pbs", "qstat"), ("slurm", "scontrol")):
        told = detect_scheduler(timeout=PATIENCE, wanted=wanted).silent
        assert [f"{command} is down" in words for words in told] == [True, False]


def test_a_machine_without_a_scheduler(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    os.rename("job.yaml", "other.yaml")
    plain = jobgen("doctor")
    assert plain.code == 0
    assert "warn     scheduler" in plain.out
    assert "-> go to a login node of the cluster, or load its module\n" in plain.out
    os.rename("other.yaml", "job.yaml")
    wanted = jobgen("doctor", "job.yaml")
    assert wanted.code == 8
    assert wanted.err == "not ready: scheduler\n"
    local = jobgen("doctor", "job.yaml", "--scheduler", "local")
    assert local.code == 0
    assert "scheduler" not in local.out


def test_whatever_hangs_it_ends_in_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(Path("venv/bin/python3"), "exec sleep 600")
    monkeypatch.setattr("jobgen.machine.doctor.SECONDS", 4.0)
    with monkeypatch.context() as patch:
        cluster = saved(home)
        begin = time.monotonic()
        with replayed(cluster, home, patch):
            for tool in ("scontrol", "hostname", "sacctmgr"):
                (home / "bin" / tool).unlink()
                program(home / "bin" / tool, f"exec {shutil.which('sleep', path=os.defpath)} 600")
            (home / "bin/sleep").symlink_to(str(shutil.which("sleep", path=os.defpath)))
            ended = jobgen("doctor", "job.yaml")
        took = time.monotonic() - begin
    assert took < 120  # 5 s, and what a busy machine adds; each of these would take ten minutes
    assert ended.code == 8
    assert "no scheduler answers here: scontrol did not answer" in ended.out
    assert re.search("did not import it within [0-4] s; .*, or this machine busy", ended.out)


def test_a_part_that_is_stuck_is_left_behind(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(*_: object, **__: object) -> Iterator[Check]:
        time.sleep(600)
        yield Check("never", "ok", "")

    monkeypatch.setattr("jobgen.machine.doctor.check_folder", stuck)
    monkeypatch.setattr("jobgen.machine.doctor.SECONDS", 0.3)
    begin = time.monotonic()
    ended = jobgen("doctor", "job.yaml", "--scheduler", "local")
    assert time.monotonic() - begin < 120
    assert "unknown  shared folder  no answer within 0.3 s" in ended.out


def test_a_fault_of_jobgens_own_is_not_swallowed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Iterator[Check]:
        raise ZeroDivisionError

    monkeypatch.setattr("jobgen.machine.doctor.check_folder", broken)
    with pytest.raises(ZeroDivisionError):
        jobgen("doctor", "job.yaml", "--scheduler", "local")


@pytest.mark.parametrize(
    ("text", "verdict", "message"),
    [
        ("echo no torch >&2; exit 1", "fail", "python3: no torch"),
        ("echo 2.1", "ok", "2.1, imported by "),
    ],
)
def test_torch_is_imported_where_the_job_will(
    home: Path, monkeypatch: pytest.MonkeyPatch, text: str, verdict: str, message: str
) -> None:
    program(Path("venv/bin/python3"), text)
    ended = jobgen("doctor", "--json", "job.yaml", "--scheduler", "local")
    (found,) = [check for check in json.loads(ended.out)["checks"] if check["what"] == "torch"]
    assert found["verdict"] == verdict
    assert message in found["message"] or message.removeprefix("python3: ") in found["message"]


def test_modules_are_not_loaded_here(home: Path) -> None:
    Path("job.yaml").write_text(JOB.replace("{venv: venv}", "{modules: [pytorch]}"))
    ended = jobgen("doctor", "job.yaml", "--json")
    (found,) = [check for check in json.loads(ended.out)["checks"] if check["what"] == "torch"]
    assert found["verdict"] == "unknown"
    assert found["message"] == "not tried: the job's modules are not loaded here"


@pytest.mark.parametrize(
    ("environment", "what", "where"),
    [
        ("{container: {image: torch.sif, runtime: apptainer}, venv: /in/it}", "image", "container"),
        ("{stage: torch.sif}", "archive", "archive"),
    ],
)
def test_what_is_in_a_container_or_archive_is_not_looked_for_here(
    home: Path, environment: str, what: str, where: str
) -> None:
    def checks() -> Checks:
        words = ("--json", "job.yaml", "--scheduler", "slurm")
        found = json.loads(jobgen("doctor", *words).out)["checks"]
        return {check["what"]: check for check in found}

    Path("job.yaml").write_text(JOB.replace("{venv: venv}", environment))
    assert checks()[what]["verdict"] == "fail"
    Path("torch.sif").write_text("")
    found = checks()
    assert found[what]["verdict"] == "ok"
    assert found["torch"]["message"] == f"not tried: it is in the job's {where}"
    assert "venv" not in found


def test_options_of_a_spec_need_one(home: Path) -> None:
    Path("job.yaml").unlink()
    ended = jobgen("doctor", "--site", "lumi-g")
    assert (ended.code, ended.out) == (2, "")
    assert jobgen("doctor", "no.yaml").code != 0


# --- the folder ------------------------------------------------------------------------

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
23 22 0:5 / /scratch rw shared:1 - lustre 10.0.0.1@o2ib:/scratch rw
24 22 0:6 / /home rw - nfs4 server:/home rw
25 24 0:7 / /home/my\\040data rw - fuse.sshfs a:/b rw
26 22 0:8 / /odd rw - strangefs x rw
27 22 0:9 / /scratch/tmp rw - tmpfs tmpfs rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other mounts than this machine's."""
    (tmp_path / "mountinfo").write_text(MOUNTS)
    real = open

    def opened(file: Any, *rest: Any, **more: Any) -> Any:
        return real(tmp_path / "mountinfo" if file == "/proc/self/mountinfo" else file, **more)

    monkeypatch.setattr(folder, "open", opened, raising=False)


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/scratch/ab12/me", ("/scratch", "lustre")),
        ("/scratchy", ("/", "ext4")),
        ("/home/me", ("/home", "nfs4")),
        ("/home/my data/x", ("/home/my data", "fuse.sshfs")),
        ("/scratch/tmp", ("/scratch/tmp", "tmpfs")),
    ],
)
def test_the_file_system_of_a_folder(path: str, found: tuple[str, str]) -> None:
    assert find_file_system(path) == found


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize(
    ("path", "several", "verdict", "message"),
    [
        ("/scratch/me", True, "ok", "of type lustre, which machines share; jobgen cannot tell"),
        ("/var/me", True, "warn", "of type ext4, a disk or memory of this machine"),
        ("/scratch/tmp/me", True, "warn", "of type tmpfs, a disk or memory of this machine"),
        ("/odd", True, "unknown", "of type strangefs, a type that jobgen does not know"),
        ("/var/me", False, "ok", "all nodes of a local job are here"),
    ],
)
def test_whether_it_is_shared(path: str, several: bool, verdict: str, message: str) -> None:
    found = folder._check_kind(path, several_machines=several)
    assert found.verdict == verdict
    assert message in found.message


@pytest.mark.parametrize(
    ("free", "files", "left", "verdicts"),
    [
        (10**9, 10**7, 10**6, ["ok", "ok"]),
        (10**5, 10**7, 5000, ["warn", "warn"]),
        (100, 10**7, 5, ["fail", "fail"]),
        (10**9, 0, 0, ["ok", "unknown"]),
    ],
)
def test_room_and_files_left(
    monkeypatch: pytest.MonkeyPatch, free: int, files: int, left: int, verdicts: list[str]
) -> None:
    answer = SimpleNamespace(f_bavail=free, f_frsize=4096, f_files=files, f_favail=left)
    monkeypatch.setattr(os, "statvfs", lambda _: answer)
    found = list(check_folder(".", several_machines=False))
    assert [check.verdict for check in found if check.what in ("space", "inodes")] == verdicts


@pytest.mark.parametrize(
    ("seconds", "verdict", "message"),
    [
        (3.0, "ok", "agrees with this machine's within 5 s"),
        (90.0, "warn", "90 s ahead of this machine's"),
        (-3600.0, "warn", "3,600 s behind this machine's"),
    ],
)
def test_clocks_that_differ(seconds: float, verdict: str, message: str) -> None:
    found = compare_clocks("server's", seconds)
    assert (found.what, found.verdict, found.message) == ("server's clock", verdict, message)


def test_a_clock_that_was_never_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 86400.0)
    (found,) = [c for c in check_folder(str(tmp_path), several_machines=False) if c.what == "clock"]
    assert (found.verdict, found.message[:30]) == ("fail", "this machine says it is 1970-0")


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = [c for c in check_folder("/proc", several_machines=False) if c.what == "writable"]
    assert found.verdict == "fail"
    assert found.message.startswith("cannot create a file in /proc: ")


# --- which site ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "environment", "names"),
    [
        ("gadi-login-03.gadi.nci.org.au", {}, ["nci-gadi"]),
        ("gadi.nci.org.au.example", {}, []),
        ("notgadi.nci.org.au", {}, []),
        ("login05", {"NERSC_HOST": "perlmutter"}, ["nersc-perlmutter"]),
        ("login05", {"NERSC_HOST": "muller"}, []),
        ("login1.frontier", {"LMOD_SYSTEM_NAME": "frontier"}, ["olcf-frontier"]),
        ("rorqual3", {"CC_CLUSTER": "rorqual"}, ["alliance-rorqual"]),
        ("polaris-login-02.hsn.cm.polaris.alcf.anl.gov", {}, ["alcf-polaris"]),
        ("derecho3.derecho.hpc.ucar.edu", {}, ["ncar-derecho"]),
        ("sophia-login-02", {}, ["alcf-sophia"]),
        ("alogin1", {"BSC_MACHINE": "mn5"}, ["bsc-mn5-acc"]),
        ("alvis1", {}, ["c3se-alvis"]),
        ("alvis1337.example", {}, []),
        ("holylogin06.rc.fas.harvard.edu", {}, ["fasrc-kempner"]),
        ("login-phoenix-3.pace.gatech.edu", {}, ["gatech-phoenix"]),
        ("login1.karolina.it4i.cz", {}, ["it4i-karolina"]),
        ("jean-zay3", {}, ["jean-zay"]),
        ("hkn1990.localdomain", {}, ["kit-horeka"]),
        ("setonix-05", {"PAWSEY_CLUSTER": "setonix"}, ["pawsey-setonix"]),
        ("int6.local.snellius.surf.nl", {}, ["surf-snellius"]),
        ("login1.capella.hpc.tu-dresden.de", {}, ["tud-capella"]),
        ("login12.ufhpc", {}, ["uf-hipergator"]),
        ("bunya2.rcc.uq.edu.au", {}, ["uq-bunya"]),
        ("login-1.SAGA", {}, ["sigma2-saga"]),
        ("sens2017625-bianca", {}, ["uppmax-bianca"]),
        ("pelle1.uppmax.uu.se", {}, ["uppmax-pelle"]),
        ("login-b.cx3.hpc.ic.ac.uk", {}, ["imperial-cx3"]),
        ("hx1-c11-4-3", {}, ["imperial-hx1"]),
        ("roihu-gpu-login1.csc.fi", {}, ["csc-roihu"]),
        ("clariden-ln001", {}, ["cscs-clariden"]),
        ("login-q-1", {}, ["csd3-ampere"]),
        ("skirit.ics.muni.cz", {}, ["metacentrum"]),
        ("miyabi-g3", {}, ["miyabi-g"]),
        ("asp2a-login-nus01", {}, ["nscc-aspire2a"]),
        ("dsailogin", {}, ["jhu-dsai"]),
        ("katana1.restech.unsw.edu.au", {}, ["unsw-katana"]),
        ("torch-login-b-1.hpc.nyu.edu", {}, ["nyu-torch"]),
        ("dt-login03.delta.ncsa.illinois.edu", {}, ["ncsa-delta"]),
        ("gh-login01.delta.ncsa.illinois.edu", {}, ["deltaai"]),
    ],
)
@pytest.mark.usefixtures("home")
def test_shipped_sites_know_their_machines(
    host: str, environment: dict[str, str], names: list[str]
) -> None:
    found = recognise(host=host, cluster=None, environment=environment)
    assert [site.name for site in found.sites] == names
    assert not found.unreadable


def test_a_captured_profile_knows_its_cluster_and_wins(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = saved(home)
    with replayed(cluster, home, monkeypatch):
        assert jobgen("sites", "capture", "--name", "zz-lab").code == 0
    own = home / "config/jobgen/sites"
    (own / "zz-gadi.yaml").write_text("extends: nci-gadi\n")
    code, checks = doctor(cluster, home, monkeypatch)
    assert code == 0
    assert checks["site"]["verdict"] == "ok"
    assert checks["site"]["message"] == "zz-lab, as its scheduler calls the cluster mixed"
    found = recognise(host="a.gadi.nci.org.au", cluster="mixed", environment={})
    assert [site.name for site in found.sites] == ["zz-gadi", "zz-lab", "nci-gadi"]
    (own / "broken.yaml").write_text("scheduler: [")
    _, checks = doctor(cluster, home, monkeypatch)
    assert checks["site"]["remedy"] == "jobgen sites show broken says why"


def test_a_job_for_another_site(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC_CLUSTER", "rorqual")
    words = ("job.yaml", "--site", "isambard-ai", "--no-limits", "--set", "scheduler=null")
    _, checks = doctor(saved(home), home, monkeypatch, *words)
    assert checks["site"]["verdict"] == "warn"
    assert checks["site"]["message"] == (
        "the job is for isambard-ai, this is alliance-rorqual, as $CC_CLUSTER is rorqual"
    )


def test_the_text_has_a_line_for_each_and_one_for_its_remedy() -> None:
    checks = [Check("a", "ok", "fine"), Check("longer", "fail", "bad", "mend it")]
    assert format_checks(checks) == (
        "ok    a       fine\nfail  longer  bad\n              -> mend it\n"
    )


# --- on clusters -----------------------------------------------------------------------


@pytest.fixture(params=["slurm", "pbs"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    found: Slurm | Pbs = request.getfixturevalue(request.param)
    return found


def test_a_live_cluster(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With time enough: on a busy machine not all answer in four seconds."""
    monkeypatch.setattr("jobgen.machine.doctor.SECONDS", PATIENCE)
    queue = {"slurm": "debug", "pbs": "workq"}[cluster.kind]
    job = {"name": "a", "scheduler": cluster.kind, "queue": queue, "run": {"module": "m"}}
    job |= {"resources": {"nodes": 2}, "environment": {"venv": "venv"}}
    program(tmp_path / "venv/bin/activate", "")
    program(tmp_path / "venv/bin/python3", "echo 2.13.0")
    (tmp_path / "job.yaml").write_text(json.dumps(job))

    def ask(*words: str) -> tuple[int, dict[str, dict[str, str]]]:
        """What is told of each thing."""
        with mock.patch.dict(os.environ, cluster.env, clear=True), working_in(tmp_path):
            ended = jobgen("doctor", "job.yaml", "--json", *words)
        return ended.code, {each["what"]: each for each in json.loads(ended.out)["checks"]}

    _, checks = ask()
    assert checks["queue"]["message"] == f"{queue} exists"
    assert checks["file system's clock"]["verdict"] == "ok"
    assert checks["venv"]["verdict"] == "ok"
    code, checks = ask("--set", "queue=no")
    assert code == 8
    assert (checks["queue"]["verdict"], checks["queue"]["message"]) == ("fail", "no does not exist")
