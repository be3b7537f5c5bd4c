"""Scripts of every kind, as jobgen renders them, by name."""

from itertools import product

from support import EXAMPLES, SITES, plan_of

from jobgen.rendering.render import render

BASE = next(path for path in EXAMPLES if path.stem == "slurm-2x8")
VARIANTS = {
    "static": ["launch.rendezvous=static"],
    "interface": ["launch.interface=hsn0"],
    "modules and venv": ["environment={modules: [a/1, b/2], venv: '~/my venv'}"],
    "modules in full": [
        "environment={modules: {first: purge, use: [$HOME/m], load: [a, b@c]}}",
    ],
    "modules from scratch": ["environment={modules: {first: reset}, conda: ~/envs/a}"],
    "conda": ["environment={conda: base}"],
    "container": [
        "environment={container: {image: a b.sif, runtime: apptainer, binds: [$A/x, '/b:/c:ro']},"
        " venv: v, setup: 'ls', modules: [a]}",
    ],
    "podman": ["environment={container: {image: a/b:1, runtime: podman-hpc, options: [--x=$y]}}"],
    "stage": ["environment={stage: '$HOME/a b.tar.gz'}"],
    "unequal nodes": ["resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}"],
    "unequal processes": ["resources={nodes: 2}", "launch.processes_per_node=[2, 1]"],
    "all asked for": [
        "qos=high",
        "reservation=r1",
        "resources.constraint=a100&nvlink",
        "resources.exclusive=true",
        "notify={email: me@x.org, on: [begin, fail]}",
    ],
    "array": [
        "array={values: {lr: [1e-3, -1], w: [[1, 2], [], true], environment.variables.A: [a b]},"
        " at_once: 2}",
    ],
    "array of numbers": ["array.tasks=3"],
    "array of one": ["array.list=[{}]"],
    "nothing asked for": ["resources={}", "environment=null"],
    "script": ["run={script: $HOME/a b.py, args: [-x, '$(id)', 'a `b`', 'c\\']}"],
    "preflight": ["preflight=true"],
    "unequal nodes, preflight": [
        "preflight=true",
        "resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}",
        "launch.interface=hsn0",
    ],
    "notice": ["on_walltime={notice: 2m}"],
    "further starts": ["on_walltime={then: resubmit, at_most: 3}"],
    "command": ['run={command: [./train, "it\'s"]}', "launch.max_restarts=3"],
}
EXAMPLE_SCRIPTS = {
    f"{path.stem}, {site}": render(plan_of(path.read_text(), site=site))
    for path, site in product(EXAMPLES, SITES)
}
VARIANT_SCRIPTS = {
    f"{name}, {site}": render(plan_of(BASE.read_text(), *overrides, site=site))
    for (name, overrides), site in product(VARIANTS.items(), SITES)
} | {
    f"{runtime}, slurm-generic": render(plan_of(BASE.read_text(), override, scheduler="slurm"))
    for runtime in ("pyxis", "edf")
    for override in [f"environment={{container: {{image: $A/x, runtime: {runtime}}}}}"]
}
for name, override in (
    ("requeue", "on_walltime.then=requeue"),
    ("range of nodes", "resources.nodes={min: 2, max: 4}"),
):
    VARIANT_SCRIPTS[f"{name}, slurm-generic"] = render(
        plan_of(BASE.read_text(), override, site="slurm-generic")
    )
#: those that start an agent on each node, by the scheduler's own launcher
SCRIPTS = EXAMPLE_SCRIPTS | VARIANT_SCRIPTS
OTHER_STARTS = {
    "direct": ["launch={mode: direct}"],
    "direct, unequal nodes": [
        "launch={mode: direct}",
        "preflight=true",
        "resources={gpus_per_node: [8, 2], cpus_per_gpu: 8}",
    ],
    "direct, array": ["launch={mode: direct}", "array.tasks=3"],
    "direct, container": [
        "launch={mode: direct}",
        "environment={container: {image: a b.sif, runtime: apptainer}}",
    ],
    "mpiexec": ["launch={launcher: mpiexec}"],
    "direct by mpiexec": ["launch={mode: direct, launcher: mpiexec}", "on_walltime={notice: 2m}"],
}
STARTED_OTHERWISE = {
    f"{name}, {site}": render(plan_of(BASE.read_text(), *overrides, site=site))
    for (name, overrides), site in product(OTHER_STARTS.items(), SITES)
}
ALL = SCRIPTS | STARTED_OTHERWISE
