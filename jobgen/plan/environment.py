"""What is set up on every node, decided: the spec's own, and the site's where it is silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Problem, SpecError
from jobgen.plan.decision import Context, Decision
from jobgen.plan.plan import NeededPath, NodeEnvironment, Plan, ShellPath
from jobgen.plan.program import make_path, warn_unexpanded
from jobgen.sites.profile import SiteProfile
from jobgen.spec.launchers import find_launch, find_launcher, show_program, split_words
from jobgen.spec.model import Environment, Modules

if TYPE_CHECKING:
    from jobgen.plan.container import Entrance

# Where libraries keep the kernels that they compile, by variable. All but TorchInductor's are in
# the home folder by default: slow where that is shared, and MIOpen's databases break there.
_CACHES = (
    "TRITON_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "MIOPEN_USER_DB_PATH",
    "MIOPEN_CUSTOM_CACHE_DIR",
)

# What has no meaning for bash's parser, and the words that have one.
_PLAIN = r"[A-Za-z0-9_./:=@%+, \t\n-]*"
_RESERVED = "if then elif else fi for while until do done case esac in select function time coproc"

# Where `jobgen submit` has put the copy: the token is in the last line of what it submits.
_ENTER_SNAPSHOT = """\
token=$(sed -n 's/^# submitted by jobgen as //p' "$this_script")
cd "runs/$job_name/code/${token:?the spec wants a snapshot, which jobgen submit makes}"
"""

# What the names of GPUs begin with.
_MAKERS = {"nvidia": r"([AVHBL]|G[HB])[0-9]{2,3}\b|RTX|T4\b", "amd": "MI[0-9]", "intel": "PVC"}


def decide(context: Context, plan: Plan) -> Decision[NodeEnvironment]:
    """Decide the environment; the site's where the spec is silent."""
    own, site = context.spec.environment, context.site
    variables = _choose_variables(own, plan)
    free = variables.keys().isdisjoint
    venv = ".venv" if own.uv else own.venv
    given = (plan.launch.body, own.modules is not None, own.container, venv, own.stage, own.conda)
    conda = own.conda if any(given) else site.modules.conda  # where nothing else has Python
    decided = NodeEnvironment(
        modules=_choose_modules(own, site, bare=plan.launch.body),
        stage=NeededPath(own.stage) if own.stage else None,
        venv=NeededPath(make_path(venv)) if venv else None,
        conda=NeededPath(conda) if conda else None,
        variables=variables,
        setup=_ENTER_SNAPSHOT + (own.setup or "") if context.spec.snapshot else own.setup,
        # Triton's folder follows from TRITON_HOME unless it is named.
        caches=tuple(one for one in _CACHES if free({one, one.replace("CACHE_DIR", "HOME")})),
        from_shell=own.from_shell or (),
        gpu_maker=_guess_vendor(plan.defaults.node.gpu),
    )
    # Roles say it of their own.
    notes = () if plan.roles.members else tuple(_list_warnings(context))
    problems = list(_check_setup(context))
    if own.container is not None:
        from jobgen.plan.container import Entrance

        entrance = Entrance(context, own.container)
        decided = _enter_container(entrance, plan, decided)
        problems += entrance.find_conflicts()
    return Decision(decided, problems=problems, notes=notes)


def _choose_variables(own: Environment, plan: Plan) -> dict[str, str]:
    of_site = {} if plan.launch.body else plan.defaults.variables
    variables: dict[str, str] = {name: ShellPath(value) for name, value in of_site.items()}
    given = {name: _mark(name, value) for name, value in own.named_variables.items()}
    return {**variables, **given, **plan.program.variables}


def _mark(name: str, value: str) -> str:
    """Return the value of a variable, with what it needs if it expands."""
    if not isinstance(value, ShellPath):
        return value
    needed = NeededPath(value)
    needed.adds_to = name
    return needed


def _enter_container(entrance: Entrance, plan: Plan, decided: NodeEnvironment) -> NodeEnvironment:
    gpus = not plan.can.batch or plan.nodes.gpus > 0  # this machine has what it has
    return decided._replace(
        modules=None if entrance.by_srun else decided.modules,
        container=entrance.make_command(vendor=decided.gpu_maker, gpus=gpus),
        step_options=entrance.step_options,
        image_file=entrance.image_file,
    )


def _check_setup(context: Context) -> Iterator[Problem]:
    """Yield what bash says if it cannot parse the setup, alone and as the end of a function.

    Alone, a brace too many counts: it would end the function. In braces, what takes the function's
    end counts: a here-document without its end, a backslash in the last line.
    """
    setup = context.spec.environment.setup
    if setup and not _is_plain(setup):
        from jobgen import process  # it takes milliseconds to import, and most specs have no setup

        where = context.loaded.where("environment.setup")
        try:
            process.check_syntax(setup, where)
            process.check_syntax(f"{{ : ; {setup}\n}}\n", where)
        except SpecError as error:
            yield from error.problems


def _is_plain(setup: str) -> bool:
    """Whether it is plain words and comments, which bash can parse; asking it takes 3 ms."""
    code = re.sub(r"(?<!\S)#.*", "", setup)
    return bool(re.fullmatch(_PLAIN, code)) and {*_RESERVED.split()}.isdisjoint(code.split())


def _list_warnings(context: Context) -> Iterator[str]:
    own = context.spec.environment
    yield from warn_unexpanded(context.loaded, "environment.variables", own.named_variables)
    if launch := split_words(find_launch(own.setup or "")):
        # What launches itself has its setup on the first node alone.
        rules = {"setup_launcher": not context.spec.launches_itself}
        yield from context.warn(rules, launcher=find_launcher(launch), program=show_program(launch))


def _choose_modules(own: Environment, site: SiteProfile, *, bare: bool) -> Modules | None:
    """The spec's own, or the site's; beside a container only those that its runtime needs.

    What is `bare` gets none from the site.
    """
    modules = own.own_modules
    if own.modules is None and not (bare or own.container):
        modules = Modules(site.modules.first, site.modules.use, site.modules.load)
    if own.container is not None and site.container is not None:
        first, use, load = site.container.modules
        modules = Modules(modules.first or first, use + modules.use, load + modules.load)
    modules = modules._replace(use=tuple(NeededPath(make_path(one)) for one in modules.use))
    return None if modules == Modules() else modules


def _guess_vendor(gpu: str | None) -> str | None:
    makers = (maker for maker, form in _MAKERS.items() if gpu and re.match(form, gpu))
    return next(makers, None)
