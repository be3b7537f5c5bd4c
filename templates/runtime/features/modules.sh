find_modules() {    # a shell that is no login shell may lack the command
    local file
    for file in /etc/profile.d/{z00_lmod,lmod,modules}.sh \
        /usr/share/{lmod/lmod,modules}/init/bash; do
        # shellcheck source=/dev/null
        if ! type module >/dev/null 2>&1 && [[ -r $file ]]; then . "$file"; fi
    done
    type module >/dev/null 2>&1 || die "there is no module command on $node"
}
# Where the module command is of version 3, or breaks down, it returns 0 all the same: then the
# module is not in the list of those loaded, nor another name for one.
load_module() {    # load_module NAME
    local before=:${LOADEDMODULES-}:
    module load "$1" || die "module load failed on $node: $1"
    if [[ $before != *":$1"[:/]* && ":${LOADEDMODULES-}:" == "$before" ]]; then
        { module is-loaded "$1" && ! module is-loaded no/such/module; } >/dev/null 2>&1 ||
            die "module load failed on $node: $1"
    fi
}
