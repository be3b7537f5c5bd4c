"""What to type instead of a command or an option that jobgen does not have.

The words and the lines are data, in `jobgen/spec/data/words.yaml`. Only an error imports this. Each
word that was typed stands in the line of an answer, or is named beside it.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import click

from jobgen.cli import options, settings, typed
from jobgen.cli.options import FILE, SPEC_ENDS
from jobgen.cli.settings import find_refusal, name_setting
from jobgen.cli.target import SHORTCUTS
from jobgen.cli.typed import (
    FILE_ENDS,
    JOB,
    PROGRAM,
    Option,
    drop,
    fill_line,
    pick,
    pick_jobs,
)
from jobgen.errors import Position
from jobgen.jobs import find
from jobgen.output import Offered, offer_line
from jobgen.rendering import header
from jobgen.schedulers.registry import SCRIPT_ENDS
from jobgen.sites import search
from jobgen.spec import table
from jobgen.spec.spelling import find_near
from jobgen.spec.words import describe, normalize
from jobgen.spec.yaml_nodes import Scalar

# A line to type: the command, its words, and what stands behind them, such as a pipe or a remark.
_SHOWN = re.compile(
    r"((?:[a-z]+ (?:'[^']*'|\S+) (?:&& )?)?jobgen) ([a-z]+)"
    r"((?: (?:'[^']*'|\"'\"|[^\s,;|<('\"]+)+)*)(.*)"
)
_ADVICE = re.compile(r"\b(?:write|give|type|put|knows)\b")  # in what leaves no line as it is
_LEAVE, _NOTHING = "leave it out", "jobgen has nothing like it"
_WRAP = re.compile("(?<![^\0])(?:--?(?:wrap|c|cmd)[=\0])?(python\\S* [^\0;&|<>$'\"()]*)\0((?s:.*))")
_PARTS = re.compile("[1-9][0-9]{0,8}/[1-9][0-9]{0,8}")
_ONE_SCRIPT = r"(?<!')\bSCRIPT\b"
# Where the one job of a folder is meant: one that need not run, and not several.
_ONE_JOB = r"(?<!')(?<!shell )(?<!forward )\bJOB\b(?! JOB|\.\.\.)"


class Answer(typed.Typed):
    """What to say of what was typed."""

    def write(self, text: str, first: str = "", read: str = "") -> str:
        """Return a line of the table with all options, and what to know of the others.

        What is known of the option `first`, which a message has named, comes first. A row of the
        table has read the text `read` already.
        """
        self.line = ""  # what stands for the whole line
        self.words: list[list[str]] = []  # what stands for options that the command lacks
        self.directives: list[str] = []  # what is for the scheduler, as a script has it
        self.program: list[str] = []  # what is for the program
        self.remarks: dict[str, str] = {}  # what to say of the others
        self._sort_words(read.split())
        for own, value in self.own:  # in the place of a word that stands for it
            line = offer_line(own, value).replace("\\", r"\\")
            text = re.sub(rf"{own} [A-Z]+(?= |$)", line, text)
        start = self.line or fill_line(text, self.tool, self.plain)
        line = self._write(start)
        named = next((one for one in self.remarks if first and one.startswith(first)), "")
        remark = self.remarks.pop(named, "")
        parts = [remark]
        if self._has_line(filter(None, [remark, *self.remarks.values()])):
            left = self._name_left(line, f"{read} {remark} {self.remarks}")
            parts.append(f"type: {line}")
            self.remarks |= left
        return "; ".join(filter(None, [*parts, *self._list_remarks(remark)]))

    def _sort_words(self, read: Sequence[str]) -> None:
        """Give each option, and each word for the program, its place, beside those read already."""
        if self.spec:
            self._hand_over()
        self.own = [pair for pair in self.own if pair[0] not in read]
        last = table.list_section("processes")
        for option in sorted(self.foreign, key=lambda o: (self._mean(o) in last, "cpu" in o.value)):
            if not self._is_read(option, read):
                self._translate(option)
        self.program += self.behind
        self._place_program()

    def _hand_over(self) -> None:
        """Leave words that the command does not take to the program, behind its first one."""
        self.plain = [one for one in self.plain if not re.match(PROGRAM, one)]
        over = self._list_behind() if self.tool else options.find_extra(self.plain, self.context)
        kept = drop(self.plain, [*over, *self.extra])
        self.plain, self.left = kept, drop(self.plain, kept)
        if self.foreign or self.behind or self.tool:
            self.behind = [*(one for one in over if not one.endswith(FILE_ENDS)), *self.behind]
            self.left = []

    def _list_behind(self) -> list[str]:
        """Return the words behind the spec that its program takes, as those behind a script."""
        words = itertools.dropwhile(lambda one: not one.endswith(FILE_ENDS), self.plain)
        late = [*words][1:] if self.tool in table.list_section("submitters") else []
        return [] if find_refusal(self.spec, late) else late

    def _is_read(self, option: Option, read: Sequence[str]) -> bool:
        """Whether a row of the table has read an option, or its value; a job goes into the line."""
        value = option.value
        values = set() if JOB.fullmatch(value) else {value.replace(" ", "\0"), *value.split(",")}
        return not ({option.name} | values).isdisjoint(read)

    def _list_remarks(self, said: str) -> Iterator[str]:
        """Yield what to say of options beside what is said, those with the same remark together."""
        same: dict[str, list[str]] = {}
        for option, what in self.remarks.items():
            same.setdefault(what, []).append(option)
        same.pop(said, None)
        return (f"for {', '.join(named)}: {what}" for what, named in same.items())

    def _has_line(self, texts: Iterable[str]) -> bool:
        """Whether there is a line to type beside what is said of options."""
        needs = not self.plain and any(one.required for one in self.context.command.params)
        leaves = (one.startswith(_LEAVE) or not _ADVICE.search(one) for one in texts)
        given = [self.words, self.directives, self.program, self.line, self.tool]
        return all(one and not needs for one in leaves) or self.name == "init" or any(given)

    def _name_left(self, line: str, remarks: str) -> dict[str, str]:
        """Return a remark on those words typed that stand neither in a line nor in what is said."""
        named = {*re.split(r"(?:[\s;,'\"=:/`{}?]|_(?=\d+\b))+", f"{line} {remarks}")}
        named |= table.list_section("silent", "tools") | table.list_commands()
        words = [*self.plain, *self.left, *(" ".join(filter(None, pair)) for pair in self.own)]
        named.discard("")
        left = [
            one
            for one in words
            if named.isdisjoint(
                [one, *re.split(r"[\s=:/?]+", one), *pick_jobs([one]), _find_site([one])]
            )
        ]
        name = " ".join(re.findall(r"jobgen [a-z]+", line)[:1])
        return {", ".join(left): f"{name} takes nothing like it"} if left and name else {}

    def _write(self, start: str) -> str:
        """Return a line with the options that its command takes, and the words of the program."""
        shown = _SHOWN.match(start)
        lead, name, words, end = shown.groups() if shown else ("", self.name, "", "")
        target = options.make_context(name, self.context)
        before, dashes, behind = words.partition(" -- ")
        rest = self._list_rest(start, options.list_options(target.command))
        if shown is None or target.command.name != name:
            return " ".join([start, *rest])
        words = offer_line(*self._place(shlex.split(before), target))
        line = " ".join(filter(None, [lead, name, words, *rest])) + dashes + behind + end
        return self.lead + line

    def _list_rest(self, start: str, takes: Iterable[str]) -> list[str]:
        """Return the options that a command takes, beside those of a line, and its program's."""
        given = [[*filter(None, pair)] for pair in self.own if pair[0] not in start.split()]
        given += self.words + settings.add_directives(self.spec, self.directives)
        first = {name_setting(words): offer_line(*words) for words in reversed(given)}
        known = [one for words in given if (one := first.pop(name_setting(words), ""))]
        rest = [one for one in known if one.split()[0] in {*takes, "--help"}]
        if self.program and "--set" in takes:
            rest += ["--", offer_line(*self.program)]
        return rest

    def _place(self, words: Sequence[str], target: click.Context) -> Sequence[str]:
        """Return the words of a command with what was typed in the place of its arguments."""
        given = options.list_arguments(words, target.command)
        ends = SCRIPT_ENDS if "SCRIPT" in "".join(given) else FILE_ENDS
        is_job = options.takes_job(target)
        known = typed.name_jobs(self.plain) if is_job else pick(self.plain, ends)
        if target.command.name == "init" and any(map(os.path.exists, known or ["job.yaml"])):
            known = [table.name_new()]  # init writes over no file
        if known and all(map(str.isupper, given)):
            at = words.index(given[0]) if given else len(words)
            words = [*words[:at], *known, *given[len(known) :]]
        return drop(words, options.find_extra(words, target))

    def _translate(self, option: Option) -> None:
        """Keep what stands for an option that the command lacks."""
        rule = self._choose(option)
        if self._is_argument(option, rule):
            self.plain += filter(None, [option.value])
            option = option._replace(value="", words=())
        say = fill_line(rule.get("say", ""), option.name, self.plain)
        line = fill_line(rule.get("type", ""), option.name, self.plain)
        if line.startswith("-"):
            self.words += settings.part_line(line)
        elif line:
            say = self._follow(line, option.value)
        else:
            say = self._place_option(option, say)
        if say:
            self._remark(option, say)

    def _place_option(self, option: Option, say: str) -> str:
        """Take an option for which no line stands, by what its rule says; return what is left."""
        submits = option.late and self.tool in table.list_section("submitters")
        if self.has_set and (submits or not (say or self.tool)):
            self._give_program(option)
            return ""
        if not say:
            return _NOTHING if self.tool else self._list_known()
        if not self.has_set:
            return say
        directive, say = settings.take_directive(self.spec, say)
        self.directives += filter(None, [directive])
        return say

    def _choose(self, option: Option) -> dict[str, str]:
        """Return the rule for an option; none where it is the program's, which lacks another."""
        rule, words = self._explain(option), [option.name, *filter(None, [option.value])]
        if self.tool or rule.get("type", "")[:1] == "-":
            return rule
        lacks = find_refusal(self.spec, [f"{option.name}-"])
        return {} if lacks and not find_refusal(self.spec, words) else rule

    def _remark(self, option: Option, say: str) -> None:
        """Keep what to say of an option; where something else is said of it, with its value."""
        known = self.remarks.get(option.name, say) == say != _NOTHING
        self.remarks[option.name if known else f"{option.name} {option.value}".rstrip()] = say

    def _follow(self, line: str, value: str) -> str:
        """Take a whole line that an option stands for; return what to say of one that is not taken.

        Another tool's option changes no command: of that it may add an option, or say more.
        """
        same = f"jobgen {self.name}" in line
        if "&&" in line:
            files = filter(os.path.isfile, self.plain)
            whole = {one: os.path.abspath(one) for one in files}
            self.plain = [whole.get(one, one) for one in self.plain]
        if self.tool and not self.has_set and not (same and re.search(r" -| \| |&&", line)):
            return self._follow_tool(line, value)
        if self.line:
            return f"type: {line}"
        self.line = line
        return ""

    def _follow_tool(self, line: str, value: str) -> str:
        """Take a line for another tool's option only where it names the job that was typed."""
        if {value, *pick_jobs([value])}.isdisjoint(line.split()):
            return line if "," in line else _NOTHING
        self.plain.append(value)
        self.line = self.line if self.takes_job else line
        return ""

    def _is_argument(self, option: Option, rule: Mapping[str, str]) -> bool:
        """Whether the value of an option, which its rule does not read, is the job."""
        value = option.value
        if not self.takes_job or pick_jobs(self.plain) or (value and not option.words):
            return False
        answer = {*" ".join(rule.values()).split()}
        named = JOB.fullmatch(value) or value in find.list_words()
        return bool(named) and not answer & {value, *pick_jobs([value])}

    def _give_program(self, option: Option) -> None:
        """Give an option, or NAME=VALUE, to the program as it takes it, or else as it is."""
        name = option.name if option.name.startswith("-") else f"--{option.name}"
        pair = [] if name == option.name else [f"{option.name}={option.value}"]
        words = [name, *(option.words or filter(None, [option.value]))]
        takes_words = find_refusal(self.spec, pair) and not find_refusal(self.spec, words)
        self.program += words if takes_words or not pair else pair

    def _list_known(self) -> str:
        """Return which options a command has."""
        lead = f"{_LEAVE}: " if self.name in table.list_section("reading") else ""
        return f"{lead}{self.context.command_path} knows {', '.join(sorted(self.long.values()))}"

    def _explain(self, option: Option) -> dict[str, str]:
        """Return what to type, or to know, for an option that is not here; empty if unknown."""
        meant, value = self._mean(option), option.value
        word = meant if self.tool else _name_word(option.name)
        if rule := table.find_rule("prompt_options", self._describe(option, word)):
            return rule
        if self.has_set or (option.name[2:] and value):
            return settings.look_up(
                meant if self.has_set else word, value, self.long, whole=self.has_set
            )
        return {}

    def _mean(self, option: Option) -> str:
        """Return the word that an option stands for: to its tool, and else a letter to sbatch."""
        guessed = self.has_set and option.value and not self.letters
        letters: dict[str, str] = table.load_table()["letters"] if guessed else {}
        return letters.get(option.name, _name_word(self._read_letter(option.name)))

    def _describe(self, option: Option, word: str) -> dict[str, str]:
        """Return what a rule can say of an option."""
        value = option.value
        is_new = bool(self.starts and self.tool) or not os.path.exists(self.spec)
        return describe(Scalar(Position(""), value, "str")) | {
            "words": word,
            "word": word,
            "key": option.name,
            "plain": value,
            "folder": value if os.path.isdir(value) else "",
            "site": _find_site([value]),
            "jobs": offer_line(*pick_jobs([value]) or [value]),
            "job": "".join({value} & {*find.list_words()}),
            "named": offer_line(*typed.name_jobs(self.plain)[:1]),
            "new": f"nodes{self._count('nodes')}" * is_new,
            "spread": self._spread(value.removeprefix("ngpus=")),
            "share": self._share(value.rpartition("cpus=")[2]),
            "at": self.name,
            "tasks": self._count_tasks(),
            "given": " ".join(normalize(name) for name, _ in self.own),
            "COMMAND": self.name,
            "VALUE": offer_line(value or "VALUE"),
            "WORD": word.upper(),
        }

    def _place_program(self) -> None:
        """Say that a program that was named is to start on one node, where its GPUs are counted."""
        given = " ".join(itertools.chain(*self.own, *self.words))
        counted = re.search(r"--gpus-per-node |processes_per_node=", given)
        if self.starts and self.tool and counted and not re.search(r"-N |nodes[ =.]", given):
            self.words.insert(0, ["-N", "1"])

    def _spread(self, gpus: str) -> str:
        """Return options for so many GPUs in all, on nodes such as the spec's; empty if none do."""
        nodes = self._count("nodes")
        by = nodes or self._count_gpus()
        if not _PARTS.fullmatch(f"{gpus}/{by}"):
            return ""
        times, rest = divmod(int(gpus), int(by))
        if not (nodes or times):
            return Offered(f"-N 1 --gpus-per-node {gpus}")
        each = times if nodes else by
        return "" if rest else Offered(f"-N {nodes or times} --gpus-per-node {each}")

    def _share(self, number: str) -> str:
        """Return what each node has of a number for all; empty where that is not sure."""
        own = settings.read_own(self.spec)
        nodes = self._count("nodes") or f"{own and not own.roles and (own.resources.nodes or 1)}"
        if not _PARTS.fullmatch(f"{number}/{nodes}"):
            return ""
        times, rest = divmod(int(number), int(nodes))
        return "" if rest else str(times)

    def _count(self, key: str) -> str:
        """Return a number of nodes, or of their GPUs, that was typed; empty without."""
        names = SHORTCUTS[f"resources.{key}"][0]
        return next((pair[1] for pair in [*self.own, *self.words] if pair[0] in names), "")

    def _count_gpus(self) -> str:
        """Return the number of GPUs of a node, as it was typed or as the spec has it."""
        own = settings.read_own(self.spec)
        return self._count("gpus_per_node") or f"{own and own.resources.gpus_per_node}"

    def _count_tasks(self) -> str:
        """Return the number of tasks for which the spec has values; empty without any."""
        own = settings.read_own(self.spec)
        return str(len([*own.choices()])) if own and own.array and not own.array.tasks else ""


