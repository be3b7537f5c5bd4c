"""Scripts of pieces that readers of shell stumble over."""

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [
        *("#!/bin/bash", "#SBATCH --nodes=2", "#PBS -l select=2:ncpus=8", "# SBATCH -N 2", "#PBS"),
        *("srun -K", "pbsdsh", "torchrun", "--nnodes=2", "$(", "${", ")", "}", "{", "((", "))"),
        *("'", '"', "`", "\\", "<<EOF", "EOF", "case x in", "esac", "for i in", "do", "done", "fi"),
        *("if", "|", "&", ";", "&&", "\n", "\r\n", " ", "=", "a=(", "bash -c", "function f {", "#"),
        *(
            "export MASTER_PORT=29500",
            "singularity exec",
            "python -m",
            "env",
            "timeout",
            "mpirun -x",
        ),
    ]
)
ANY_SCRIPT = st.lists(PIECES | st.text(max_size=6), max_size=25).map(" ".join)
