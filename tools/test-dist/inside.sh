#!/usr/bin/env bash
# What test-dist/file.sh does where its mounts are nobody else's. $root is the empty root directory.
set -eu
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
chroot=$(command -v chroot)
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
unstarve() {
    # No name of the caller's environment leads out of the empty root.
    env -i "$chroot" "$root" /unstarve "$@"
}
gives 0,1 unstarve doctor
unstarve doctor --json | grep -A3 '"id": "count"' | grep -q '"state": "full"' || echo "note: eBPF is not allowed here"
gives 1 unstarve explain --fail-on warning /traces/faulty.dat.zst
gives 0,1 unstarve check
gives 0 unstarve guard plan --policy /policy.toml
if unstarve doctor --json | grep -A3 '"id": "record"' | grep -q '"state": "full"'; then
    gives 0 unstarve record --for 1s -o /here.dat
    gives 0,1 unstarve explain /here.dat
else
    echo "note: this machine allows no recording"
fi
env -i "$chroot" "$root" /unstarve watch &
watch=$!
for _ in $(seq 100); do
    unstarve watch status >/dev/null 2>&1 && break
    sleep 0.1
done
gives 0 unstarve watch status
kill -TERM "$watch"
wait "$watch" || fail "the watch ended with $?"
