"""The page as files for any web server, with a manifest of their digests."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jinja2

from jobgen import __version__
from jobgen.capabilities import list_capabilities
from jobgen.errors import UsageError
from jobgen.page.form import make_form
from jobgen.records import NamedTuple
from jobgen.rendering.render import find_template_folder
from jobgen.sites import search

STATIC = Path(__file__).with_name("static")
PACKAGE = STATIC.parent.parent
ARCHIVE = "jobgen.zip"
LICENSES = "LICENSES.txt"
_LIBRARIES = {"jinja2": "Jinja2", "markupsafe": "MarkupSafe", "yaml": "PyYAML"}
# The rooms that the browser needs.
_ROOMS = (
    *("capabilities.py", "errors.py", "output.py", "records.py", "process.py"),
    *("spec", "sites", "plan", "schedulers", "rendering", "batchscript", "page"),
)
_DATA = (
    *("spec/data/words.yaml", "spec/data/launchers.yaml", "rendering/decisions.txt"),
    *("rendering/variables.txt", "plan/rules.txt", "plan/containers.txt", "plan/uses.txt"),
    *("batchscript/rules.txt", "batchscript/commands.txt", "batchscript/forms.txt"),
    "batchscript/words.txt",
    *("rendering/words.txt", "batchscript/counts.txt", "batchscript/reasons.txt", "spec/rules.txt"),
    *("spec/filled_in.txt", "plan/shares.txt", "page/static/pyodide.json"),
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
GET_PYODIDE = f"""\
    npm pack pyodide@{PYODIDE_VERSION}
    mkdir pyodide
    tar xzf pyodide-{PYODIDE_VERSION}.tgz -C pyodide --strip-components 1"""
_ROWS = json.loads(STATIC.joinpath("pyodide.json").read_text())
PYODIDE = tuple(PyodideFile(*row) for row in _ROWS)
_PYODIDE_LICENSE = f"""\
Pyodide {PYODIDE_VERSION}

