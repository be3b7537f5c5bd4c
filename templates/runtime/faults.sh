# By the causes that jobgen diagnose knows; made by docs/generate.py.
FAULTS='restart preflight preflight: [^ :]+: 
restart launch-failed Task launch for \S+ failed on node (\S+?): |Could not run prolog|[Pp]rolog (error|hook failure|failed)|Prolog error|error launching .* on (\S+)|[Uu]nable to (create|contact) .*slurmstepd|slurmstepd: error: execve\(\): \S+/slurm_script: |Munge (en|de)code failed|(srun|slurmstepd): .*Invalid user id
restart node-lost ^node lost( \(no sign of life from ([^,)]+))?|\bNODE_FAIL\b|\bBOOT_FAIL\b|DUE TO (\S+ )?NODE FAILURE|Node failure on (\S+)|job killed: node \d+ \(([^)]+)\)|requested job die|Remote daemon: .* on node (\S+)|nothing is heard from ([^\s;]+)|FAILED: (\S+) is lost: 
restart port-in-use error: port \d+ on \S+ is in use|EADDRINUSE|[Aa]ddress already in use
restart gpu-error \bXid\b(?!.*: (13|31|43|45)\b).*\d+|[Uu]ncorrectable .{0,20}\berror|GPU.IS.LOST|GPU is lost|fallen off the bus|CUDA error: hardware stack error|Unable to determine the device handle|system not yet initialized
restart gpu-busy (all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable
restart driver-mismatch Driver/library version mismatch
restart file-system [Ss]tale (NFS )?file handle|Input/output error|Transport endpoint|transport endpoint|Remote I/O error|[Ee]rrno:? ?(5|107|108|116|121)\b|Host is down
restart network-hardware ibv_\w+ failed|Call to ibv_|IBV_WC_\w+|NET/(IB|OFI).*(error|failed|No route)|fi_\w+ failed|local catastrophic error|Got completion .* with (error|status)|cxil?_\w+.*fail
stop out-of-memory-host OUT_OF_MEMORY|[Oo]ut [Oo]f [Mm]emory handler|[Dd]etected \d+ oom[-_]kill|job killed: (v?mem|pmem|pvmem) \S+ exceeded limit|Exceeded (job|step) memory limit|Memory cgroup out of memory|oom-kill:
unknown killed : line \d+:\s+\d+ Killed\s
unknown name-resolution gai error|Name or service not known|[Tt]emporary failure in name resolution|\bgetaddrinfo\b.*fail
unknown no-space cannot create temp file for here-document: No space|No space left on device: .?/(tmp|var|local)\b
unknown gpu-error CUDA error: (unspecified launch failure|an illegal (memory access|instruction))|CUDA error: misaligned address|HSA_STATUS_ERROR|\bXid\b.*\d+|(?i:CUDA).* error.*: unknown error
unknown gpu-missing no CUDA-capable device is detected|No CUDA GPUs are available|invalid device ordinal|No HIP GPUs are available|[Nn]o devices were found|CUDA_ERROR_NO_DEVICE|needs \d+ GPUs?, (and )?sees
unknown waited Timed out after \d+ seconds waiting for clients|Timed out initializing process group in store based barrier|Watchdog caught collective operation timeout|[Tt]imed out waiting \d+ms for (recv|send)|Ranks .* failed to pass monitoredBarrier|DEADLINE_EXCEEDED: Barrier timed out|not all of them arrived on time|Termination timeout for `|wait timeout after \d+ms|ran for \d+ milliseconds before timing out|\b[Nn]o (step|progress) (for|in|since|within) [\d.]+ ?s
unknown rendezvous client socket has (timed out|failed to connect)|RendezvousTimeoutError|No route to host|Timed out after \d+ seconds waiting for clients|(connect|connection) to .*timed out|failed to connect to .*:\d+|[Cc]onnection refused|connectFullMesh failed
unknown data-loader DataLoader worker .*(exited unexpectedly|is killed by signal)
unknown nccl ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|NCCL error|NCCL WARN .*(failed|closed)'
