#!/bin/busybox sh
# What test-dist/arm64.sh does in its guests, as their first process: the program, busybox, chrt and the kernel are all that is there. Two CPUs:
# what is watched happens on the second, everything else on the first.
/bin/busybox mkdir -p /bin /proc /sys /dev /run /tmp /var/lib
/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin NO_COLOR=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mount -t tracefs tracing /sys/kernel/tracing
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up
taskset -p 1 $$ >/dev/null

say() {
    echo "unstarve-try: $*"
}
end() {
    reboot -f
    exit
}
fail() {
    say "FAILED: $*"
    end
}
gives() { # codes, for example "0 1"; command…
    local codes=$1 status=0
    shift
    echo "\$ $*"
    "$@" || status=$?
    case " $codes " in
    *" $status "*) ;;
    *) fail "exit code $status, expected one of $codes: $*" ;;
    esac
}
# Patient: a guest without KVM is slow, beside other load more so.
until_() { # words, command…
    local words=$1 left=600
    shift
    until "$@"; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "not in 60 s: $words"
        usleep 100000
    done
    say "$words"
}
now() { # whole seconds since the boot
    local up rest
    read -r up rest </proc/uptime
    echo "${up%%.*}"
}

say "begins: $(uname -srm), CPUs $(cat /sys/devices/system/cpu/online)"
gives "0 1" unstarve --version
gives "0 1" unstarve doctor
unstarve doctor --json >/tmp/doctor.json
for id in record count btf; do
    grep -A3 "\"id\": \"$id\"" /tmp/doctor.json | grep -q '"state": "full"' || fail "doctor: not $id"
done
gives "0 1" unstarve check
gives 1 unstarve explain --fail-on warning /test/faulty.dat.zst

# An ordinary program on the second CPU, and a real-time one that takes it away for some seconds, once a line comes, and then says for how long it ran.
cat >/tmp/busy <<'END_OF_BUSY'
read -r go <"$2"
read -r began waited turns </proc/$$/schedstat
read -r up rest </proc/uptime
end=$((${up%%.*} + $1))
while [ "${up%%.*}" -lt $end ]; do
    read -r up rest </proc/uptime
done
read -r ran waited turns </proc/$$/schedstat
echo $((ran - began)) >/tmp/ran
END_OF_BUSY
echo >/tmp/now
taskset 2 sh /tmp/busy 1000 /tmp/now &
victim=$!
hog() { # in the background alone: seconds; a file with the line, or a FIFO that will have it
    exec taskset 2 chrt -f 50 sh /tmp/busy "$1" "$2"
}

hog 8 /tmp/now &
gives 0 unstarve record --for 2s -o /tmp/here.dat
wait $!
gives 1 unstarve explain --fail-on warning /tmp/here.dat
unstarve explain --json --fail-on never /tmp/here.dat >/tmp/here.json
grep -q '"rt-starvation"' /tmp/here.json || fail "the real-time program is not found"

sleep 1000 &
planted=$!
# A policy must lie where nobody else can write.
mkdir -p /etc/unstarve
cat >/etc/unstarve/guard.toml <<'END_OF_GUARD'
version = 1
[[rule]]
name = "planted"
match = { comm = "sleep", kind = "user" }
set = { policy = "rr", rt-priority = 2 }
END_OF_GUARD
# The 41st field; the name, the second one, may have blanks and line breaks in it.
policy_of() {
    tail -n 1 "/proc/$1/stat" | sed 's/.*) //' | cut -d' ' -f39
}
has_policy() { # number of the policy, as in sched(7)
    [ "$(policy_of $planted)" = "$1" ]
}
gives 0 unstarve guard plan --policy /etc/unstarve/guard.toml
unstarve guard run --policy /etc/unstarve/guard.toml &
guard=$!
until_ "the guard makes the planted program SCHED_RR" has_policy 2
unstarve guard status | tee /tmp/status
grep -qi ebpf /tmp/status || fail "the guard does not hear of births by eBPF"
sleep 1001 &
planted=$!
until_ "one that is born under it becomes SCHED_RR" has_policy 2
kill -KILL $guard
until_ "SIGKILL of the guard: it is SCHED_OTHER again" has_policy 0
unstarve guard run --policy /etc/unstarve/guard.toml &
guard=$!
until_ "the next guard makes it SCHED_RR again" has_policy 2
kill -TERM $guard
wait $guard || fail "the guard ended with $?"
has_policy 0 || fail "a stopped guard leaves something"
say "a stopped guard has taken everything back"

# With eBPF or not at all.
unstarve watch &
watch=$!
status() {
    unstarve watch status >/tmp/status 2>&1
}
until_ "the watch runs" status
cat /tmp/status
grep -qi 'ebpf' /tmp/status || fail "the watch does not count by eBPF"
metrics() { # file
    # Of a reading that is later than all that was before.
    usleep 600000
    wget -qO "$1" http://127.0.0.1:9846/metrics || fail "no metrics"
}
# It is real-time, and seen to be, before the first reading: what it ran until then is in neither number. Its end, after it has read how long it ran, is
# in what others waited alone.
mkfifo /tmp/go
hog 5 /tmp/go &
hog=$!
has_slept() {
    grep -q '^State:.S' /proc/$hog/status && [ "$(policy_of $hog)" = 1 ]
}
until_ "a real-time program waits for its line" has_slept
metrics /tmp/before
echo go >/tmp/go
wait $hog
metrics /tmp/after
kill -TERM $watch
wait $watch || fail "the watch ended with $?"
awk -v ran="$(cat /tmp/ran)" '
    FILENAME ~ /before/ { sign = -1 }
    FILENAME ~ /after/ { sign = 1 }
    /^unstarve_blame_seconds_total\{/ {
        split($1, label, "\"")
        sum[label[2]] += sign * $2
        if (sign > 0) blamed[label[2]] += $2
        if (label[2] == "other" && label[4] == "real-time" && label[6] == "class") hog += sign * $2
    }
    /^unstarve_wait_seconds_sum\{/ { split($1, label, "\""); if (sign > 0) waited[label[2]] = $2 }
    END {
        for (role in waited)
            if ((apart = waited[role] - blamed[role]) > 1e-6 || apart < -1e-6) { print "unstarve-try: " role ": waited " waited[role] " s, blamed " blamed[role] " s"; bad = 1 }
        ran /= 1e9
        printf "unstarve-try: the hog ran for %.3f s by schedstat, and others waited %.3f s for it (%+.2f %%)\n", ran, hog, 100 * (hog / ran - 1)
        exit bad || hog < 0.98 * ran || hog > 1.1 * ran
    }' /tmp/before /tmp/after || fail "sums are not what the kernel knows"
kill $victim
say "all is well"
end
