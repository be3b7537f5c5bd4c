"""What the commands of job scripts are for: to print, to prepare, or to be the job."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobgen.batchscript.bash import Command, Redirect, parse, split_segments
from jobgen.batchscript.launchers import unwrap


def _list_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\S+", text))


# What prints, looks or waits, and leaves nothing behind.
PRINTS = _list_words(
    "echo printf date hostname pwd env printenv which nvidia-smi ibv_devinfo ibstat ibstatus lspci"
    " lsb_release ps top groups rocm-smi amd-smi xpu-smi uname whoami id ls cat tree head tail"
    " sleep true : nproc type clear lscpu free df du squeue sacct sstat sinfo seff qstat jobs"
    " uptime scontrol tput figlet wc [[ [ test"
)
# What only reads, and writes to its output.
FILTERS = _list_words(
    "awk gawk sed grep egrep fgrep cut tr sort uniq basename dirname realpath readlink expr bc seq"
    " shuf getent jq yq ip ifconfig ss netstat comm tac command python-config host nl paste diff"
)
# Words of the shell around commands.
HEADS = _list_words(
    "for if then else elif do while until case select function fi done } esac ) in ] (( time"
)
HARMLESS = PRINTS | HEADS | {"wait", "set"}
# What may run on every node, or several times, as well as once.
REPEATS = _list_words("ulimit umask unset source . pushd popd alias hash ((")
REPEATABLE = REPEATS | _list_words(
    "let shift getopts break continue builtin export declare typeset readonly local module ml conda"
    " mamba micromamba cd mkdir shopt eval touch ln chmod spack exit return deactivate stty setfacl"
    " lfs mapfile read readarray trap"
)
# What gets things ready, and is never the job itself.
PREPARING = FILTERS | _list_words(
    "pip pip3 git wget curl rm cp mv tar unzip gunzip gzip zip rsync find xargs tee dd sbatch qsub"
    " scancel kill pkill killall make cmake gcc nvcc mktemp uv poetry virtualenv sync sbcast aws"
    " gsutil azcopy docker enroot chown nc lsof ping openssl mpstat dcgmi nvidia-cuda-mps-control"
    " huggingface-cli hf wandb tensorboard vmstat iostat mail mailx sendmail"
)
# Files that make an environment, and touch no variable of the script.
FAMILIAR = re.compile(
    r"activate|conda|mamba|\b(init|hook|shellenv)\b|profile|rc$|module|lmod|setvars|spack|^/(etc|opt|usr)/"
)
# Modules and files by which Python makes an environment.
MAKES = re.compile(r"-m (pip|venv|virtualenv|ensurepip)\b|setup\.py (install|develop|build)")

# A line of Perl or Python, whose output is read.
_LINE = re.compile(r"(perl|python[\d.]*) (-\w+ )*-\w*[ce] ")


def is_quiet(redirect: Redirect) -> bool:
    """Whether output goes nowhere, or only from one stream to the other."""
    quiet = redirect.target.text in ("/dev/null", "&1", "&2", "1", "2")
    return quiet or redirect.operator.startswith("<<")


def list_pure(command: Command) -> bool:
    """Whether what a command substitutes leaves nothing behind."""
    return all(is_pure(word.raw) for word in command.all_words)


def is_pure(raw: str) -> bool:
    """Whether the commands that a word runs leave nothing behind."""
    commands = [command for inner in list_substituted(raw) for command in parse(inner)]
    return all(map(_leaves_nothing, commands))


def _leaves_nothing(command: Command) -> bool:
    started = unwrap(command.words)
    known = started.name in PRINTS | FILTERS or _LINE.match(" ".join(started.texts))
    if command.words and not known:
        return False
    writes = [item for item in command.redirects if not item.operator.startswith("<")]
    return all(map(is_quiet, writes)) and all(is_pure(word.raw) for word in command.words)


def list_substituted(raw: str) -> Iterator[str]:
    """The texts of the commands that a word runs."""
    text = raw.partition("=(")[2].removesuffix(")") if re.match(r"\w+\+?=\(", raw) else raw
    for segment in split_segments(text):
        inner = segment.text
        if not segment.live or inner.startswith("$(("):
            continue
        if inner.startswith("$("):
            yield inner[2:-1]
        elif inner.startswith("`"):
            yield inner[1:-1]
        elif re.search(r"\$\((?!\()|`", inner):
            yield inner  # a default that runs something: no command is called that
