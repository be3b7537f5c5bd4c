"""Causes that the job script and its preflight name in their own words (`templates/`).

Only these are looked for in jobgen's own lines, and nowhere else.
"""

from jobgen.diagnose.cause import ALL, SCHEDULER, Cause, Where

_SAID: tuple[Where, ...] = ("agent", "script")
_RENDER = "render the script again and submit it with `jobgen submit`"

_KILLED = "it was killed (SIGKILL): by the system for want of memory, or by somebody"
_KILLED_BY = (
    "the node's kernel log (`dmesg`, `journalctl -k`) shows the former; ask for more with "
    "resources.memory_per_node"
)

_CAUSES = (
    # How it ended.
    Cause(
        "node-lost",
        (*SCHEDULER, "agent"),
        r"nothing is heard from (?P<node1>[^\s;]+)|FAILED: (?P<node2>\S+) is lost: ",
        "a node was lost",
        "submit again; {leave_out}, and tell your administrators",
        fault="machine",
    ),
    Cause(
        "dependency",
        SCHEDULER,
        r"error: job \S+ has (not )?ended well, so this one does not run"
        r"|error: there is no job \S+ below \S+ to wait for",
        "the job that it waits for failed, so it will never start",
        "cancel it, repair the first job, and submit both again; afterany waits for any end",
    ),
    Cause(
        "cancelled",
        SCHEDULER,
        r"ENDED by SIG",
        "the job was cancelled",
        "nothing is wrong, if that was you",
    ),
    Cause(
        "killed",
        ("agent",),
        r"the shell around the agent was killed",
        _KILLED,
        _KILLED_BY,
        fault="unknown",
    ),
    Cause(
        "killed",
        SCHEDULER,
        r"FAILED with exit code 137: (rank \d+ on )?(?P<node>[^\s,]+), by",
        _KILLED,
        _KILLED_BY,
        symptom=True,
        fault="unknown",
    ),
    # What preflight finds, of older jobs too; it names the node that differs.
    Cause(
        "driver-mismatch",
        ALL,
        r"preflight: (?P<node>\S+): (?P<key>driver) \S+, \S+ \S+",
        "the nodes have different drivers",
        "ask for nodes that are alike, or tell the administrators",
        fault="machine",
    ),
    Cause(
        "version-mismatch",
        ALL,
        r"preflight: (?P<node1>\S+): (?P<key>\S+) \S+, (others|\S+) [^\s;]+(;|$)"
        r"|preflight: (?P<node2>\S+): (has|lacks) .*, unlike the others",
        "packages differ between nodes",
        "build the environment on a file system that all nodes share",
        fault="unknown",
    ),
    Cause(
        "clock",
        ALL,
        r"preflight: (?P<node>\S+): clock [\d.]+ s (ahead|behind)",
        "a node's clock is wrong",
        "tell the administrators; leave the node out until then",
        fault="machine",
    ),
    Cause(
        "gpu-missing",
        ALL,
        r"preflight: (?P<node>\S+): sees \d+ GPUs, plan says \d+",
        "a node does not see all its GPUs",
        "look at nvidia-smi there, and at CUDA_VISIBLE_DEVICES; leave the node out",
        fault="machine",
    ),
    Cause(
        "gpu-busy",
        ALL,
        r"preflight: (?P<node>\S+): GPU \d+ has [\d.]+ of [\d.]+ GB free",
        "another program is on a GPU of a node",
        "ask for whole nodes, or leave the node out and tell the administrators",
        fault="machine",
    ),
    Cause(
        "gpu-slow",
        ALL,
        r"preflight: (?P<node>\S+): process \d+ multiplies at \S+ TFLOP/s",
        "a GPU of a node is slow, or throttled",
        "look at clocks and temperatures in nvidia-smi -q there; leave the node out, and tell "
        "the administrators",
        fault="machine",
    ),
    Cause(
        "no-space",
        _SAID,
        r"preflight: (?P<node>\S+): [\d.]+ GB free in its (TMPDIR|run folder)"
        r"|error: cannot write to /tmp on (?P<node2>\S+)",
        "a file system of a node is almost full, or may not be written",
        "make room there; `df` on the node tells which it is",
        fault="machine",
    ),
    Cause(
        "rendezvous",
        _SAID,
        r"preflight: \S+ cannot reach (?P<node1>\S+) at "
        r"|preflight: (?P<node2>\S+) cannot reach \S+:\d+"
        r"|preflight: (?P<node3>\S+) has not come within \d+ s"
        r"|Ray has waited 600 s for (?P<node4>[^\s,]+)",
        "the others cannot reach a node, or it cannot reach them",
        "set launch.interface, or ask whether a firewall stands between nodes",
        fault="machine",
    ),
    Cause(
        "preflight",
        ALL,
        r"preflight failed on (?P<node>\S+);",
        "preflight failed",
        "the lines before it say why; preflight/ of the run folder describes each node",
        vague=True,
        fault="unknown",
    ),
    # How it was submitted.
    Cause(
        "wrong-node-count",
        ("script",),
        r"this script is for \d+ nodes?( and more)?, the job has",
        "the job was given another number of nodes than its script is for",
        "submit without {nodes} on the command line, or render for that number",
    ),
    Cause(
        "not-submitted",
        ("script",),
        r"this is no (PBS job|Slurm job|array); submit this file"
        r"|there is no task \d+: this script is",
        "the script was not started by its scheduler, or not as the array that it is",
        _RENDER,
    ),
    Cause(
        "launcher",
        _SAID,
        r"there is no (?!torch|python3|conda|module|command)\w+ on |there is no pbsdsh command "
        r"|mpiexec has (set none of|not numbered)"
        r"|this mpiexec is none of"
        r"|rank \d+ is number \d+ on \S+, where this script has put another",
        "the launcher does not exist on the node, or is not the one that the script is for",
        "set launch.launcher to one that the site has, or load the module with its mpiexec",
    ),
    Cause(
        "chain-ended",
        ("script",),
        r"the chain ends( without DONE)?: |JOBGEN_CHAIN is (no|not the) id of a job",
        "the chain of jobs has ended before the run was done",
        "if it saved nothing: save below checkpoints/ of the run folder or write PROGRESS there, "
        "more often, or ask for a longer walltime; if it had all its starts, raise "
        "on_walltime.at_most",
    ),
    Cause(
        "run-folder",
        _SAID,
        r"cannot (make the run folder|write to \S+/attempts)",
        "the run folder could not be written",
        "submit from a file system that has room and that compute nodes mount for writing",
        vague=True,
        fault="unknown",
    ),
    # What it found on a node.
    Cause(
        "environment-missing",
        _SAID,
        r"error: (no virtual environment|no packed environment|conda-unpack failed) on"
        r"|there is no (torch|python3|conda command) on|conda activate failed on"
        r"|cannot unpack on \S+, with|no bin/activate is at the top of"
        r"|pack it with conda-pack or venv-pack",
        "the Python environment does not exist on this node, or cannot be unpacked",
        "check environment.venv or stage; it must lie on a file system that all nodes share",
        per_node=True,
        fault="unknown",
    ),
    Cause(
        "module-missing",
        _SAID,
        r"module (reset|load) failed on|there is no module command on|no folder of modules on",
        "an environment module could not be loaded",
        "try `module load` in a job on that node; modules can differ between node types",
        per_node=True,
        fault="unknown",
    ),
    Cause(
        "container",
        _SAID,
        r"error: (no such container image|no container image on \S+|there is no command on \S+):",
        "the container's image or its runtime does not exist on this node",
        "check environment.container: the image's path on the node, and the runtime's module",
        per_node=True,
        fault="unknown",
    ),
    Cause(
        "interface",
        _SAID,
        r"error: (\S+ has no interface|the name of \S+ leads to a loopback address)"
        r"|knows no host \S+, as the site's profile"
        r"|leads to no address for",
        "a node lacks the network interface or the address that the others use",
        "set launch.interface to one that all nodes have (`ip -br addr` on a node lists them)",
        per_node=True,
        fault="unknown",
    ),
    Cause(
        "gpu-missing",
        _SAID,
        r"error: \S+ shows \S+ GPUs, the job has \S+ of them",
        "PBS does not say which of the node's GPUs belong to the job",
        "ask for whole nodes, or set CUDA_VISIBLE_DEVICES in environment.variables",
        per_node=True,
    ),
    Cause(
        "file-missing",
        _SAID,
        r"error: no such file in ",
        "the program's file does not exist",
        "paths are relative to the folder you submit from",
    ),
    Cause(
        "variable-missing",
        _SAID,
        r"error: the submitting shell has no variable \S+; export it there",
        "a variable of environment.from_shell was not set where the job was submitted",
        "export it there, and submit again",
    ),
    Cause(
        "setup",
        _SAID,
        r"a command of the spec's setup failed",
        "a command of environment.setup failed",
        "the lines before it in agent.log say which",
        per_node=True,
    ),
    Cause(
        "never-began",
        _SAID,
        r"the program never began on \S+;",
        "the program never began",
        "environment.setup may have left the shell (exit), or changed PATH; see agent.log",
        per_node=True,
        vague=True,
    ),
    Cause(
        "port-in-use",
        _SAID,
        r"error: port \d+ on \S+ is in use",
        "another program has the port",
        "submit again: the port follows from the job's id",
        fault="machine",
    ),
    Cause(
        "name-resolution",
        _SAID,
        r"error: \S+ cannot resolve the name of the first node",
        "this node cannot resolve the first node's name",
        "set launch.interface, so that the address is used",
        per_node=True,
        fault="unknown",
    ),
    Cause(
        "worlds",
        ("script",),
        r"FAILED: \d+ worlds of \d+, and not one of \d+",
        "the program started torchrun or another launcher by itself on each node",
        "name the program that it starts in run.script, and let jobgen start it",
    ),
    Cause(
        "tasks",
        ("script",),
        r"FAILED: \d+ of \d+ tasks",
        "tasks of the array have failed",
        "diagnose one of them: `jobgen diagnose ID_INDEX`",
    ),
)
CAUSES = tuple(cause._replace(own=True) for cause in _CAUSES)