def _name_word(option: str) -> str:
    """Return an option as the rows of the table have it: a letter as it is, and others plain."""
    return option if len(option) == 2 else normalize(option)


class _Line(NamedTuple):
    """A line that begins with no command of jobgen's: whose it is, and what of it."""

    text: str  # with the name of the tool
    tool: str  # the one whose options the words are, or that of its commands
    word: str  # what stands where a command is wanted
    words: Sequence[str]  # those behind it


def explain_command(
    args: Sequence[str], context: click.Context, groups: Mapping[str, Iterable[str]]
) -> str:
    """Return the message for a word, with others after it, that these groups of commands lack."""
    message = f"no such command {args[0]!r}"
    line = _read_line(_rewrite(args) or args)
    if answer := _answer_word(line, context):
        return f"{message}; {answer}"
    known = [f"{name.lower()}: {', '.join(groups[name])}" for name in groups]
    specs = filter(table.is_spec, line.words)
    known += [f"to submit {one}, type: {offer_line('jobgen', 'submit', one)}" for one in specs]
    return _name_near(message, line, context) or "\n  ".join([f"{message}; the commands", *known])


def _rewrite(args: Sequence[str]) -> list[str]:
    """Return words as the table rewrites them, with those of a program given as one at the end."""
    here = "|".join(map(re.escape, [*pick(os.listdir(), FILE_ENDS), "\0"]))
    text = "\0".join([*args, ""])
    for form, instead in table.load_table()["rewritten"].items():
        text = re.sub(form.replace("HERE", here), instead, text)
    text = _WRAP.sub(lambda one: one[2] + one[1].replace(" ", "\0") + "\0", text)
    return text.split("\0")[:-1]


