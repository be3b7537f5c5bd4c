"""qsub: options, directives, and the request to the server."""

from __future__ import annotations

import os
import re
import sys

import resources
from link import (
    BAD_USER,
    BAD_VALUE,
    READ_ONLY,
    UNDEFINED_ATTRIBUTE,
    Link,
    RefusedError,
    client_host,
    settings,
)
from variables import variables

# Tests start commands thousands of times: what only types need is not imported.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FLAGS = "fhIVXz"
VALUED = "aAcCejJklmMNopPqrRSuvW"
USAGE = """\
usage: qsub [-a date_time] [-A account_string] [-c interval]
	[-C directive_prefix] [-e path] [-f ] [-h ] [-I [-X]] [-j oe|eo] [-J X-Y[:Z]]
	[-k keep] [-l resource_list] [-m mail_options] [-M user_list]
	[-N jobname] [-o path] [-p priority] [-P project] [-q queue] [-r y|n]
	[-R o|e|oe] [-S path] [-u user_list] [-W otherattributes=value...]
	[-v variable_list] [-V ] [-z] [script | -- command [arg1 ...]]
"""
ATTRIBUTES = {
    "depend", "umask", "block", "group_list", "stagein", "stageout", "sandbox", "max_run_subjobs",
    "run_count", "release_nodes_on_stageout", "tolerate_node_failures", "interactive",
}  # fmt: skip
LEGAL = {
    "N": r"[\w.+-]+",
    "j": r"oe|eo|n",
    "k": r"n[oed]*|(?=.*[oe])[oed]+",
    "m": r"n|[abej]+",
    "M": r"\S*",
    "p": r"-?(1?\d{1,3}|10[01]\d|102[0-3])|-1024",
    "R": r"oe?|eo?",
    "S": r"/.*",
    "o": r".+",
    "e": r".+",
    "c": r"[^u].*",
}
NOT_RERUNNABLE_ARRAY = "qsub:  cannot submit non-rerunable Array Job"
DEPENDENCY = r"(after|afterok|afternotok|afterany|before\w*|on|runone)(:\d[\w.\[\]-]*)+"
READ_ONLY_ATTRIBUTES = {"job_state", "comment", "exec_host", "Exit_status", "session_id"}


class Options:
    """The options of a submission; the command line beats directives.

    `-l` is settled per resource: the command line's last, else the directives' first.
    """

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.attributes: dict[str, str] = {}
        self.resources: list[tuple[str, str]] = []
        self.from_command: set[str] = set()

    def take(self, words: list[str], *, command: bool) -> list[str]:
        """Read options; returns the operands (with `--` first where it was given).

        Raises RefusedError(2) for what the real getopt or its caller rejects at once.
        """
        rest = list(words)
        operands: list[str] = []
        while rest:
            word = rest.pop(0)
            if word == "--":
                return ["--", *rest, *operands]
            if not word.startswith("-") or word == "-":
                operands.append(word)
                continue
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in FLAGS:
                    self._set(letter, "", command=command)
                elif letter not in VALUED:
                    raise RefusedError(2, f"qsub: invalid option -- '{letter}'\n{USAGE}")
                elif not letters and not rest:
                    raise RefusedError(
                        2, f"qsub: option requires an argument -- '{letter}'\n{USAGE}"
                    )
                else:
                    self._set(letter, letters or rest.pop(0), command=command)
                    letters = ""
        return operands

    def _set(self, letter: str, value: str, *, command: bool) -> None:
        if letter == "l":
            for name, amount in resources.split_list(value):
                if command or name not in dict(self.resources):
                    self.resources.append((name, amount))
        elif letter == "W":
            self._set_attributes(value, command=command)
        elif command or letter not in self.from_command:
            if letter == "r" and value not in ("y", "n"):
                raise RefusedError(2, f"qsub: illegal -r value\n{USAGE}")
            self.values[letter] = value
            if command:
                self.from_command.add(letter)

    def _set_attributes(self, text: str, *, command: bool) -> None:
        for item in re.split(r",(?=\s*[\w.]+\s*=)", text):
            name, equals, value = item.partition("=")
            name = name.strip()
            if not name or not equals:
                raise RefusedError(2, "qsub: illegal -W value")
            if name == "block" and value.lower() not in ("true", "false"):
                raise RefusedError(2, "qsub: illegal -W value")
            if command or name not in self.from_command:
                self.attributes[name] = value.strip().strip("\"'")
                if command:
                    self.from_command.add(name)

    def check(self) -> None:
        """What the real qsub verifies before it asks the server."""
        for letter, pattern in LEGAL.items():
            value = self.values.get(letter)
            if value is None:
                continue
            if letter == "N" and len(value) > 230:
                raise RefusedError(2, f"qsub: Job name is too long\n{USAGE}")
            if not re.fullmatch(pattern, value, re.ASCII):
                raise RefusedError(2, f"qsub: illegal -{letter} value\n{USAGE}")
        if "J" in self.values:
            self._check_array()
        if "I" in self.values or "X" in self.values:
            raise RefusedError(1, "qsub:\tstandard input and output must be a terminal for")
        if "j" in self.values.get("m", "") and "J" not in self.values:
            raise RefusedError(1, "qsub: mail option 'j' can not be used without array job")
        for name, value in self.attributes.items():
            if name in READ_ONLY_ATTRIBUTES:
                text = "qsub: Cannot set attribute, read only or insufficient permission"
                raise RefusedError(READ_ONLY, f"{text}  {name}")
            if name not in ATTRIBUTES:
                raise RefusedError(UNDEFINED_ATTRIBUTE, f"qsub: Undefined attribute  {name}")
            depends = all(re.fullmatch(DEPENDENCY, part) for part in value.split(","))
            if (name == "umask" and not value.isdigit()) or (name == "depend" and not depends):
                raise RefusedError(2, f"qsub: illegal -W value\n{USAGE}")
            if name == "max_run_subjobs" and "J" not in self.values:
                raise RefusedError(15231, "qsub: Attribute has to be set on an array job")

    def _check_array(self) -> None:
        if self.values.get("r") == "n":
            raise RefusedError(2, f"{NOT_RERUNNABLE_ARRAY}\n{USAGE}")
        found = re.fullmatch(r"(\d+)-(\d+)(?::(\d+))?(?:%(\d+))?", self.values["J"])
        if "%" in self.values["J"] and not self.values["J"].rpartition("%")[2].isdigit():
            raise RefusedError(BAD_VALUE, "qsub: Error (15014) submitting job")
        if not found or int(found[1]) >= int(found[2]) or found[3] == "0":
            raise RefusedError(2, f"qsub: illegal -J value\n{USAGE}")


