#!/usr/bin/env bash
# Runs `unstarve watch` beside births and cgroups that come and go: nothing of it may grow.
#
#     bench/watch_soak.sh UNSTARVE [MINUTES]
#
# Each second 40 processes are born under names of their own and 20 cgroups are made, get a process each and are removed. Ten times
# in the run a line is printed: minutes, births and cgroups so far, resident set, open files, metric series, CPU time since the line before.
# Exit code 1 if resident set, files or series are larger at the end than at a tenth of the run by more than a quarter.
# Needs root and curl. cgroups are made below the cpu controller's hierarchy (v1 or v2).
set -uo pipefail
unstarve=$(readlink -f "${1:?the program}")
minutes=${2:-60}
cd /
work=$(mktemp -d /root/.unstarve-soak.XXXXXX)
hierarchy=/sys/fs/cgroup/cpu
[[ -d $hierarchy ]] || hierarchy=/sys/fs/cgroup
above=$hierarchy/unstarve-soak-$$
watch=
churn=
end() {
    [[ -z $churn ]] || kill "$churn" 2>/dev/null
    [[ -z $watch ]] || kill "$watch" 2>/dev/null
    wait
    find "$above" -depth -type d -exec rmdir {} + 2>/dev/null
    rm -rf "$work"
}
trap end EXIT
mkdir "$above" || exit 2

# $work/born and $work/made count.
churn() {
    local born=0 made=0 index
    while :; do
        for index in $(seq 40); do
            (printf 'b%d' $((born + index)) >"/proc/self/comm"; read -r -t 0.01 <>/dev/null) 2>/dev/null
        done
        born=$((born + 40))
        for index in $(seq 20); do
            local group=$above/pod$((made + index))
            mkdir "$group" && (echo "$BASHPID" >"$group/cgroup.procs")
        done
        for index in $(seq 20); do rmdir "$above/pod$((made + index))"; done 2>/dev/null
        made=$((made + 20))
        echo "$born $made" >"$work/count.new" && mv "$work/count.new" "$work/count"
        sleep 0.5
    done
}

printf 'version = 1\n[store]\ndirectory = "%s"\n[listen]\naddress = "unix:%s"\n[sinks]\nlog = "stderr"\n' \
    "$work/store" "$work/metrics" >"$work/config.toml"
"$unstarve" watch --config "$work/config.toml" --state "$work" >"$work/out" 2>"$work/err" &
watch=$!
sleep 3
if ! kill -0 "$watch" 2>/dev/null; then cat "$work/err" >&2; exit 2; fi
churn &
churn=$!
cpu_time() { tail -n 1 "/proc/$watch/stat" | sed 's/.*) //' | awk -v hz="$(getconf CLK_TCK)" '{printf "%.2f", ($12 + $13) / hz}'; }
echo "minutes births cgroups resident_kib files series cpu_s episodes"
before=$(cpu_time)
first=
for tenth in $(seq 10); do
    sleep $((minutes * 6))
    kill -0 "$watch" || { tail "$work/err" >&2; exit 2; }
    resident=$(awk '/^VmRSS/ {print $2}' "/proc/$watch/status")
    files=$(find "/proc/$watch/fd" -mindepth 1 | wc -l)
    series=$(curl -s --max-time 20 --unix-socket "$work/metrics" http://localhost/metrics | grep -vc '^#')
    now=$(cpu_time)
    episodes=$("$unstarve" watch episodes --json --store "$work/store" 2>/dev/null | wc -l)
    echo "$(awk -v m="$minutes" -v t="$tenth" 'BEGIN {print m * t / 10}') $(cat "$work/count") $resident $files $series" \
        "$(awk -v a="$before" -v b="$now" 'BEGIN {printf "%.2f", b - a}') $episodes"
    before=$now
    last="$resident $files $series"
    first=${first:-$last}
done
awk -v first="$first" -v last="$last" 'BEGIN {
    split(first, a); split(last, b)
    for (i = 1; i <= 3; i++) if (b[i] > a[i] * 1.25) grown = 1
    exit grown
}'
