"""What the commands of job scripts are for: to print, to prepare, or to be the job."""

from __future__ import annotations

import re

# What prints, looks or waits, and leaves nothing behind.
HARMLESS = frozenset(
    re.findall(
        r"\S+",
        "echo printf date hostname pwd env printenv which nvidia-smi ibv_devinfo ibstat ibstatus"
        " lspci lsb_release ps top groups rocm-smi amd-smi xpu-smi uname whoami id ls cat tree"
        " head tail sleep wait true : set nproc type clear lscpu free df du squeue sacct sstat"
        " seff sinfo qstat jobs time uptime scontrol tput figlet nvcc gcc wc fi done } esac ) case"
        " for while until then else do elif in ] [[ [ test ((",
    )
)
# What may run on every node, or several times, as well as once.
REPEATABLE = frozenset(
    re.findall(
        r"\S+",
        "let shift getopts break continue hash builtin export declare typeset readonly local"
        " source . module ml conda mamba micromamba cd pushd popd mkdir ulimit umask unset shopt"
        " alias eval touch ln chmod spack exit return deactivate stty setfacl lfs mapfile read"
        " readarray trap",
    )
)
# What gets things ready, and is never the job itself.
PREPARING = frozenset(
    re.findall(
        r"\S+",
        "pip pip3 git wget curl rm cp mv tar unzip zip rsync sed awk gawk grep egrep fgrep find"
        " sort uniq tr cut xargs tee dd sbatch qsub scancel kill pkill killall make cmake bc expr"
        " basename dirname realpath readlink mktemp uv poetry virtualenv sync sbcast aws gsutil"
        " azcopy docker enroot chown diff seq nl paste comm jq yq python-config nc ss netstat lsof"
        " ip ifconfig ping getent shuf openssl mpstat dcgmi nvidia-cuda-mps-control "
        " huggingface-cli hf wandb tensorboard vmstat iostat mail mailx sendmail",
    )
)