def words_of(line: str) -> list[str]:
    """A directive's words: quotes and backslashes group, nothing is expanded."""
    words: list[str] = []
    word, started, at = "", False, 0
    while at < len(line):
        letter = line[at]
        if letter in "\"'":
            end = line.find(letter, at + 1)
            if end < 0:
                raise RefusedError(1, "qsub: unmatched ")
            word, started, at = word + line[at + 1 : end], True, end + 1
        elif letter == "\\" and at + 1 < len(line):
            word, started, at = word + line[at + 1], True, at + 2
        elif letter.isspace():
            if started:
                words.append(word)
            word, started, at = "", False, at + 1
        else:
            word, started, at = word + letter, True, at + 1
    return [*words, word] if started else words


def read_directives(script: str, options: Options, prefix: str) -> None:
    """Take the options of the script's directives, down to its first command."""
    lines = iter(script.split("\n"))
    executable = False
    for line in lines:
        bare = line.lstrip()
        if not executable and prefix and bare.startswith(prefix):
            text = bare[len(prefix) :]
            if text.endswith("\\"):
                text = text[:-1] + next(lines, "").lstrip()
            _directive(text, options)
        elif not line.startswith((":", "#!")) and bare and not bare.startswith("#"):
            executable = True
        if line.endswith("\r"):
            raise RefusedError(1, "qsub: script contains cr, lf")


def _directive(text: str, options: Options) -> None:
    words = words_of(text)
    try:
        operands = options.take(words, command=False)
    except RefusedError as refused:
        print(refused.text.removesuffix(USAGE).rstrip(), file=sys.stderr)
        operands = ["refused"]
    if operands:
        raise RefusedError(1, f"qsub: directive error: {' '.join(words)} ")


# --- the request -------------------------------------------------------------


def _read_script(path: str, options: Options) -> str:
    if path in ("", "-"):
        options.values.setdefault("N", "STDIN")
        return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except IsADirectoryError:
        raise RefusedError(1, "qsub: script not a file") from None
    except OSError as error:
        raise RefusedError(1, f"qsub: script file:: {error.strerror}") from None
    options.values.setdefault("N", os.path.basename(path))
    return data.decode("utf-8", "surrogateescape")


def _folder() -> str:
    """The submit directory: $PWD where it is right, as it may be the nicer name."""
    named = os.environ.get("PWD", "")
    if named and os.path.exists(named) and os.path.samefile(named, "."):
        return named
    return os.getcwd()


def main(run: str, arguments: list[str]) -> int:
    """Submit; the id goes to stdout. Raises RefusedError with qsub's message and number."""
    options = Options()
    operands = options.take(arguments, command=True)
    program, script = None, ""
    if operands[:1] == ["--"]:
        program = operands[1:]
        if not program:
            raise RefusedError(2, USAGE)
        options.values.setdefault("N", "STDIN")
    elif len(operands) > 1:
        raise RefusedError(2, USAGE)
    else:
        named = "N" in options.values
        script = _read_script(operands[0] if operands else "", options)
        name_from_file = None if named else options.values.pop("N")
        prefix = options.values.get("C", os.environ.get("PBS_DPREFIX", "#PBS"))
        read_directives(script, options, prefix)
        if name_from_file:
            options.values.setdefault("N", name_from_file)
    options.check()
    now = settings(run)
    if os.uname().nodename in now["nodes"] and not now["flatuid"]:
        raise RefusedError(BAD_USER, "qsub: Bad UID for job execution")
    host = client_host(run)
    queue = options.values.get("q", "").partition("@")[0] or now["queues"][0]
    folder = _folder()
    link = Link(run)
    answer = link.ask(
        op="submit",
        script=script,
        program=program,
        options=options.values,
        attributes=options.attributes,
        request=resources.parse_request(options.resources, now["resources"]),
        variables=variables(options.values, queue=queue, host=host, folder=folder),
        queue=queue,
        host=host,
        folder=folder,
        arguments=arguments,
    )
    if "z" not in options.values:
        print(answer["id"], flush=True)
    if options.attributes.get("block", "").lower() == "true":
        status: Any = link.receive()["exit_status"]
        return int(status or 0) & 255
    return 0
