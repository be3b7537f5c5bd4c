%(complete_func)s() {
    local IFS=$'\n' completion type value index word begun cword=0 words=()
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
