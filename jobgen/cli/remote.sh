# bash -c "$(cat remote.sh)" bash HOST FOLDER VERSION WORD...: a command of jobgen on another machine.
# A command ends where the connection does: sshd sends it no signal, but its input ends.
host=$1 folder=$2 version=$3; shift 3
printf '\0jobgen begins\n'
command -v jobgen >/dev/null || exit 127
there=$(jobgen --version)
if [[ ${there%% (*} != "jobgen $version" ]]; then    # a checkout names its commit too
    echo "warning: $there is on $host, and jobgen $version here" >&2
fi
if [[ $1 == submit ]]; then
    jobgen receive "$folder" || exit
    printf '\0jobgen has the files\n'
    read -r || exit    # whoever has not read that line says that nothing was submitted
fi
if ! cd -- "$folder" 2>/dev/null; then
    echo "there is no folder $folder on $host; jobgen submit --host makes it" >&2
    exit 2
fi
exec 3<&0
JOBGEN_HOST=$host:$folder jobgen "$@" </dev/null & command=$!
{ cat <&3; kill $command; } >/dev/null 2>&1 & watch=$!
wait $command; code=$?
kill $watch 2>/dev/null    # it has gone where the connection has
exit $code
