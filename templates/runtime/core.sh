export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers leave them out
say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }
optional() { if declare -F "$1" >/dev/null; then "$@"; fi; }    # a function that some scripts have
is_there() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }    # is_there PID; a zombie is gone
