"""The commands for editors and shells: `jobgen schema` and `jobgen completion`."""

from __future__ import annotations

from typing import Literal

import click


@click.command()
@click.argument("what", type=click.Choice(["job", "site"]))
def schema(what: Literal["job", "site"]) -> None:
    """Print the JSON Schema (draft-07) of job specs or of site profiles, for editors and CI."""
    from jobgen.schema import schema as schema_of

    click.echo(schema_of(what), nl=False)


# As click's own, but for "=" and ":", which bash takes for words by themselves where jobgen reads
# `--set queue=gpu` as two words, and for the blank that would follow `queue=`.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' completion type value index word begun cword=0 words=()
    for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
        word=${COMP_WORDS[index]}
        if ((index > 1)) && [[ $word == [=:] || ${COMP_WORDS[index - 1]} == [=:] ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        if ((index == COMP_CWORD)); then cword=$((${#words[@]} - 1)); fi
    done
    begun=${words[cword]%%"$2"}
    COMPREPLY=()
    for completion in $(
        COMP_WORDS="${words[*]}" COMP_CWORD=$cword %(complete_var)s=bash_complete "$1"
    ); do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$begun"}") ;;
        esac
    done
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options, files, sites, queues and jobs."""
    from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

    class Bash(BashComplete):
        source_template = _BASH

    shells: dict[str, type[ShellComplete]]
    shells = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
    command = context.find_root().command
    click.echo(shells[shell](command, {}, "jobgen", "_JOBGEN_COMPLETE").source().strip())


COMMANDS = {"schema": schema, "completion": completion}
