#!/bin/sh
# ppmr pod agent --inside: for mpirun or mpiexec in a pod, in the place of ssh. It writes its arguments (the options of ssh,
# a host, a command) to the pod's /tmp. "ppmr pod agent --serve POD --pods FILE", outside of the pod, starts the command
# in the pod of that host, and answers with an exit code. After that nothing crosses the border of the pod.
#
# All of it are files in a directory that the pod's user makes:
#   NAME.words    the words, each with a NUL behind it; the server renames it to NAME.taken, and carries it out
#   NAME.done-N   the same file, when it is carried out; N is the exit code
#   alive-N       the server replaces it each second, so that its end is noticed
# A wait ends after WAIT_S without a server, SILENCE_S after the end of a server, or LONGEST_S in all.
set -u
box=/tmp/.ppmr-agent
WAIT_S=120 SILENCE_S=15 LONGEST_S=600

fail() {
    echo "ppmr pod agent --inside: $1" >&2
    exit 1
}

alive() {
    for sign in "$box"/alive-*; do
        echo "$sign"
    done
}

if [ $# -lt 2 ]; then
    echo "Usage: ppmr pod agent --inside [SSH-OPTION...] HOST COMMAND...   (in a pod)" >&2
    exit 2
fi
umask 077
mkdir -p "$box" || fail "$box cannot be made. Remedy: give the pod's template a larger tmp"
name=$$-$(date +%s)
printf '%s\000' "$@" >"$box/$name.new" && mv "$box/$name.new" "$box/$name.words" ||
    fail "the words cannot be written to $box. Remedy: give the pod's template a larger tmp"
trap 'rm -f "$box/$name".*' EXIT
trap 'exit 143' TERM INT HUP

# It reads five times a second. The reads are counted, since the clock of a pod goes on while the pod is held.
reads=0 silent=0 served=0 last=$(alive)
while :; do
    for answer in "$box/$name".done-*; do
        code=${answer##*-}
        case $code in
        0) exit 0 ;;
        '*') ;;
        *) fail "the command was not started (exit code $code). Remedy: read the output of ppmr pod agent --serve" ;;
        esac
    done
    now=$(alive)
    if [ "$now" != "$last" ]; then
        last=$now silent=0 served=1
    fi
    [ "$served" -eq 0 ] || [ "$silent" -lt $((5 * SILENCE_S)) ] ||
        fail "ppmr pod agent --serve ended. Remedy: read its output, start it again, then the launcher"
    [ "$served" -eq 1 ] || [ "$silent" -lt $((5 * WAIT_S)) ] ||
        fail "no server serves this pod. Remedy: ppmr pod agent --serve POD --pods FILE, on the pod's node"
    [ "$reads" -lt $((5 * LONGEST_S)) ] ||
        fail "no answer within $LONGEST_S s. Remedy: read the output of ppmr pod agent --serve"
    sleep 0.2
    reads=$((reads + 1)) silent=$((silent + 1))
done
