export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers leave them out
say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }
