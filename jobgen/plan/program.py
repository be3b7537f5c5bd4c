"""The program: the words that each process runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from glob import glob
from itertools import pairwise

from jobgen.errors import UsageError
from jobgen.plan.array import keep_own_args, list_tasks
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import Plan, Program, ShellPath
from jobgen.sites.profile import SiteModules
from jobgen.spec.array import Array
from jobgen.spec.commands import find_unexpanded, is_shell_command, walk_texts
from jobgen.spec.launchers import find_launcher
from jobgen.spec.load import LoadedSpec
from jobgen.spec.model import ONE_A_NODE, Environment
from jobgen.spec.value_types import NAME, make_words

_SRUN_FILES = re.compile("(-[eio]|--(error|input|output))(=|$)")
_PROGRAM = re.compile(r"(^|/)python[\d.]*$|\.(py|sh)$")


def decide(context: Context, plan: Plan) -> Decision[Program]:
    """Decide the program: of all tasks of an array, or of one that is a separate job."""
    loaded, spec = context.loaded, context.spec
    if plan.roles.members:  # each has its own
        return Decision(Program(spec.name))
    if spec.array is None and context.task is not None:
        raise UsageError(f"--task {context.task}: {loaded.file} has no array")
    command = tuple(_list_words(loaded))
    program = Program(spec.name, command, _find_script(loaded))
    if spec.array is not None and not plan.array.tasks:
        program = _make_task(context, spec.array, program)
    agent = _find_lonely_agent(context, plan)
    rules = {"lonely_agent": agent, "long_name": not NAME.matches(program.name)}
    problems = context.refuse(rules, launcher=agent, nodes=plan.nodes, program=program)
    return Decision(program, problems=problems, notes=_list_notes(context, plan))


def _make_task(context: Context, array: Array, program: Program) -> Program:
    tasks, task, name = list_tasks(context.loaded), context.task, program.name
    if task is not None:
        if not 0 <= task < len(tasks):
            raise UsageError(f"--task {task}: the tasks are 0 to {len(tasks) - 1}")
        name += f"-{task:0{len(str(len(tasks) - 1))}}"
    arguments, variables = tasks[task or 0]
    return program._replace(
        name=name,
        command=(*program.command, *arguments),
        variables=variables,
        task=str(task or 0),
        number=str(array.number(task or 0)),
        task_given=task is not None,
    )


def _find_lonely_agent(context: Context, plan: Plan) -> str | None:
    """Return an agent of the user's own that starts on each node and is not told of the others."""
    words = context.spec.run.words
    if plan.nodes.total == 1 or context.spec.launches_itself:
        return None
    text = " ".join(words).replace("_", "-")
    counts = re.search("--(nnodes|num-machines)", text)
    meets = counts and re.search("--(node-rank|rdzv-endpoint|rdzv-backend)", text)
    return None if meets or "--machine-rank" in text else find_launcher(words)


def _list_notes(context: Context, plan: Plan) -> Iterator[str]:
    loaded, spec = context.loaded, context.spec
    run, array = spec.run, spec.array
    if run.command:
        yield from _list_command_warnings(context, run.command)
    yield from warn_unexpanded(loaded, "run.args", run.listed_args)
    yield from warn_unexpanded(loaded, "run.args", keep_own_args(loaded))
    for kind, content in array._asdict().items() if array else ():
        yield from warn_unexpanded(loaded, f"array.{kind}", content)
    # Torch is looked for, and the job names no environment.
    bare = spec.environment == Environment() and context.site.modules == SiteModules()
    asks = run.command is None or plan.nodes.gpus or spec.launch.mode in ONE_A_NODE
    yield from context.note({"no_torch": context.site.can.batch and bare and not asks})


def _list_command_warnings(context: Context, command: Sequence[str]) -> Iterator[str]:
    file = command[0]
    yield from context.warn({"on_path": re.fullmatch(r"[^/]+\.py", file)}, file=file)
    if not is_shell_command(command):
        yield from warn_unexpanded(context.loaded, "run.command", tuple(_leave_out_srun(command)))


def _leave_out_srun(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, empty where srun fills in a %: the names of its files."""
    own = command[0].endswith("srun")
    for before, word in pairwise(("", *command)):
        own = own and not _PROGRAM.search(word)
        yield "" if own and _SRUN_FILES.match(word if "=" in word else before) else word


def warn_unexpanded(loaded: LoadedSpec, path: str, value: object) -> Iterator[str]:
    """Yield warnings of texts in a value that the program gets as they are, unlike in a shell."""
    for inner, text in walk_texts(value, path):
        # A name like a role's that no role has is for `check` to tell.
        of_role = re.match(r"\w+:.*\$\{?(?!MASTER_)[A-Z]\w*_(ADDR|PORT)\b", f"{loaded.role}:{text}")
        for conflict in () if of_role else find_unexpanded(inner, text):
            yield f"warning: {loaded.problem(*conflict)}"


def read_sources(plan: Plan) -> str | None:
    """Return a program's command, and the files that it names; None if one is not here."""
    command, environment = plan.program.command, plan.environment
    texts = [*command, environment.setup or "", *map(str, environment.variables.values())]
    for word in (one.removeprefix("$work_dir/") for one in command):
        if word.endswith((".py", ".sh", ".bash", ".sbatch", ".slurm", ".pbs")):
            try:
                with open(word, encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
            except OSError:
                return None
    return "\n".join(texts)


def read_packages(venv: str) -> tuple[list[str], str]:
    """Return what a venv has in its folders of packages, and what the path files there say."""
    from os.path import expanduser

    from jobgen.spec.table import read_here  # a render asks for neither

    files = glob(f"{expanduser(venv)}/lib*/python*/site-packages/*")
    return files, "".join(read_here(one) for one in files if one.endswith(".pth"))


def find_module(module: str, project: str = ".") -> tuple[str, str]:
    """Return the only folder of a project below which a module is, and its file; else nothing."""
    base = module.replace(".", "/")
    forms = (f"{base}.py", f"*/{base}.py", f"*/{base}/*.py")
    files = [file for form in forms for file in glob(form, root_dir=project)]
    folders = {file.removesuffix(f"{base}.py").partition("/")[0] for file in files}
    return (folders.pop(), files[0]) if len(folders) == 1 else ("", "")


def make_path(text: str) -> ShellPath:
    """Return a path that no program reads as an option."""
    return ShellPath(f"./{text}" if text.startswith("-") else text)


def _find_script(loaded: LoadedSpec) -> ShellPath | None:
    """Return the program's file; None without one, or if it may lie in a container's image."""
    script = loaded.spec.run.script or loaded.spec.run.body
    if script is None or loaded.spec.environment.container is not None:
        return None
    return make_path(script)


def _list_words(loaded: LoadedSpec) -> Iterator[str]:
    """Yield the words that one process runs, without what tasks of an array give themselves.

    The interpreter is the environment's own python3.
    """
    run = loaded.spec.run
    if run.command is not None:
        yield from run.command
    elif run.script is not None:
        yield from ("python3", "-u", make_path(run.script))
    elif run.body is not None:
        # The setup may leave the folder of submission, but not the copy that a snapshot is.
        inside = loaded.spec.snapshot or run.body.startswith(("/", "~", "$"))
        yield from ("bash", make_path(run.body) if inside else ShellPath(f"$work_dir/{run.body}"))
    else:
        yield from ("python3", "-u", "-m", run.module or "")
    yield from run.listed_args
    for key, value in keep_own_args(loaded).items():
        yield from make_words(key, value)