Copyright (c) Pyodide contributors and Mozilla. Under the Mozilla Public License 2.0,
<https://mozilla.org/MPL/2.0/>; its source is at <https://github.com/pyodide/pyodide>.
It contains CPython, copyright (c) Python Software Foundation, under the PSF License Agreement,
<https://docs.python.org/3/license.html>, and libraries whose licences its source names.
"""


class Built(NamedTuple):
    """A written page: its folder, its size in bytes, and where it loads Pyodide from."""

    folder: Path
    size: int
    pyodide: str


def build_page(folder: str, *, pyodide: str, sites: Iterable[str] = ()) -> Built:
    """Write the page to `folder`, which must be empty or not exist.

    `pyodide` is a folder with the files of Pyodide 314.0.7 (npm package `pyodide`), copied beside
    the page, or the URL of such a folder. `sites` are the profiles to offer; all by default.
    Raises UsageError if the folder is in use, Pyodide is another version, or a site is unknown.
    """
    out, names = Path(folder), _pick_sites(sites)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{folder} already exists; jobgen will not overwrite it")
    is_remote = pyodide.startswith(("https://", "http://"))
    place = pyodide.rstrip("/") + "/" if is_remote else "pyodide/"
    if not is_remote:
        _check_pyodide(Path(pyodide))
        (out / place).mkdir(parents=True)
        for file in PYODIDE:
            shutil.copyfile(Path(pyodide, file.name), out / place / file.name)
    out.mkdir(parents=True, exist_ok=True)
    for name in ("page.css", "page.js", "worker.js"):
        shutil.copyfile(STATIC / name, out / name)
    (out / ARCHIVE).write_bytes(_pack(names))
    (out / LICENSES).write_text(write_licenses())
    (out / "manifest.json").write_text(json.dumps(_list_files(out, place), indent=1) + "\n")
    (out / "index.html").write_text(_write_html(place, names))
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return Built(out, size, place)


def _pick_sites(sites: Iterable[str]) -> list[str]:
    names = list(sites) or search.list_names()
    unknown = [name for name in names if not search.exists(name)]
    if unknown:
        raise UsageError(f"unknown site: {', '.join(unknown)}; {search.suggest(unknown[0])}")
    return names


def make_policy(pyodide: str) -> str:
    """Return the Content-Security-Policy of the page, for a Pyodide at a path or URL."""
    parts = urlsplit(pyodide)
    origin = f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return "; ".join(
        (
            "default-src 'none'",
            # Python's own modules are imported from bytes that were checked: blobs.
            f"script-src 'self' blob: 'wasm-unsafe-eval'{origin}",
            f"connect-src 'self'{origin}",
            "worker-src 'self'",
            "style-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _check_pyodide(folder: Path) -> None:
    for file in PYODIDE:
        path = folder / file.name
        if not path.is_file():
            raise UsageError(f"{path} does not exist; to get Pyodide:\n{GET_PYODIDE}")
        if hashlib.sha256(path.read_bytes()).hexdigest() != file.sha256:
            raise UsageError(f"{path} differs from the file in Pyodide {PYODIDE_VERSION}")


def _list_files(out: Path, pyodide: str) -> dict[str, Any]:
    """Return the files that the page loads, each with the digest that browsers check."""
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
    """Yield the name of each file in the archive, and its path here."""
    yield "jobgen/__init__.py", PACKAGE / "__init__.py"
    for room in _ROOMS:
        place = PACKAGE / room
        for path in [place] if place.is_file() else _walk(place, ".py"):
            yield f"jobgen/{path.relative_to(PACKAGE).as_posix()}", path
    for name in _DATA:
        yield f"jobgen/{name}", PACKAGE / name
    for name in _add_extended(names):
        yield f"jobgen/sites/data/{name}.yaml", Path(search.find(name).files[0])
    templates = Path(find_template_folder())
    for path in _walk(templates, ""):
        yield f"jobgen/templates/{path.relative_to(templates).as_posix()}", path
    for folder in map(_find_library, _LIBRARIES):
        for path in _walk(folder, ".py"):
            yield f"{folder.name}/{path.relative_to(folder).as_posix()}", path


def _find_library(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise UsageError(f"{name} is not installed as files, so the page cannot include it")
    return Path(spec.origin).parent


def write_licenses() -> str:
    """Return the licences of all software in the page, each under the name of its project."""
    parts = [f"{name} {version}\n\n{text}" for name, version, text in _list_licenses()]
    return f"\n{'-' * 80}\n\n".join([*parts, _PYODIDE_LICENSE])


def _list_licenses() -> Iterator[tuple[str, str, str]]:
    """Yield the project, version and licence of jobgen and of each library that it brings."""
    own = PACKAGE.parent / "LICENSE"  # of a clone
    yield "jobgen", __version__, own.read_text() if own.is_file() else _find_license("jobgen")
    for project in _LIBRARIES.values():
        yield project, version(project), _find_license(project)


def _find_license(project: str) -> str:
    """Return the text of an installed project's licence files.

    Raises UsageError if it has none.
    """
    try:
        files = distribution(project).files or []
    except PackageNotFoundError:
        files = []
    paths = [file.locate() for file in files if file.name.upper().startswith(("LICEN", "COPYING"))]
    texts = [Path(path).read_text(encoding="utf-8") for path in paths]
    if not texts:
        raise UsageError(f"the licence of {project} is not installed, and the page must include it")
    return "\n".join(texts)


def _add_extended(names: set[str]) -> set[str]:
    """Return the profiles, those that they extend, and the generic ones."""
    generic = {can.generic_site for can in list_capabilities()}
    extended = {Path(file).stem for name in names for file in search.find(name).files}
    return names | generic | extended


def _walk(folder: Path, suffix: str) -> list[Path]:
    return [
        path
        for path in sorted(folder.rglob(f"*{suffix}"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
