#!/usr/bin/env bash
# The one file in a root directory that has nothing else but /proc, /sys and an empty /tmp.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs_root
needs unshare chroot

program=$out/unstarve
size=$(stat -c %s "$program")
((size <= 25 << 20)) || fail "$program has $size bytes, more than 25 MiB"
echo "$size bytes, $("$program" --version)"
LC_ALL=C readelf --string-dump=.gnu_debuglink "$program" | grep -q unstarve.debug || fail "no link to its debug symbols"
same() {
    readelf -nW "$1" | sed -n 's/.*Build ID: //p'
}
[[ $(same "$program") = "$(same "$out/unstarve.debug")" ]] || fail "the debug symbols are of another build"

root=$room/root
# Packed recordings are unpacked into a file in /tmp.
mkdir -p "$root"/{proc,sys,tmp,traces}
cp "$program" "$root"
cp testdata/traces/linux-6.1-lab-granularity-compile-faulty.dat.zst "$root/traces/faulty.dat.zst"
cp examples/policies/dio-workers.toml "$root/policy.toml"
# Mounts of a namespace that ends with the script inside.
export root
unshare --mount --propagation private tools/test-dist/inside.sh
