"""Causes that lie with the nodes: the environment there, memory, GPUs, the network.

The messages are those of torch, NCCL and container runtimes. `tests/diagnose/logs/` has an output
for each. The first that matches counts.
"""

from jobgen.diagnose.cause import ALL, NODE, RANK, Cause

KILLED = Cause(
    "killed",
    "it was killed (SIGKILL): by the system for want of memory, or by somebody",
    "the node's kernel log (`dmesg`, `journalctl -k`) shows the former; ask for more with "
    "resources.memory_per_node",
    ("agent",),
    r": line \d+:\s+\d+ Killed\s",
    own=r"the shell around the agent was killed",
)
CAUSES = (
    Cause(
        "port-in-use",
        "another program has the port",
        "a program that opens a fixed port (a debugger, TensorBoard) must do so on one rank only; "
        "if none does, submit again: the port follows from the job's id",
        ALL,
        r"EADDRINUSE|[Aa]ddress already in use",
        own=r"error: port \d+ on \S+ is in use",
        of_machine=True,
    ),
    KILLED,
    Cause(
        "name-resolution",
        "a host name cannot be resolved on this node",
        "between nodes: set launch.interface, so that addresses are used; to the outside: compute "
        "nodes often have no internet, so fetch models and data on a login node first",
        ALL,
        r"Name or service not known|[Tt]emporary failure in name resolution",
        own=r"error: \S+ cannot resolve the name of the first node",
    ),
    Cause(
        "no-internet",
        "the program wants something from the internet, which this node cannot reach",
        "fetch it on a login node first, and set HF_HUB_OFFLINE=1 or the like in "
        "environment.variables; some sites have a proxy",
        ALL,
        # Who is refused, or answered without TLS, has reached a host.
        r"couldn't connect to 'https?://|Max retries exceeded with url(?!.*(refused|WRONG_VERSION))"
        r"|LocalEntryNotFoundError|huggingface_hub.*(Connect|Offline)"
        r"|URLError(?!.*(refused|WRONG_VERSION))|ProxyError",
    ),
    Cause(
        "module-missing",
        "an environment module could not be loaded",
        "try `module load` in a job on that node; modules can differ between node types; without a "
        "module command, let environment.setup source its init file, and load them there",
        ALL,
        r"Lmod has detected the following error"
        r"|Unable to locate a modulefile|ModuleCmd_Load.*ERROR",
        own=r"module (reset|load) failed on|there is no module command on|no folder of modules on",
    ),
    Cause(
        "container",
        "the container could not be started",
        "check environment.container: the image's path as seen by the node, and its binds",
        ALL,
        r"FATAL:.*(image|container|bind|mount|namespace)|pyxis: .*(fail|error)"
        r"|\[ERROR\].*enroot|nvidia-container-cli: ",
        own=r"error: (no such container image|no container image on \S+"
        r"|there is no command on \S+):",
    ),
    Cause(
        "launcher",
        "MPI cannot begin in processes that are started like this",
        "load the MPI that the site has built for its scheduler, or let its mpiexec start them: "
        "launch.launcher",
        NODE,
        r"not built with SLURM's PMI support|PML \S+ cannot be selected"
        r"|No components were able to be opened in the \w+ framework",
        own=r"there is no (?!torch|python3|conda|module|command)\w+ on |there is no pbsdsh command "
        r"|mpiexec has (set none of|not numbered)"
        r"|this mpiexec is none of"
        r"|rank \d+ is number \d+ on \S+, where this script has put another",
    ),
    # Memory.
    Cause(
        "gpu-busy",
        "another process holds memory of the same GPU",
        "let each process use the GPU of its LOCAL_RANK; if it does, another program is on the "
        "node: ask for whole nodes",
        RANK,
        r"CUDA out of memory.* Process \d+ has [\d.]+ GiB memory in use\. Including",
    ),
    Cause(
        "out-of-memory-gpu",
        "a GPU's memory is used up",
        "use a smaller micro-batch (accumulate to keep the batch), activation checkpointing or "
        "FSDP; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True helps against fragmentation",
        RANK,
        r"(CUDA|HIP|XPU|NPU) out of memory|Cuda failure \d* ?'out of memory'"
        r"|CUDA error: out of mem"
        r"|CUDNN_STATUS_ALLOC_FAILED|CUBLAS_STATUS_ALLOC_FAILED|hipErrorOutOfMemory"
        r"|RESOURCE_EXHAUSTED: .*(?i:out of memory)|Free memory on device .* is less than desired"
        r"|No available memory for the cache blocks|OOM when allocating tensor.*GPU",
    ),
    Cause(
        "shared-memory",
        "shared memory (/dev/shm) is used up",
        "use fewer data-loader workers, or torch.multiprocessing.set_sharing_strategy("
        "'file_system'); in a container, bind /dev/shm",
        NODE,
        r"unable to (open|mmap|write|allocate) (a )?shared memory|insufficient shared memory"
        r"|DataLoader worker \(pid.*\) is killed by signal: Bus error|/dev/shm.*No space",
    ),
    Cause(
        "out-of-memory-host",
        "the memory of the node, or of the job on it, is used up",
        "ask for more with resources.memory_per_node; fewer data-loader workers use less; a "
        "`ulimit -v` in environment.setup limits it too",
        NODE,
        r"\bMemoryError\b|_ArrayMemoryError|DefaultCPUAllocator: can't allocate memory"
        r"|[Cc]annot allocate memory|std::bad_alloc|memory allocation of .* failed"
        r"|killed due to (memory pressure|the node running low on memory)",
    ),
    # GPUs and drivers.
    Cause(
        "gpu-error",
        "a GPU failed",
        "leave that node out and tell your administrators",
        ALL,
        r"\bXid\b(?!.*: (13|31|43|45)\b).*\d+|[Uu]ncorrectable .{0,20}\berror|GPU.IS.LOST"
        r"|GPU is lost|fallen off the bus|CUDA error: hardware stack error"
        r"|Unable to determine the device handle|system not yet initialized"
        r"|(?i:cuda_?error_?(system_?not_?ready|ecc_?uncorr|hardware_?stack|nvlink_?uncorr))"
        r"|error in the Fabric Manager or NVSwitches",
        of_machine=True,
    ),
    Cause(
        "gpu-error",
        "the program on a GPU failed, or the GPU",
        "CUDA_LAUNCH_BLOCKING=1 shows where in the program, and the CPU says more; if it "
        "fails on one node alone, leave that node out and tell your administrators",
        ALL,
        # The errors after which no call of the process works (CUDA runtime API, 715 to 719).
        r"CUDA error: (unspecified launch failure|an illegal (memory access|instruction)"
        r"|misaligned address|operation not supported on global|invalid program counter)"
        r"|\bXid\b.*\d+|(?i:CUDA).* error.*: unknown error|(?i:CUDA).*: initialization error"
        r"|CUDA error: device-side assert|thread: \[[\d,]+\] Assertion ",
    ),
    Cause(
        "gpu-shared",
        "two processes of a node use the same GPU",
        "let each use the GPU of its LOCAL_RANK: "
        "torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        ALL,
        r"Duplicate GPU detected",
    ),
    Cause(
        "gpu-busy",
        "another process holds the GPU",
        "let each process use the GPU of its LOCAL_RANK; if it does, another program is on the "
        "node: ask for whole nodes",
        ALL,
        r"(all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable",
        own=r"preflight: (?P<node>\S+): GPU \d+ has [\d.]+ of [\d.]+ GB free",
        of_machine=True,
    ),
    Cause(
        "gpu-missing",
        "a process has no GPU to use",
        "compare resources.gpus_per_node with what the node has, and CUDA_VISIBLE_DEVICES with "
        "the local ranks; a torch built for CPUs alone sees none",
        ALL,
        r"no CUDA-capable device is detected|No (CUDA|HIP) GPUs are available"
        r"|invalid device ordinal|[Nn]o devices were found|needs \d+ GPUs?, (and )?sees"
        r"|^\s*assert .*(is_available|device_count)\(|Torch not compiled with CUDA enabled"
        r"|Unable to initialize backend '(cuda|gpu|rocm)'|Cannot access accelerator device when"
        r"|has no attribute '_cuda_",
        own=r"preflight: (?P<node>\S+): sees \d+ GPUs, plan says \d+"
        r"|error: \S+ shows \S+ GPUs, the job has \S+ of them",
    ),
    Cause(
        "driver-mismatch",
        "the node's driver was replaced, and the old one still runs",
        "leave that node out and tell your administrators",
        ALL,
        r"(?i:driver/library version mismatch)",
        own=r"preflight: (?P<node>\S+): driver \S+, \S+ \S+",
        of_machine=True,
    ),
    Cause(
        "driver-mismatch",
        "the node's driver and this build of torch do not go together",
        "use a torch built for the driver's CUDA (nvidia-smi shows it), or the site's module",
        ALL,
        r"driver (version )?(on your system )?is (insufficient|too old)|no kernel image is "
        r"available|forward compatibility was attempted|unsupported display driver",
    ),
    Cause(
        "file-system",
        "a file system does not answer on this node",
        "submit again; if the same node fails again, leave it out and tell your administrators",
        ALL,
        r"[Ss]tale (NFS )?file handle|Input/output error|[Tt]ransport endpoint|Remote I/O error"
        r"|[Ee]rrno:? ?(5|107|108|116|121)\b",
        of_machine=True,
    ),
    # The network.
    Cause(
        "rendezvous",
        "not all processes came to the rendezvous",
        "look at the log of the rank that is missing",
        RANK,
        r"Timed out after \d+ seconds waiting for clients"
        r"|Timed out initializing process group in store based barrier",
        waits=True,
    ),
    Cause(
        "interface",
        "the network interface does not exist, or is the wrong one",
        "set launch.interface to one that all nodes have (`ip -br addr` on a node lists them)",
        ALL,
        r"no socket interface found|Unable to find (address for|interface)"
        r"|remote=\[(::ffff:)?127\.0\.1\.1\]",
        own=r"error: (\S+ has no interface|the name of \S+ leads to a loopback address)"
        r"|knows no host \S+, as the site's profile|leads to no address for",
    ),
    Cause(
        "nccl-version",
        "nodes or libraries disagree on NCCL's version",
        "use one environment on all nodes; an LD_LIBRARY_PATH with another NCCL wins over torch's",
        ALL,
        r"Mismatched NCCL",
    ),
    Cause(
        "network-hardware",
        "the fast network failed under NCCL",
        "submit again; if the same node fails again, leave it out; NCCL_DEBUG=INFO names the port",
        ALL,
        r"ibv_\w+ failed|NET/(IB|OFI).*(error|failed|No route)|fi_\w+ failed"
        r"|Got completion .* with (error|status)|[Tt]ransport retry count(er)? exceeded"
        r"|hfi units? (are|is) active|can't open hfi unit",
        of_machine=True,
    ),
    Cause(
        "rendezvous",
        "a node could not reach the rendezvous, or not all came to it",
        "look at the agent.log of the node that is missing; if none is, it is a firewall or the "
        "wrong interface: set launch.interface",
        ALL,
        r"client socket has (timed out|failed to connect)|No route to host"
        r"|(connect|connection) to .*timed out"
        r"|failed to connect to .*:\d+|[Cc]onnection refused|connectFullMesh failed",
        own=r"preflight: \S+ cannot reach (?P<node1>\S+) at "
        r"|preflight: (?P<node2>\S+) cannot reach \S+:\d+"
        r"|preflight: (?P<node3>\S+) has not come within \d+ s"
        r"|Ray has waited 600 s for (?P<node4>[^\s,]+)",
        of_group=True,
    ),
)