def _read_line(args: Sequence[str]) -> _Line:
    """Return what a line is: a tool's, by its first word, or a command's."""
    tools = "|".join(table.list_section("tools"))
    behind = re.sub(f"^(?:(?:{tools})\0(?=[^\0-]|\0))+", "", "\0".join(args))
    word, *words = behind.split("\0")
    named = (f"{args[0]} {word}", args[0], word)
    tool = next((one for one in named if one in table.load_table()["letters_of"]), word)
    return _Line(table.join_words(args), tool, word, words)


def _name_near(message: str, line: _Line, context: click.Context) -> str:
    """Return the message with the command that a word misspells; empty if it is none."""
    known = options.list_names(context)
    padded = [f"{one} " for one in known]  # for logz: a slip in a word of four letters
    near = find_near(line.word, known) or find_near(f"{line.word} ", padded, cutoff=0.8).strip()
    if not near:
        known = sorted(table.list_commands() | table.list_section("tools"))
        other = find_near(line.word, known, cutoff=0.8)
        text = other and _answer_word(_read_line([other, *line.words]), context)
        return text and f"{message}; did you mean {other}? {text}"
    answer = Answer(options.make_context(near, context), line.words)
    text = re.sub("^type:", "did you mean:", answer.write(f"jobgen {near} $LINE"))
    return f"{message}; {text}"


