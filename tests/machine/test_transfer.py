"""Files that go to another machine: all of them or none, and never over something newer."""

import json
import os
from pathlib import Path

import pytest

from jobgen.errors import UsageError
from jobgen.machine import transfer
from jobgen.machine.transfer import pack_files, unpack_files


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that files are sent from; `there` is beside it."""
    here = tmp_path / "here"
    (here / "src/.git").mkdir(parents=True)
    (here / "src/.git/config").write_text("private")
    (here / "src/a.py").write_text("a = 1\n")
    (here / "run.sh").write_text("#!/bin/sh\n")
    (here / "run.sh").chmod(0o755)
    monkeypatch.chdir(here)
    return here


def read(folder: str) -> dict[str, str]:
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def test_what_is_in_a_folder_arrives_with_its_time_and_its_right_to_run() -> None:
    os.utime("run.sh", (1000, 1000))
    unpack_files(pack_files(["src", "run.sh"], {"src/a.py": "a = 2\n"}), "../there/deep")
    assert read("../there/deep") == {"src/a.py": "a = 2\n", "run.sh": "#!/bin/sh\n"}
    about = os.stat("../there/deep/run.sh")
    assert (about.st_mtime, bool(about.st_mode & 0o100)) == (1000, True)
    assert os.stat("../there/deep/src/a.py").st_mode & 0o111 == 0


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../other.py", "../other.py: outside of this folder"),
        ("none.py", "none.py: does not exist"),
        ("src", "src/a.py alone has 0; more than the 0 MiB that are sent"),
    ],
)
def test_what_cannot_be_sent_is_named(
    monkeypatch: pytest.MonkeyPatch, path: str, message: str
) -> None:
    monkeypatch.setattr(transfer, "MOST_BYTES", 2)
    with pytest.raises(UsageError) as refused:
        pack_files([path], {})
    assert message in str(refused.value)


def test_a_newer_file_there_keeps_all_from_being_written() -> None:
    line = pack_files(["src", "run.sh"], {})
    there = Path("../there/run.sh")
    there.parent.mkdir()
    there.write_text("mine\n")
    later = Path("run.sh").stat().st_mtime + 60
    os.utime(there, (later, later))
    with pytest.raises(UsageError, match=r"^run\.sh: newer on .*nothing was sent$"):
        unpack_files(line, "../there")
    assert read("../there") == {"run.sh": "mine\n"}
    os.utime(there, (1000, 1000))  # an older one is replaced, and stays one that does not run
    there.chmod(0o640)
    unpack_files(line, "../there")
    assert read("../there") == {"src/a.py": "a = 1\n", "run.sh": "#!/bin/sh\n"}
    assert there.stat().st_mode & 0o777 == 0o640


def test_an_equal_file_is_left_alone_however_new() -> None:
    line = pack_files(["run.sh"], {})
    unpack_files(line, "../there")
    os.utime("../there/run.sh", (4e9, 4e9))
    unpack_files(line, "../there")
    assert os.stat("../there/run.sh").st_mtime == 4e9


def test_a_line_that_broke_off_writes_nothing() -> None:
    line = pack_files(["src", "run.sh"], {})
    for part in (line[:-1], line[: len(line) // 2], "", "7", "[7]"):
        with pytest.raises(UsageError, match="have not arrived whole; nothing was written"):
            unpack_files(part, "../there")
    assert not Path("../there").exists()


@pytest.mark.parametrize("path", ["/outside.py", "../outside.py", "src/../../outside.py"])
def test_nothing_is_written_outside_of_the_folder(path: str) -> None:
    sent = [{"path": "a", "time": 1, "runs": False, "content": ""}]
    sent += [{"path": path, "time": 1, "runs": False, "content": ""}]
    with pytest.raises(UsageError, match="outside of the folder"):
        unpack_files(json.dumps(sent), "../there")
    assert not Path("../there").exists()
