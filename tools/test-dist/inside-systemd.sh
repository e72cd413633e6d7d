#!/usr/bin/env bash
# What test-dist/systemd.sh does in its guest, as a unit of the systemd that it is about.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive SYSTEMD_COLORS=0 SYSTEMD_PAGER=
say() {
    echo "unstarve-try: $*"
}
fail() {
    say "FAILED: $*"
    systemctl --no-pager --full status unstarve-guard unstarve-watch
    journalctl --no-pager -n 60 -o short-monotonic
    exit 1
}
# Patient: a guest without KVM is slow, beside other load more so.
until_() { # words, command…
    local words=$1 end=$((SECONDS + 180))
    shift
    until "$@"; do
        ((SECONDS < end)) || fail "not in 180 s: $words"
        sleep 0.1
    done
    say "$words"
}
of() { # unit, property
    systemctl show -P "$2" "$1"
}
is() { # unit, property, value
    [[ $(of "$1" "$2") = "$3" ]]
}
has_policy() { # words of chrt
    chrt -p "$planted" | grep -q "policy: $1$"
}
is_restarted() { # unit, times
    is "$1" NRestarts "$2" && is "$1" ActiveState active
}
pings_again() {
    (($(of unstarve-watch WatchdogTimestampMonotonic) > pinged))
}

say "begins: $(systemctl --version | head -1), $(uname -r), $(stat -fc %T /sys/fs/cgroup)"
dpkg -i /test/one.deb || fail "installing"
for unit in guard watch; do
    [[ $(systemctl is-enabled unstarve-$unit) = disabled ]] || fail "$unit is enabled"
    is unstarve-$unit ActiveState inactive || fail "$unit runs"
done
systemd-analyze verify unstarve-{guard,watch,upload,compact}.service unstarve-{upload,compact}.timer || fail "systemd-analyze verify"
unstarve doctor

# Type=notify: start ends once READY=1 came.
systemctl start unstarve-watch || fail "starting the watch"
say "watch: $(of unstarve-watch ActiveState), main process $(of unstarve-watch MainPID)"
unstarve watch status || fail "no status of the watch"
systemctl reload unstarve-watch || fail "reloading the watch"
pinged=$(of unstarve-watch WatchdogTimestampMonotonic)
until_ "the watch pings its watchdog" pings_again
kill -STOP "$(of unstarve-watch MainPID)"
until_ "a watch that hangs is started again by the watchdog" is_restarted unstarve-watch 1

systemd-run --unit planted sleep infinity || fail "planting"
planted=$(of planted MainPID)
has_policy SCHED_OTHER || fail "the planted thread is not ordinary"
cat >/etc/unstarve/guard.toml <<'END'
version = 1
[[rule]]
name = "planted"
match = { unit = "planted.service" }
set = { policy = "rr", rt-priority = 2 }
END
systemctl start unstarve-guard || fail "starting the guard"
until_ "the guard makes the planted thread SCHED_RR: $(of unstarve-guard ActiveState)" has_policy SCHED_RR
unstarve guard status || fail "no status of the guard"

systemctl kill --kill-who=main -s KILL unstarve-guard
until_ "SIGKILL of the guard: the planted thread is SCHED_OTHER again" has_policy SCHED_OTHER
until_ "the guard is started again" is_restarted unstarve-guard 1
until_ "and the planted thread is SCHED_RR again" has_policy SCHED_RR

systemctl kill --kill-who=all -s KILL unstarve-guard
until_ "SIGKILL of guard and dead-man: the planted thread is SCHED_OTHER again" has_policy SCHED_OTHER
until_ "the guard is started again" is_restarted unstarve-guard 2
until_ "and the planted thread is SCHED_RR again" has_policy SCHED_RR
# What fix and knobs keep there is not the guard's to remove.
echo 1 >/run/unstarve/kept
systemctl stop unstarve-guard
[[ -s /run/unstarve/kept ]] || fail "stopping the guard removes what others keep in /run/unstarve"
rm /run/unstarve/kept
has_policy SCHED_OTHER || fail "a stopped guard leaves something"
say "a stopped guard has taken everything back: $(chrt -p "$planted" | head -1)"

systemd-analyze security --no-pager unstarve-guard.service | tail -1
systemd-analyze security --no-pager unstarve-watch.service | tail -1

systemctl enable --now unstarve-guard unstarve-watch || fail "enabling"
guard=$(of unstarve-guard MainPID) watch=$(of unstarve-watch MainPID)
dpkg -i /test/next.deb || fail "upgrading"
for unit in guard watch; do
    is unstarve-$unit ActiveState active || fail "$unit does not run after the upgrade"
    [[ $(systemctl is-enabled unstarve-$unit) = enabled ]] || fail "$unit is no longer enabled"
done
[[ $guard != "$(of unstarve-guard MainPID)" && $watch != "$(of unstarve-watch MainPID)" ]] || fail "the upgrade did not start them again"
until_ "upgraded to $(dpkg-query -W -f '${Version}' unstarve): both run as the new program, and the planted thread is SCHED_RR" has_policy SCHED_RR

if [[ -d /test/bundle ]]; then
    # Another pod, as the kubelet makes its groups.
    pod=kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod99dcb84d_2a34_f7e3_3877_8606703258c4.slice
    group=/sys/fs/cgroup/$pod/cri-containerd-$(printf '4f%.0s' {1..32}).scope
    mkdir -p "$group"
    sleep infinity &
    other=$!
    echo $other >"$group/cgroup.procs"
    systemctl stop unstarve-watch
    mkdir -p /test/store /test/state
    (cd /test/bundle && exec runc run --no-pivot pod) &
    container=$!
    inside() {
        runc exec pod /usr/bin/unstarve "$@"
    }
    is_watching() {
        inside watch status >/dev/null 2>&1
    }
    until_ "the image runs as a container of a pod, with a cgroup namespace of its own" is_watching
    inside watch status
    inside doctor --json | grep -A2 '"id": "cgroups"'
    inside snapshot -o - >/test/snapshot.json || fail "a snapshot in the container"
    grep -o "\"cgroup\": *\"/$pod/[^\"]*\"" /test/snapshot.json | head -1 | grep . || fail "another pod's group is not known by its path"
    runc kill pod TERM
    wait $container || fail "the watch in the container ended with $?"
    runc delete -f pod 2>/dev/null
    kill $other
    systemctl start unstarve-watch
fi

dpkg -P unstarve || fail "purging"
has_policy SCHED_OTHER || fail "the purge leaves a changed thread"
! grep -lx unstarve /proc/[0-9]*/comm 2>/dev/null || fail "something runs on"
left=$(find / -xdev \( -path /test -o -path /proc -o -path /sys -o -path /run -o -path /var/log \) -prune -o -name '*unstarve*' -print | grep -v 'unstarve-try')
[[ $left = /etc/unstarve && $(ls /etc/unstarve) = guard.toml ]] || fail "the purge leaves: $left $(ls /etc/unstarve)"
systemctl list-unit-files --no-pager | grep 'unstarve-[gw]' && fail "a unit is known still"
left=$(find /run /sys/fs/bpf -name '*unstarve*' | grep -v unstarve-try)
say "purged; left are a file of the user's, /etc/unstarve/guard.toml, and until the next boot: ${left:-nothing}"
say "all is well"
