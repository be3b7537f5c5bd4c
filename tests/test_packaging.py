"""What is built: it holds all it needs and no more, and renders as the checkout does."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from support import EXAMPLES, ROOT

from jobgen import __version__
from jobgen.plan.resolve import resolve
from jobgen.rendering.render import render
from jobgen.spec.load import load

pytestmark = pytest.mark.slow

NAME = f"jobgen-{__version__}"


def run(*argv: str | Path, **options: object) -> str:
    """What a command prints; it must succeed, and sees nothing of this checkout's environment."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PIP_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(hidden)}
    ended = subprocess.run(argv, env=environment, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return str(ended.stdout)


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="session")
def unpacked(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked: a checkout without git."""
    folder = tmp_path_factory.mktemp("unpacked")
    run("tar", "-xzf", dist / f"{NAME}.tar.gz", "-C", folder)
    return folder / NAME


def sources(folder: str) -> set[str]:
    """The files of a folder of the checkout, but what Python has compiled."""
    found = (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in found if "__pycache__" not in path.parts}


SHARE = {
    "man/man1/jobgen.1",
    *("jobgen/job.schema.json", "jobgen/site.schema.json", "jobgen/SKILL.md"),
}


def test_the_wheel_holds_the_package_with_its_templates_and_no_more(dist: Path) -> None:
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    data = f"{NAME}.data/data/share/"
    assert {name for name in names if ".data/" in name} == {data + name for name in SHARE}
    names = {name for name in names if ".data/" not in name}
    templates = {f"jobgen/{name}" for name in sources("templates")}
    names.discard("jobgen/commit")  # of a wheel that is built in a clone
    assert {name for name in names if ".dist-info/" not in name} == sources("jobgen") | templates
    info = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert {name for name in names if ".dist-info/" in name} == {
        f"{NAME}.dist-info/{name}" for name in info
    }


def test_the_sdist_holds_what_a_checkout_has(unpacked: Path) -> None:
    wanted = {
        *("jobgen", "templates", "tests", "examples", "benchmarks", "pyproject.toml"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
        *("constraints.txt", "SKILL.md", "CITATION.cff", ".github"),
        *(".gitignore", ".pre-commit-hooks.yaml", "PKG-INFO", "hatch_build.py", "docs"),
    }
    assert {path.name for path in unpacked.iterdir()} == wanted
    for folder in ("jobgen", "templates", "examples"):
        for name in sources(folder):
            assert (unpacked / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize("how", ["wheel", "sdist", "editable"])
def test_an_installed_jobgen_renders_as_the_checkout_does(
    how: str, dist: Path, unpacked: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    # Its libraries, and hatchling, are those of this Python: nothing is downloaded.
    site_packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
    Path(site_packages.strip(), "libraries.pth").write_text(sysconfig.get_path("purelib"))
    what = {
        "wheel": [dist / f"{NAME}-py3-none-any.whl"],
        "sdist": [dist / f"{NAME}.tar.gz"],
        "editable": ["--editable", unpacked],
    }[how]
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet"),
        *("--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed", *what),
        cwd=tmp_path,
    )
    where = Path(run(python, "-c", "import jobgen; print(jobgen.__file__)", cwd=tmp_path).strip())
    assert where.is_relative_to(unpacked if how == "editable" else tmp_path / "venv")
    for name in SHARE if how != "editable" else ():
        assert (tmp_path / "venv/share" / name).is_file()
    jobgen = tmp_path / "venv/bin/jobgen"
    assert run(jobgen, "--version").startswith(f"jobgen {__version__}")
    record = {"id": "7", "name": "a", "scheduler": "local", "folder": str(tmp_path)}
    (tmp_path / "runs/a/7").mkdir(parents=True)
    (tmp_path / "runs/a/7/job.json").write_text(
        json.dumps(record | {"submitted": 0.0, "argv": [], "pid": None, "started": 1})
    )
    assert run(jobgen, "report", "7", "-o", "-", cwd=tmp_path).endswith("</html>\n")
    for path in EXAMPLES:
        site = "isambard-ai" if path.stem == "portable" else None  # it names none itself
        here = render(resolve(load(str(path)), site=site))
        asked = ["--site", site] if site else []
        assert run(jobgen, "render", path, *asked, cwd=tmp_path) == here


def test_compiled_templates_are_the_users_own_files(tmp_path: Path) -> None:
    """So that uninstalling jobgen leaves nothing in site-packages; and nobody else's are run."""
    (tmp_path / "job.yaml").write_text(
        "name: a\nscheduler: slurm\nresources: {}\nrun: {module: m}\n"
    )
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "jobgen", "render"]
    first = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    folder = tmp_path / "cache" / "jobgen" / "scripts"
    files = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert files
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in files:
        path.write_bytes(b"not a template")
    folder.chmod(0o777)  # others might have written there
    again = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    assert again.stdout == first.stdout
    assert {path.read_bytes() for path in files} == {b"not a template"}
