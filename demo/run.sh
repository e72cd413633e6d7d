#!/usr/bin/env bash
# Provokes a real starvation on this machine for a few seconds, records it, explains it, and leaves the machine as it was:
# a real-time task takes most of one CPU while fio writes to a filesystem in a file, whose completions need that CPU.
#
# Without root or tracing there is a recording of the same kind of trouble to explain instead.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME PATH="$PATH:$HOME/.cargo/bin:/usr/sbin:/sbin"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}

say() { printf '\n== %s\n' "$*"; }

tools/setup.sh demo || exit 1
say "building"
cargo build --release -p unstarve-cli -p unstarve-load || exit 1
unstarve=$CARGO_TARGET_DIR/release/unstarve
load=$CARGO_TARGET_DIR/release/unstarve-load

room=
loop=
pids=()

clean_up() {
    [[ -n $room ]] || return
    ((${#pids[@]} == 0)) || kill -TERM "${pids[@]}" 2>/dev/null
    pids=()
    wait 2>/dev/null
    if mountpoint -q "$room/fs"; then umount "$room/fs" || umount -l "$room/fs"; fi
    [[ -z $loop ]] || losetup -d "$loop" 2>/dev/null
    rm -rf --one-file-system "$room"
    room=
}

instead() {
    clean_up
    say "$1: explaining a recording instead, of fio beside its own completions in a heavy cgroup (Linux 6.1)"
    exec "$unstarve" explain --fail-on never testdata/traces/linux-6.1-dio-weight.dat
}

[[ $(id -u) -eq 0 ]] || instead "provoking and recording a starvation needs root"
grep -qw tracefs /proc/filesystems || instead "this kernel has no tracefs"
for command in fio mkfs.ext4 losetup mount chrt taskset timeout; do
    command -v "$command" >/dev/null || instead "there is no $command here"
done

room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-demo.XXXXXX") || exit 1
trap clean_up EXIT
trap 'trap "" INT TERM HUP; exit 130' INT
trap 'trap "" INT TERM HUP; exit 143' TERM HUP

# The last CPU that we may use: the first one often serves the interrupts.
cpu=$(taskset -cp $$ | sed 's/.*[ ,-]//')

say "a filesystem in a file"
truncate -s 256M "$room/image" && mkfs.ext4 -q -F "$room/image" && mkdir "$room/fs" || instead "no filesystem could be made"
loop=$(losetup --find --show "$room/image") || { loop=; instead "there is no loop device"; }
mount "$loop" "$room/fs" || instead "it could not be mounted"

say "for 4 seconds on CPU $cpu: fio writes, and beside it a real-time task runs 80 ms of every 100 ms"
# Under the name by which the page will call it.
ln -s "$load" "$room/rt-hog"
# Bounded three times over: by itself, by timeout, and by the trap above.
timeout -k 1 6 chrt --fifo 50 taskset -c "$cpu" "$room/rt-hog" hog --lasts 5000 --period 100 --busy 80 </dev/null >/dev/null 2>&1 &
pids+=($!)
timeout -k 1 8 taskset -c "$cpu" fio --name=demo --directory="$room/fs" --size=64M --rw=randwrite --bs=4k --direct=1 \
    --ioengine=libaio --iodepth=32 --thread --time_based --runtime=5 --output="$room/fio.log" </dev/null >/dev/null 2>&1 &
pids+=($!)
sleep 0.5
"$unstarve" record -o "$room/trace.dat" --for 4s || instead "the recording failed"

say "$ unstarve explain trace.dat"
"$unstarve" explain --fail-on never "$room/trace.dat"
status=$?
say "done; the filesystem, the loads and the recording are removed again"
exit "$status"
