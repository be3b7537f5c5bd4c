"""The page as files that any web server can host, each of them named with its digest."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jinja2

from jobgen.errors import UsageError
from jobgen.page.form import make_form
from jobgen.rendering.render import find_template_folder
from jobgen.sites import search

STATIC = Path(__file__).with_name("static")
PACKAGE = STATIC.parent.parent
ARCHIVE = "jobgen.zip"
# What the browser needs of the package; no other room is asked there.
_ROOMS = (
    *(
        "capabilities.py",
        "errors.py",
        "output.py",
        "process.py",
        "spec",
        "sites",
        "plan",
        "schedulers",
    ),
    *("rendering", "batchscript", "page"),
)
START = """\
name: my-job
scheduler: slurm
resources:
  nodes: 2
  gpus_per_node: 4
  walltime: 02:00:00
run:
  script: train.py
  args: {lr: 3e-4}
"""


class PyodideFile(NamedTuple):
    """A file of the Pyodide release that the page runs on: its size in bytes and its SHA-256."""

    name: str
    size: int
    sha256: str


PYODIDE_VERSION = "314.0.7"
PYODIDE = (
    PyodideFile(
        "pyodide.mjs",
        17931,
        "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
    ),
    PyodideFile(
        "pyodide.asm.mjs",
        1250344,
        "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
    ),
    PyodideFile(
        "pyodide.asm.wasm",
        9598218,
        "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
    ),
    PyodideFile(
        "python_stdlib.zip",
        2545637,
        "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
    ),
    PyodideFile(
        "pyodide-lock.json",
        119077,
        "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
    ),
)


class Built(NamedTuple):
    """A page that was written: its folder, its size in bytes, and where it looks for Pyodide."""

    folder: Path
    size: int
    pyodide: str


def build_page(folder: str, *, pyodide: str, sites: Iterable[str] = ()) -> Built:
    """Write the page to `folder`, which must be empty or not exist.

    `pyodide` is a folder with the files of Pyodide 314.0.7 (npm package `pyodide`), copied beside
    the page, or the URL of such a folder. `sites` are the profiles to offer; all by default.
    Raises UsageError for a folder in use, another Pyodide, or a site that does not exist.
    """
    out = Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{folder} already exists; jobgen will not overwrite it")
    names = list(sites) or search.list_names()
    unknown = [name for name in names if not search.exists(name)]
    if unknown:
        raise UsageError(f"unknown site: {', '.join(unknown)}; {search.suggest(unknown[0])}")
    remote = pyodide.startswith(("https://", "http://"))
    if not remote:
        _check_pyodide(Path(pyodide))
    out.mkdir(parents=True, exist_ok=True)
    if not remote:
        (out / "pyodide").mkdir()
        for file in PYODIDE:
            shutil.copyfile(Path(pyodide, file.name), out / "pyodide" / file.name)
    (out / ARCHIVE).write_bytes(_pack(names))
    for name in ("page.css", "page.js", "worker.js"):
        shutil.copyfile(STATIC / name, out / name)
    place = pyodide.rstrip("/") + "/" if remote else "pyodide/"
    (out / "manifest.json").write_text(json.dumps(_list_files(out, place), indent=1) + "\n")
    (out / "index.html").write_text(_write_html(place, names))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Built(out, size, place)


def make_policy(pyodide: str) -> str:
    """Return the Content-Security-Policy of the page, for a Pyodide at a path or URL."""
    parts = urlsplit(pyodide)
    origin = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'wasm-unsafe-eval'{origin}",
            f"connect-src 'self'{origin}",
            "worker-src 'self'",
            "style-src 'self'",
            "img-src blob: data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _check_pyodide(folder: Path) -> None:
    for file in PYODIDE:
        path = folder / file.name
        if not path.is_file():
            hint = f"give the folder of Pyodide {PYODIDE_VERSION}, npm's package `pyodide`"
            raise UsageError(f"{path} does not exist; {hint}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
            raise UsageError(f"{path} is not the file of Pyodide {PYODIDE_VERSION}")


def _list_files(out: Path, pyodide: str) -> dict[str, Any]:
    """Return what the page loads, each file with its digest as browsers check it."""
    files = [
        {"name": f.name, "of": "pyodide", "size": f.size, "integrity": _quote_digest(f.sha256)}
        for f in PYODIDE
    ]
    archive = (out / ARCHIVE).read_bytes()
    digest = _quote_digest(hashlib.sha256(archive).hexdigest())
    files.append({"name": ARCHIVE, "of": "page", "size": len(archive), "integrity": digest})
    return {"pyodide": pyodide, "archive": ARCHIVE, "files": files}


def _quote_digest(sha256: str) -> str:
    return "sha256-" + base64.b64encode(bytes.fromhex(sha256)).decode()


def _write_html(pyodide: str, names: Iterable[str]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(STATIC),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    titles = [(name, search.load(name).title or name) for name in names]
    template = environment.get_template("page.html.j2")
    return template.render(
        sections=make_form(),
        sites=titles,
        start=START,
        pyodide=pyodide,
        policy=make_policy(pyodide),
    )


def _pack(names: Iterable[str]) -> bytes:
    """Return a zip of jobgen and its libraries, the same bytes for the same sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(list_sources(set(names))):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    return buffer.getvalue()


def list_sources(names: set[str]) -> Iterator[tuple[str, Path]]:
    """Yield each file of the archive: its name there, and where it is."""
    yield "jobgen/__init__.py", PACKAGE / "__init__.py"
    for room in _ROOMS:
        place = PACKAGE / room
        for path in [place] if place.is_file() else _walk(place, ".py"):
            yield f"jobgen/{path.relative_to(PACKAGE).as_posix()}", path
    for name in _add_extended(names):
        yield f"jobgen/sites/data/{name}.yaml", Path(search.find(name).files[0])
    templates = Path(find_template_folder())
    for path in _walk(templates, ""):
        yield f"jobgen/templates/{path.relative_to(templates).as_posix()}", path
    for library in ("jinja2", "markupsafe", "yaml"):
        spec = find_spec(library)
        if spec is None or spec.origin is None:
            raise UsageError(f"{library} is not installed as files; the page cannot hold it")
        folder = Path(spec.origin).parent
        for path in _walk(folder, ".py"):
            yield f"{folder.name}/{path.relative_to(folder).as_posix()}", path


def _add_extended(names: set[str]) -> set[str]:
    """Return the profiles with those that they extend, and the generic ones."""
    generic = {"slurm-generic", "pbs-generic", "local"}
    extended = {Path(file).stem for name in names for file in search.find(name).files}
    return names | generic | extended


def _walk(folder: Path, suffix: str) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob(f"*{suffix}"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
