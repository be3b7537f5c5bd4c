"""Fingerprints of the passages that site profiles quote, so that quotes are compared anywhere.

A passage is kept as the hashes of each three words in a row: enough to tell whether a quote stands
there, and no copy of another's document. Where clones of the repositories are, OWNER/NAME or
OWNER+NAME/repo in the folder `JOBGEN_SOURCES`, each with the commits that profiles name,
`python tests/helpers/fingerprints.py` makes the file anew.
"""

import base64
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from golden import SITES

from jobgen.sites import search
from jobgen.sites.profile import Charge, Limit, SiteSource, walk_records

FILE = Path(__file__).parents[1] / "sites" / "fingerprints.json"
CLONES = os.environ.get("JOBGEN_SOURCES", "")
_LINES = 10  # around a quote
_SIZE = 3  # bytes of a hash


@cache
def read_document(file: str) -> str | None:
    """The text of OWNER/NAME@COMMIT:PATH; None if no clone is here."""
    repository, _, rest = file.partition("@")
    for clone in (Path(CLONES, repository), Path(CLONES, repository.replace("/", "+"), "repo")):
        if CLONES and clone.is_dir():
            argv = ["git", "-C", str(clone), "show", rest]
            return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return None


def split_words(text: str) -> list[str]:
    """The words and figures of a text, without its signs."""
    return re.findall(r"[^\W_]+", text.lower())


def hash_words(text: str) -> bytes:
    """The hashes of each three words in a row."""
    words = split_words(text)
    threes = (" ".join(words[index : index + 3]) for index in range(len(words) - 2))
    return b"".join(hashlib.sha256(three.encode()).digest()[:_SIZE] for three in threes)


def read_passages() -> dict[str, list[bytes]]:
    """The passages of each file of a repository."""
    kept = json.loads(FILE.read_text())
    return {file: list(map(base64.b64decode, passages)) for file, passages in kept.items()}


def is_within(quote: str, passages: list[bytes]) -> bool:
    """Whether all words of a quote stand in a row in one of the passages."""
    wanted = hash_words(quote)
    return any(
        passage[start : start + len(wanted)] == wanted
        for passage in passages
        for start in range(0, len(passage) - len(wanted) + 1, _SIZE)
        if wanted
    )


def cut_passage(text: str, quote: str) -> str:
    """The lines around a quote."""
    pattern = r"[\W_]+".join(map(re.escape, split_words(quote)))
    match = re.search(pattern, text, re.IGNORECASE)
    assert match, quote
    before, after = text[: match.start()].splitlines(), text[match.end() :].splitlines()
    return "\n".join([*before[-_LINES:], match[0], *after[:_LINES]])


def write_passages(quotes: dict[str, list[str]]) -> None:
    """Keep the passages of all quotes, by the files that they are of."""
    kept = {}
    for file, texts in sorted(quotes.items()):
        document = read_document(file)
        assert document is not None, f"{file}: no clone of it in JOBGEN_SOURCES"
        passages: list[bytes] = []
        for quote in texts:
            if not is_within(quote, passages):
                passages.append(hash_words(cut_passage(document, quote)))
        kept[file] = [base64.b64encode(passage).decode() for passage in passages]
    FILE.write_text(json.dumps(kept, indent=1) + "\n")


def list_cited(site: str) -> Iterator[tuple[str, Limit | Charge, SiteSource]]:
    """Yield each limit and charge of a profile with its path and its source."""
    profile = search.load(site)
    for path, record in walk_records(profile):
        if isinstance(record, Limit | Charge):
            queue = profile.find_queue(path.split(".")[1]) if path.startswith("queues.") else None
            source = profile.find_source(record.source or (queue.source if queue else None))
            if source.address:
                yield f"{site}: {path}", record, source


if __name__ == "__main__":
    quoted: dict[str, list[str]] = {}
    for _, record, source in (cited for site in SITES for cited in list_cited(site)):
        if source.file and record.quote:
            quoted.setdefault(source.file, []).append(record.quote)
    write_passages(quoted)