def _describe_line(line: _Line) -> dict[str, str]:
    """Return what a row of the table can say of a line."""
    known, scripts = [line.word, *line.words], filter(os.path.isfile, pick(line.words, SCRIPT_ENDS))
    named = {one.partition(":")[0] for one in known} & {*find.list_words()}
    foreign = (one for one in scripts if header.read(table.read_here(one)) is None)
    jobs = find.list_jobs()[0] if named else ()  # each is a file to read
    job = next((one for one in jobs if named & {one.name, one.run_dir.name}), None)
    return {
        "words": line.word.lower(),
        "word": line.word.lower(),
        "absent": offer_line(*pick(itertools.filterfalse(os.path.exists, known), FILE_ENDS)),
        "path": f"{shutil.which(line.word)}",
        "site": _find_site(known),
        "plain": offer_line(*line.words),
        "line": line.text,
        "here": offer_line(*filter(os.path.exists, line.words)),
        "specs": offer_line(*filter(table.is_spec, line.words)),
        "foreign": offer_line(*foreign),
        "id": job.id if job else "",
        "run": os.path.relpath(job.run_folder) if job else "",
        "job": "".join(named),
    }


def _answer_word(line: _Line, context: click.Context) -> str:
    """Return what to say of a line by its word, if that is known: a line, and what to know."""
    word, words = line.word, line.words
    row = table.find_rule("commands", _describe_line(line))
    remark = fill_line(row.get("say", ""), word, words)
    if "type" not in row and (row or word.lower() not in options.list_names(context)):
        return remark
    text = row.get("type", f"jobgen {word.lower()} $LINE")
    lead = re.sub("([^,])$", r"\1;", remark)
    name = f"{text} - -".split()[1]
    target = options.make_context(name, context)
    if target is context:
        return f"{lead} type: {fill_line(text, line.tool, words)}".lstrip()
    bare = _find_bare(words, [], row.get("unfold", "\0"))
    tool = "" if line.tool == name else line.tool
    answer = Answer(target, words, tool, bare=bare, module=row.get("use", ""))
    return f"{lead} {answer.write(text, read=row.get('read', ''))}".lstrip()


