"""Causes that the job script and its preflight alone name, in their own words (`templates/`)."""

from jobgen.diagnose.cause import SCHEDULER, Cause
from jobgen.diagnose.machine import KILLED

CAUSES = (
    # What preflight finds, of older jobs too; it names the node that differs.
    Cause(
        "version-mismatch",
        "packages differ between nodes",
        "build the environment on a file system that all nodes share",
        own=r"preflight: (?P<node1>\S+): (?!driver )\S+ \S+, (others|\S+) [^\s;]+(;|$)"
        r"|preflight: (?P<node2>\S+): (has|lacks) .*, unlike the others",
    ),
    Cause(
        "clock",
        "a node's clock is wrong",
        "tell the administrators; leave the node out until then",
        own=r"preflight: (?P<node>\S+): clock [\d.]+ s (ahead|behind)",
        of_machine=True,
    ),
    Cause(
        "gpu-slow",
        "a GPU of a node is slow, or throttled",
        "look at clocks and temperatures in nvidia-smi -q there; leave the node out, and tell "
        "the administrators",
        own=r"preflight: (?P<node>\S+): process \d+ multiplies at \S+ TFLOP/s",
        of_machine=True,
    ),
    Cause(
        "preflight",
        "preflight failed",
        "the lines before it say why; preflight/ of the run folder describes each node",
        own=r"preflight failed on (?P<node>\S+);",
        vague=True,
    ),
    # Where nothing else is left to tell by.
    KILLED._replace(
        where=SCHEDULER,
        pattern="",
        own=r"FAILED with exit code 137: ((rank \d+ on )?(?P<node>[^\s,]+), )?by ",
        symptom=True,
    ),
    # How it was submitted.
    Cause(
        "wrong-node-count",
        "the job was given another number of nodes than its script is for",
        "submit without {nodes} on the command line, or render for that number",
        own=r"this script is for \d+ nodes?( and more)?, the job has",
    ),
    Cause(
        "not-submitted",
        "the script was not started by its scheduler, or not as the array that it is",
        "render the script again and submit it with `jobgen submit`",
        own=r"this is no (PBS job|Slurm job|array); submit this file"
        r"|there is no task \d+: this script is",
    ),
    Cause(
        "chain-ended",
        "the chain of jobs has ended before the run was done",
        "if it saved nothing: save below checkpoints/ of the run folder or write PROGRESS there, "
        "more often, or ask for a longer walltime; if it had all its starts, raise "
        "on_walltime.at_most",
        own=r"the chain ends( without DONE)?: |JOBGEN_CHAIN is (no|not the) id of a job",
    ),
    Cause(
        "run-folder",
        "the run folder could not be written",
        "submit from a file system that has room and that compute nodes mount for writing",
        own=r"cannot (make the run folder|write to \S+/attempts)",
        vague=True,
    ),
    # What it found on a node.
    Cause(
        "environment-missing",
        "the Python environment does not exist on this node, or cannot be unpacked",
        "check environment.venv or stage; it must lie on a file system that all nodes share",
        own=r"error: (no virtual environment|no packed environment|conda-unpack failed) on"
        r"|there is no (torch|python3|conda command) on|conda activate failed on"
        r"|cannot unpack on \S+, with|no bin/activate is at the top of"
        r"|pack it with conda-pack or venv-pack",
    ),
    Cause(
        "variable-missing",
        "a variable of environment.from_shell was not set where the job was submitted",
        "export it there, and submit again",
        own=r"error: the submitting shell has no variable \S+; export it there",
    ),
    Cause(
        "setup",
        "a command of environment.setup failed",
        "look at that command on that node; the lines before it in agent.log say more",
        own=r"a command of the spec's setup failed|the setup ended at: ",
    ),
    Cause(
        "never-began",
        "the program never began",
        "environment.setup may have left the shell (exit), or changed PATH; see agent.log",
        own=r"the program never began on \S+;",
        vague=True,
    ),
    Cause(
        "worlds",
        "the program started torchrun or another launcher by itself on each node",
        "name the program that it starts in run.script, and let jobgen start it",
        where=SCHEDULER,  # it decides: the processes themselves have all ended well
        own=r"FAILED: \d+ worlds of \d+, and not one of \d+",
    ),
    Cause(
        "tasks",
        "tasks of the array have failed",
        "diagnose one of them: `jobgen diagnose ID_INDEX`",
        own=r"FAILED: \d+ of \d+ tasks",
    ),
)
