#!/usr/bin/env bash
# Runs a command so that it cannot hang and leaves nothing behind, with what a build in CI needs in its environment.
#
#     tools/contained.sh SECONDS COMMAND…        exits as the command, 124 on the limit, 143 on SIGTERM
#
# The command runs in a session of its own and writes to a log file, never to the caller's pipe, so no process that a test
# leaves behind can keep that pipe open; this script only follows the log. Whatever of ours still lives at the end is
# killed: processes by a mark in their environment, mounts and loop devices by the temporary directory that they are in,
# tracefs instances and cgroups by their owner's pid in their names.
set -u
exec </dev/null
readonly OVERALL=${1:?how many seconds at most}
shift

: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
: "${HOME:=/}"
export HOME PATH="$PATH:/usr/sbin:/sbin" CI=true LC_ALL=C.UTF-8
export DEBIAN_FRONTEND=noninteractive GIT_TERMINAL_PROMPT=0
export CARGO_TERM_COLOR=never CARGO_TERM_PROGRESS_WHEN=never CARGO_NET_RETRY=2 CARGO_HTTP_TIMEOUT=30 CARGO_INCREMENTAL=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}

room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-ci.XXXXXX") || exit 1
# Tests that are another user for a while may pass through, and see no names.
mkdir -m 711 "$room/tmp"
chmod 711 "$room"
log=$room/log
: >"$log"
mark=UNSTARVE_CI_RUN=$$.$(date +%s%N)

# Pids of everything that the stages started and that still lives: by its mark, or by its session.
left() {
    grep -lsz "^$mark\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3
    # The pid is that of the path. In /proc/PID/stat a name comes first, in parentheses, which any user chooses: newlines and all.
    local file stat fields
    for file in /proc/[0-9]*/stat; do
        { read -r -d '' stat <"$file"; } 2>/dev/null
        # Behind the name: state, parent, group, session.
        read -r -a fields <<<"${stat##*) }"
        [[ ${fields[3]-} != "$worker" ]] || cut -d/ -f3 <<<"$file"
    done
}

sweep() {
    local pids pid i name
    for signal in TERM KILL; do
        pids=$(left | sort -un)
        [[ -n $pids ]] || break
        # shellcheck disable=SC2086
        kill -"$signal" $pids 2>/dev/null
        for i in 1 2 3 4 5 6; do
            [[ -n $(left) ]] || break
            sleep 0.5
        done
    done
    # Innermost mounts first.
    awk -v room="$room/" 'index($2, room) == 1 { print $2 }' /proc/self/mounts | tac | while read -r name; do
        timeout 20 umount -l "$(printf '%b' "$name")" && echo "unmounted $name, which a test had left"
    done
    for name in /sys/block/loop*/loop/backing_file; do
        [[ -r $name && $(<"$name") = "$room"/* ]] || continue
        name=${name#/sys/block/}
        timeout 20 losetup -d "/dev/${name%%/*}" && echo "detached ${name%%/*}, which a test had left"
    done
    # Made by our own tests and recordings: unstarve-<pid>…; those of a living process are not ours to remove.
    for name in /sys/kernel/tracing/instances/unstarve-* /sys/kernel/debug/tracing/instances/unstarve-* \
        /sys/fs/cgroup/unstarve-* /sys/fs/cgroup/*/unstarve-*; do
        [[ -d $name ]] || continue
        pid=${name##*/unstarve-}
        pid=${pid%%[!0-9]*}
        [[ -n $pid && ! -d /proc/$pid ]] || continue
        timeout 20 rmdir "$name" && echo "removed $name, which a test had left"
    done
}

interrupted=
trap 'interrupted=143; kill -TERM "$worker" 2>/dev/null' TERM HUP

# If this script is killed, the stages end, too.
parent_death=()
setpriv --pdeathsig TERM true 2>/dev/null && parent_death=(setpriv --pdeathsig TERM)
env "$mark" TMPDIR="$room/tmp" setsid "${parent_death[@]}" timeout -k 30 "$OVERALL" "$@" >"$log" 2>&1 &
worker=$!
tail -n +1 -s 0.5 -f --pid="$worker" "$log" 2>/dev/null &
follower=$!

# A plain wait would last as long as a process that cannot be killed (one in an uninterruptible sleep).
while kill -0 "$worker" 2>/dev/null && ((SECONDS < OVERALL + 60)); do
    sleep 1
done
if kill -0 "$worker" 2>/dev/null; then
    status=124
else
    wait "$worker"
    status=$?
fi
swept=$(sweep 2>&1)

# The follower sees the end of the worker by itself; but if nobody reads our output any more, it never gets there.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$follower" 2>/dev/null || break
    sleep 1
done
kill -KILL "$follower" 2>/dev/null
[[ -z $swept ]] || timeout 10 printf '%s\n' "$swept"

[[ -z $interrupted ]] || status=$interrupted
case $status in
0) verdict="passed" ;;
124 | 137) verdict="failed: took longer than $OVERALL s" status=124 ;;
143) verdict="stopped" ;;
*) verdict="failed" ;;
esac
timeout 10 printf 'ci: %s after %d s\n' "$verdict" "$SECONDS"
rm -rf --one-file-system "$room"
exit "$status"