def _find_site(words: Sequence[str]) -> str:
    """Return the cluster that one of some words names, or a part of whose name it is."""
    parts = {part: name for name in search.list_names() for part in (*name.split("-"), name)}
    return next((parts[word] for word in words if word[3:] and word in parts), "")


def explain_usage(error: click.UsageError, argv: Sequence[str], group: click.Group) -> str:
    """Return the message for a command line that a command of a group does not take."""
    argv = _rewrite([*itertools.takewhile(lambda one: one not in ("&&", "||", "|", ";"), argv)])
    context = error.ctx or options.make_context(argv[0], click.Context(group, info_name="jobgen"))
    unknown = error.option_name if isinstance(error, click.NoSuchOption) else ""
    plain = error.format_message().replace("\n\t", " ")  # a list of choices
    message = f"no such option {unknown}" if unknown else plain
    if context.info_name == "run" and pick(argv, (".py",)):  # run itself needs an allocation
        context = options.make_context("submit", context)
    answer = _explain_foreign(context, argv) if unknown or context.parent else ""
    answer = answer or _explain_words(message, unknown, context, argv)
    message = f"{message.rstrip('.')}; {answer}" if answer else message
    return name_known(message)


def _explain_foreign(context: click.Context, argv: Sequence[str]) -> str:
    """Return the line for options of another tool, before a command, or beside a file alone."""
    if argv[0] not in options.list_names(context) and argv[0][:1] != "-":
        return _answer_word(_read_line(argv), context)
    own = [one for one in argv if one in options.list_names(context)]
    # As in -f FILE up: another tool's command, unless it may be the value of an option.
    other = [one for at, one in itertools.pairwise(argv) if at[:1] != "-"]
    if context.parent or not (own or pick(argv, (*SPEC_ENDS, ".py"))):
        return ""
    meant = [*own, *filter(table.list_commands().__contains__, other), "submit"][0]
    return _answer_word(_Line("", "", meant, drop(argv, [meant])), context)


