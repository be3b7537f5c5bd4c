"""Causes that lie with the program, its files and its packages; and what is only a consequence.

The messages are Python's, torch's and NCCL's. `tests/diagnose/logs/` has an output for each. The
first that matches counts, so the order matters: what is more special stands before what is more
general (a file cut short before a library that cannot be loaded), and consequences stand last.
"""

from jobgen.diagnose.cause import ALL, NODE, RANK, Cause
from jobgen.diagnose.machine import KILLED

# A job that is alive is found to hang by what it writes, not by a message.
HANG = Cause(
    "hang",
    "no rank made progress any more",
    "look at the rank that is behind: its log, its stacks (hangs/ of the bundled trainer, or "
    "`py-spy dump --pid` on its node while it hangs), and what it reads from",
    RANK,
    r"\b[Nn]o (step|progress) (for|in|since|within) [\d.]+ ?s",
    waits=True,
)

# Time-outs among ranks; the rank that is missing in the collective is the one to look at.
TIMEOUT = Cause(
    "collective-timeout",
    "the ranks waited in vain for one of them",
    "look at the rank that did not take part: its log, and errors/*-flight-*; ranks must run "
    "the same collectives in the same order",
    RANK,
    r"Watchdog caught collective operation timeout|[Tt]imed out waiting \d+ms for (recv|send)"
    r"|Ranks .* failed to pass monitoredBarrier|DEADLINE_EXCEEDED: Barrier timed out"
    r"|not all of them arrived on time|Termination timeout for `"
    r"|wait timeout after \d+ms",
    waits=True,
)

# What to do where all took part.
SAME_ORDER = (
    "ranks of a group must run the same collectives, in the same order, with the same peers"
)

EXCEPTION = Cause("exception", "it raised an exception", "look at the place above")

