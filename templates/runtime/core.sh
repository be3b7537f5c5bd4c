export USER=${USER:-$(id -un)} LOGNAME=${LOGNAME:-$(id -un)}    # some launchers leave them out
say() { printf 'jobgen: %s\n' "$*" || :; }
die() { say "error: $*" >&2; exit 1; }
is_there() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }    # is_there PID; a zombie is gone