def _explain_words(message: str, unknown: str, context: click.Context, argv: Sequence[str]) -> str:
    """Return what to say of an unknown option, or of other words that a command does not take."""
    words = argv[context.command_path.count(" ") :]
    extra = "".join(re.findall(r"^Got unexpected extra arguments? \((.+)\)$", message)).split()
    pairs = "--set" in options.list_options(context.command)
    bare = _find_bare(words, extra, "=" if pairs else "\0")
    line = Answer(context, words, bare=bare)
    line.extra = drop(extra, pick(extra, FILE_ENDS))  # the first file is none, wherever it stands
    alone = [] if line.respelt else extra  # beside a word that is an option
    answer = _find_usage(message, alone, line, argv)
    if answer or not (extra or unknown or line.respelt):
        return answer
    return line.write(f"{context.command_path} $LINE", unknown)


def _find_bare(words: Sequence[str], extra: Sequence[str], sign: str) -> set[str]:
    """Return the words that are options without their dashes: extra ones, or such with a sign."""
    return {one for one in words if (one in extra or sign in one) and not re.match(PROGRAM, one)}


def _find_usage(message: str, given: Sequence[str], line: typed.Typed, argv: Sequence[str]) -> str:
    """Return what the table says of words that a command does not take."""
    command, path = line.context.command, line.context.command_path.split()
    takes_file = ("argument", FILE) in [(one.param_type_name, one.type) for one in command.params]
    usage = command.collect_usage_pieces(line.context)
    plain, kept = line.plain, " ".join(offer_line(*filter(None, pair)) for pair in line.own)
    specs = pick(plain, SPEC_ENDS)
    others = [*itertools.filterfalse(table.is_spec, filter(os.path.isfile, specs))]
    facts = {
        "message": message,
        "plain": table.join_words(argv),
        "line": offer_line(*drop(specs, others)),
        "others": ", ".join(others),
        "at": command.name or "",
        "first": "".join(given[:1]),
        "site": "".join(search.list_near("".join(argv[-1:]))[:1]),
        "takes": " ".join(name.strip("-") for param in command.params for name in param.opts),
        "COMMAND": " ".join(path[1:]),
        "LINE": offer_line(*drop(argv, others)),
        "OPTIONS": Offered(kept),
        "FILE": Offered(f"{fill_line('$FILE' if takes_file else '$JOB', '', plain)} {kept}"),
        "USAGE": Offered(f"{offer_line(*plain)} {' '.join(usage[1 + len(plain) :])}"),
    }
    half = r" +(?=[ ,]|$)| --set [\w.]+(?= |$)"  # a setting whose value stands apart
    return re.sub(half, "", table.find_rule("usage", facts).get("say", "")).strip()


def name_known(message: str) -> str:
    """Return a message in plain words, with the one script and the one job of this folder."""
    scripts = sorted(pick(os.listdir(), SCRIPT_ENDS))
    some = slice(len(scripts))  # of what needs one
    for form, names in (
        (rf"{_ONE_SCRIPT}\.\.\.", [offer_line(*scripts)][some]),
        (_ONE_SCRIPT, scripts),
        (rf"(type: .*{_ONE_SCRIPT}.*)", [rf"\1; here are {', '.join(scripts)}"][some]),
        (_ONE_JOB, [job.id for job in find.list_jobs()[0]]),
    ):
        message = re.sub(form, names[0], message) if len(names) == 1 else message
    for words, plain in table.load_table()["plain"].items():
        message = re.sub(words, plain, message)
    return message
