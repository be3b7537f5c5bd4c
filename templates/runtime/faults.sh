# By the causes that jobgen diagnose knows; made by docs/generate.py.
FAULTS='restart preflight preflight: [^ :]+: 
restart launch-failed Task launch for \S+ failed on node (\S+?): |Could not run prolog
restart launch-failed [Pp]rolog (error|hook failure|failed)|Prolog error
restart launch-failed error launching .* on (\S+)|[Uu]nable to (create|contact) .*slurmstepd
restart launch-failed slurmstepd: error: execve\(\): \S+/slurm_script: 
restart node-lost ^node lost( \(no sign of life from ([^,)]+))?|\bNODE_FAIL\b|\bBOOT_FAIL\b
restart node-lost DUE TO (\S+ )?NODE FAILURE|Node failure on (\S+)
restart node-lost job killed: node \d+ \(([^)]+)\)|requested job die
restart node-lost nothing is heard from ([^\s;]+)|FAILED: (\S+) is lost: 
restart port-in-use error: port \d+ on \S+ is in use|EADDRINUSE|[Aa]ddress already in use
restart gpu-error \bXid\b(?!.*: (13|31|43|45)\b).*\d+|[Uu]ncorrectable .{0,20}\berror|GPU.IS.LOST
restart gpu-error GPU is lost|fallen off the bus|CUDA error: hardware stack error
restart gpu-error Unable to determine the device handle|system not yet initialized
restart gpu-busy (all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy or unavailable
restart driver-mismatch Driver/library version mismatch
restart file-system [Ss]tale (NFS )?file handle|Input/output error|Transport endpoint
restart file-system transport endpoint|Remote I/O error|[Ee]rrno:? ?(5|107|108|116|121)\b
restart file-system Host is down
restart network-hardware ibv_\w+ failed|Call to ibv_|IBV_WC_\w+
restart network-hardware NET/(IB|OFI).*(error|failed|No route)|fi_\w+ failed
restart network-hardware local catastrophic error|Got completion .* with (error|status)
restart network-hardware cxil?_\w+.*fail
stop out-of-memory-host OUT_OF_MEMORY|[Oo]ut [Oo]f [Mm]emory handler|[Dd]etected \d+ oom[-_]kill
stop out-of-memory-host job killed: (v?mem|pmem|pvmem) \S+ exceeded limit
stop out-of-memory-host Exceeded (job|step) memory limit|Memory cgroup out of memory|oom-kill:
unknown unclear : line \d+:\s+\d+ Killed\s|gai error|Name or service not known
unknown unclear [Tt]emporary failure in name resolution|\bgetaddrinfo\b.*fail
unknown unclear CUDA error: (unspecified launch failure|an illegal memory access|misaligned address)
unknown unclear HSA_STATUS_ERROR|\bXid\b.*\d+|(?i:CUDA).* error.*: unknown error
unknown unclear no CUDA-capable device is detected|No CUDA GPUs are available
unknown unclear invalid device ordinal|No HIP GPUs are available|[Nn]o devices were found
unknown unclear CUDA_ERROR_NO_DEVICE|needs \d+ GPUs?, (and )?sees
unknown unclear client socket has (timed out|failed to connect)|RendezvousTimeoutError
unknown unclear No route to host|Timed out after \d+ seconds waiting for clients
unknown unclear (connect|connection) to .*timed out|failed to connect to .*:\d+
unknown unclear [Cc]onnection refused|connectFullMesh failed
unknown unclear DataLoader worker .*(exited unexpectedly|is killed by signal)|ncclSystemError
unknown unclear ncclUnhandledCudaError|ncclInternalError|ncclInvalidUsage|NCCL error
unknown unclear NCCL WARN .*(failed|closed)
unknown waited Timed out after \d+ seconds waiting for clients
unknown waited Watchdog caught collective operation timeout
unknown waited [Tt]imed out waiting \d+ms for (recv|send)|Ranks .* failed to pass monitoredBarrier
unknown waited DEADLINE_EXCEEDED: Barrier timed out|not all of them arrived on time
unknown waited Termination timeout for `|wait timeout after \d+ms
unknown waited ran for \d+ milliseconds before timing out|TimeoutError: no progress for [\d.]+ s in
unknown waited jobgen\.trainer: error: no progress for'
