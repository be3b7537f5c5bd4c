find_modules() {    # only a login shell is sure to have the module command
    local file lib=/usr/share
    for file in /etc/profile.d/{z00_lmod,lmod,modules}.sh $lib/{lmod/lmod,modules}/init/bash; do
        type module >/dev/null 2>&1 || [[ ! -r $file ]] || . "$file" || :
    done
    type module >/dev/null 2>&1 || die "there is no module command on $node"
}
load_module() {    # load_module NAME; Modules 3 returns 0 even without such a module
    local before=:${LOADEDMODULES-}:
    module load "$1" || die "module load failed on $node: $1"
    [[ ":${LOADEDMODULES-}:" != "$before" || $before == *":$1"[:/]* ]] ||
        { module is-loaded "$1" && ! module is-loaded no/such/module; } >/dev/null 2>&1 ||
        die "module load failed on $node: $1"
}
