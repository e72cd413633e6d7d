#!/usr/bin/env bash
# The OCI image, made twice, and run by runc as the pods of packaging/kubernetes run it: with their capabilities, mounts and limits and no others.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs umoci
image=$out/unstarve-oci.tar
size=$(stat -c %s "$image")
((size <= 30 << 20)) || fail "$image has $size bytes, more than 30 MiB"
for time in first second; do
    mkdir "$room/$time"
    cp "$out"/LICENCES*.txt "$room/$time"
    tools/dist/image.sh "$out/unstarve" "$room/$time" "$("$out/unstarve" --version | cut -d' ' -f2)"
    sleep 1
done
cmp "$room/first/unstarve-oci.tar" "$room/second/unstarve-oci.tar" || fail "made again it is another image"
tools/test-dist/bundle.sh "$image" "$room/bundle"
cmp "$out/unstarve" "$room/bundle/rootfs/usr/bin/unstarve"
[[ $(cd "$room/bundle/rootfs" && find . -type f | sort | paste -sd' ') = "./usr/bin/unstarve ./usr/share/doc/unstarve/LICENCES-C.txt.gz \
./usr/share/doc/unstarve/LICENCES.txt.gz ./usr/share/doc/unstarve/LICENSE-APACHE.gz ./usr/share/doc/unstarve/LICENSE-MIT.gz" ]] ||
    fail "other files than the program and its licences"
echo "$size bytes, twice the same"

needs_root
needs runc
python3 -c 'import yaml' 2>/dev/null || skip "no PyYAML here"
for needed in /sys/kernel/tracing/instances /sys/fs/cgroup /sys/kernel/btf/vmlinux; do
    [[ -e $needed ]] || skip "$needed is not here"
done

id=$$
cpu=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ || $3 == "cgroup2" { print $2; exit }' /proc/mounts)
pods=kubepods
[[ ! -e $cpu/$pods ]] || skip "$cpu/$pods is there: this is a node of a cluster"
digits() { # a pair of digits
    printf "$1%.0s" {1..32}
}
uid=0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f
other=/$pods/besteffort/pod99dcb84d-2a34-f7e3-3877-8606703258c4/$(digits 4f)
runs=()
cleanup() {
    for run in "${runs[@]}"; do
        runc delete -f "$run" 2>/dev/null || :
    done
    [[ -z ${planted-} ]] || kill "$planted" 2>/dev/null || :
    [[ -z ${planted-} ]] || wait "$planted" 2>/dev/null || :
    for hierarchy in "$cpu" /sys/fs/cgroup/*/; do
        find "${hierarchy%/}/$pods" -depth -type d -exec rmdir {} + 2>/dev/null || :
    done
    rm -rf --one-file-system "$room"
}
trap cleanup EXIT
mkdir -p "$cpu$other"
sleep infinity &
planted=$!
echo $planted >"$cpu$other/cgroup.procs"

# A container of the manifest in the background, or in the foreground with other arguments.
configure() { # manifest, container, options…
    tools/test-dist/pod.py "packaging/kubernetes/$1.yaml" "$2" "$room/bundle" "/$pods/burstable/pod$uid/$(digits 5e)" \
        "/var/lib/unstarve=$room/store" "/run/unstarve=$room/state" --config "$room/$1.toml" "${@:3}"
}
start() { # name
    runs+=("$1")
    runc run --bundle "$room/bundle" "$1" >"$room/$1.log" 2>&1 &
}
until_() { # command…
    local end=$((SECONDS + 60))
    until "$@"; do
        ((SECONDS < end)) || { cat "$room"/*.log; fail "not in 60 s: $*"; }
        sleep 0.2
    done
}
inside() {
    runc exec "$run" /usr/bin/unstarve "$@"
}
succeeds() {
    "$@" >/dev/null 2>&1
}

run=unstarve-watch-$id
configure watch watch
start "$run"
began=$!
until_ succeeds inside watch status
echo "\$ watch status"
inside watch status | tee "$room/status"
! grep -q 'is missing\|cannot be used' "$room/status" || fail "it lacks something"
gives 0,1 inside doctor
for id_ in record count cgroups btf symbols; do
    inside doctor --json | grep -A3 "\"id\": \"$id_\"" | grep -q '"state": "full"' || fail "doctor: not $id_"
done
# It is in a cgroup namespace of its own, and knows the other pod's group by its path on the host.
hosts=$(readlink /proc/self/ns/cgroup) own=$(readlink "/proc/$(runc state "$run" | sed -n 's/.*"pid": \([0-9]*\).*/\1/p')/ns/cgroup")
[[ -n $hosts && -n $own && $hosts != "$own" ]] || fail "the container has the host's cgroup namespace, or none is to be seen"
inside snapshot -o - >"$room/snapshot.json"
grep -q "\"cgroup\": *\"$other\"" "$room/snapshot.json" || fail "the other pod's group is not known by its path on the host"
! grep -q 'cgroups of its own' "$room/snapshot.json" || fail "the snapshot lacks the host's groups"
gives 0 inside record --for 1s -o /tmp/here.dat
gives 0,1 inside explain /tmp/here.dat
runc kill "$run" TERM
wait $began || { cat "$room/$run.log"; fail "the watch ended with $?"; }

# What each capability is for: without it the watch says what it lacks (as the live test of its unit has it).
for right in BPF PERFMON SYSLOG SYS_NICE; do
    configure watch watch --without $right -- watch --for 300ms --state /run/unstarve/without
    run=unstarve-without-$id
    runs+=("$run")
    runc run --bundle "$room/bundle" "$run" >"$room/without" 2>&1 || { cat "$room/without"; fail "without $right it does not run"; }
    grep -q 'is missing\|cannot be used here' "$room/without" || { cat "$room/without"; fail "nothing is missing without $right"; }
done
echo "each capability of the watch is needed"

[[ -d /sys/fs/bpf ]] && grep -q ' /sys/fs/bpf bpf ' /proc/mounts || skip "no BPF file system here, which the guard's pod mounts"
! "$out/unstarve" guard status >/dev/null 2>&1 || skip "a guard runs here"
cat >"$room/guard.toml" <<END
version = 1
[[rule]]
name = "planted"
match = { cgroup = "$other" }
set = { nice = -7 }
END
# Not a real-time policy: on version 1 a kernel with CONFIG_RT_GROUP_SCHED allows none in a group without a budget, as the kubelet makes them.
has_nice() {
    [[ $(tail -n 1 "/proc/$planted/stat" | sed 's/.*) //' | cut -d' ' -f17) = "$1" ]]
}
configure guard undo
run=unstarve-undo-$id
runs+=("$run")
runc run --bundle "$room/bundle" "$run" || fail "nothing to undo is no failure"
guards=0
guard() {
    guards=$((guards + 1))
    run=unstarve-guard-$guards-$id
    configure guard guard
    start "$run"
    began=$!
    until_ has_nice -7
}
guard
inside guard status | tee "$room/status"
grep -qi ebpf "$room/status" || fail "the guard does not hear of births by eBPF"
runc kill "$run" KILL
until_ has_nice 0
wait $began || :
runc delete -f "$run" 2>/dev/null || :
echo "SIGKILL of the guard: everything is restored"
guard
runc kill "$run" TERM
wait $began || { cat "$room/$run.log"; fail "the guard ended with $?"; }
has_nice 0 || fail "a stopped guard leaves something"
echo "a stopped guard has taken everything back"