CAUSES = (
    Cause(
        "store-key",
        "it waited in vain for a key of the program's own store",
        "look for who sets that key, under which name, and whether it came that far",
        RANK,
        r"wait timeout after \d+ms, keys: (?!\S*//c\w+//)",
    ),
    TIMEOUT,
    Cause(
        "collective-mismatch",
        "the ranks do not run the same collective operations in the same order, of the same size",
        "look for code that only some ranks run, or for batches of different shape; "
        "TORCH_DISTRIBUTED_DEBUG=DETAIL in environment.variables compares every operation",
        RANK,
        r"Detected mismatch between collectives on ranks|op\.preamble\.length <= op\.nbytes",
        waits=True,
    ),
    HANG,
    # The program and its files.
    Cause(
        "no-space",
        "a file system is full",
        "free some space, or write elsewhere; `df` and `df -i` on the node say which it is, and "
        "/tmp of a node may be memory; TMPDIR in environment.variables leads elsewhere; `ulimit "
        "-f` may bound a file too",
        ALL,
        r"No space left on device|ENOSPC|basic_ios::clear: iostream error"
        r"|unexpected pos \d+ vs \d+",
        own=r"preflight: (?P<node>\S+): [\d.]+ GB free in its (TMPDIR|run folder)"
        r"|error: cannot write to /tmp on (?P<node2>\S+)",
    ),
    Cause(
        "quota",
        "your quota is used up",
        "remove old files, or write to the project's or the scratch file system",
        ALL,
        r"[Dd]isk quota exceeded",
    ),
    Cause(
        "too-many-files",
        "too many files are open",
        "write `ulimit -n 65536` into environment.setup; fewer data-loader workers open fewer",
        ALL,
        r"[Tt]oo many open files|received 0 items of ancdata",
    ),
    Cause(
        "too-many-threads",
        "no more threads or processes may be started",
        "set OMP_NUM_THREADS and use fewer data-loader workers; `ulimit -u` on the node shows the "
        "limit",
        ALL,
        r"can't start new thread|pthread_create failed|RLIMIT_NPROC"
        r"|fork: (retry: )?Resource temporarily unavailable",
    ),
    Cause(
        "permission",
        "something may not be read, written or run",
        "look who owns it (`ls -ld`), and whether compute nodes mount it for writing; a program "
        "needs `chmod +x`, and a port below 1024 root",
        ALL,
        r"PermissionError: \[|[Pp]ermission denied|Read-only file system",
    ),
    Cause(
        "damaged-file",
        "a file, perhaps a checkpoint, is damaged or cut short",
        "remove it and use the one before; it may have been written while a disk was full",
        NODE,
        r"UnpicklingError(?!.*[Ww]eights.only)|PytorchStreamReader failed"
        r"|BadZipFile|SafetensorError(?!: Error while ser)|: file too short|invalid ELF header",
    ),
    Cause(
        "import",
        "a Python package or a library is missing, or has another version",
        "install it in the job's environment, in versions that go together; if only some nodes "
        "lack it, the environment is not on a shared file system; put the program's own modules on "
        "PYTHONPATH of all ranks",
        NODE,
        r"\bImportError\b(?!.*partially initialized module)|No module named"
        r"|cannot open shared object file|operator \S+::\S+ does not exist"
        r"|undefined symbol|version `?\w+_[\d.]+' not found"
        r"|numpy\.dtype size changed",
    ),
    Cause(
        "compiler",
        "a compiler or linker does not work on this node, as for torch.compile",
        "load a module with gcc and CUDA in environment.modules, or run without torch.compile",
        NODE,
        r"InductorError|BackendCompilerFailed|cannot find (ptxas|-l\w+)|Failed to find C compiler"
        r"|Triton .*error|ptxas .*fatal|InvalidCxxCompiler",
    ),
    Cause(
        "bad-argument",
        "the program does not know one of its arguments",
        "compare run.args with the program's --help",
        NODE,
        r"error: (unrecognized arguments|the following arguments are required|argument \S+:"
        r"|ambiguous option)|[Nn]o such option|nknown command"
        r" line flag|\(--help lists the flags\)|Error: (Invalid value|Missing option|Got "
        r"unexpected)|unexpected keyword arg",
    ),
    Cause(
        "command-missing",
        "a command or the program's file does not exist on this node",
        "check run and environment; the path must be the same on all nodes",
        ALL,
        r"command not found|can't open file '|exec: .*not found",
    ),
    Cause(
        "file-missing",
        "a file that the program wants does not exist",
        "paths are relative to the folder you submit from; the file must be on a file system that "
        "all nodes share; if several ranks write, move or remove it, let one rank do so",
        NODE,
        r"FileNotFoundError|No such file or directory",
        own=r"error: no such file in ",
    ),
    Cause(
        "data-loader",
        "a data-loader worker died",
        "run with num_workers=0 to see its error; a killed one often lacked memory",
        RANK,
        r"DataLoader worker .*(exited unexpectedly|is killed by signal)",
        vague=True,
    ),
    Cause(
        "shape-mismatch",
        "a checkpoint belongs to another model",
        "resume with the settings it was made with, or write to another folder",
        RANK,
        r"size mismatch for|Missing key\(s\) in state_dict|Unexpected key\(s\) in state_dict"
        r"|was made with --",
    ),
    Cause(
        "not-a-number",
        "the loss is no longer a number",
        "lower the learning rate or lengthen its warm-up; use bf16 rather than fp16; look at the "
        "batch of that step",
        RANK,
        r"FloatingPointError|[Ll]oss (is|became|=|:|was)\s*'?(nan|inf)\b|NaN (or Inf )?(found|in|"
        r"detected)|returned nan values",
    ),
    # Consequences: another process went first.
    Cause(
        "peer-lost",
        "it lost the connection to another process, or was stopped",
        "look for what went wrong before",
        ALL,
        r"[Cc]onnection (was likely )?(closed|reset)|(closed|reset) by peer|Broken pipe"
        r"|remote process exited|RendezvousConnection"
        r"Error|DistNetworkError|DistStoreError(?!: wait)|SignalException"
        r"|Process group watchdog thread terminated|Failed to recv, got 0 bytes"
        r"|one of the (ranks|processes|workers)|HorovodInternalError|[Pp]eer process has unexpect"
        r"|another (rank|task)\b|TCPStore.*(recv|connection|wait)",
        symptom=True,
    ),
    Cause(
        "nccl",
        "NCCL has failed",
        "set NCCL_DEBUG=INFO in environment.variables: NCCL's last WARN line says why",
        RANK,
        r"NCCL error|NCCL WARN .*(failed|closed)",
        vague=True,
    ),
)

# How a process ended that said nothing, by the exit code that its agent reports.
EXITS = {
    -9: (
        KILLED.title,
        "look at the node's memory; resources.memory_per_node asks for more",
    ),
    -15: (
        "something outside the job stopped it (SIGTERM)",
        "look for who sent it: a preemption, an administrator, a wrapper",
    ),
    -11: (
        "it made a forbidden memory access (SIGSEGV)",
        "the stack above shows where; often two libraries do not go together: look for mixed CUDA, "
        "MPI or compiler modules",
    ),
    -7: (
        "a bus error ended it (SIGBUS), as when /dev/shm is full or a mapped file was cut",
        "use fewer data-loader workers; in a container, bind /dev/shm",
    ),
    -6: (
        "it aborted (SIGABRT)",
        "libraries do so on an error: the last lines of its log say which",
    ),
    -4: (
        "it met an instruction that this CPU does not know (SIGILL)",
        "some package was built for another CPU; build it on the kind of node it runs on",
    ),
    124: (
        "it left with exit code 124, as the command `timeout` does when its limit is over",
        "look for `timeout` in the command and the scripts that it runs, and allow more",
    ),
    126: (
        "its command cannot be run",
        "check that it is a file, built for this kind of node, and the interpreter in its first "
        "line; of an argument list that is too long, hand over a file",
    ),
    127: (
        "its command does not exist on this node",
        "check run, PATH, environment.modules, and the interpreter in a script's first line",
    ),
}
