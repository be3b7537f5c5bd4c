# bash -c "$(cat probe.sh)" bash RUN_DIR NODE: what a job uses on a node.
# Prints ticks, ns, ticks, ns, bytes, ticks per second and the number of processes. The processes
# are those that have the job's own variables around them; a page that several of them share counts
# once.
pids=$(grep -slzxFe "JOBGEN_RUN_DIR=$1" /proc/[0-9]*/environ |
    xargs -r grep -slzxFe "JOBGEN_NODE=$2" | cut -d/ -f3)
count() {
    local sum=0 pid stat
    for pid in $pids; do
        { stat=$(</proc/$pid/stat); } 2>/dev/null || continue
        set -- ${stat##*) }
        sum=$((sum + ${12} + ${13}))
    done
    echo $sum $(date +%s%N)
}
count
sleep 1
count
for pid in $pids; do cat "/proc/$pid/smaps_rollup" 2>/dev/null; done |
    awk '/^Pss:/ { kib += $2 } END { printf "%.0f\n", kib * 1024 }'
echo $(getconf CLK_TCK) $(wc -w <<<"$pids")
