#!/usr/bin/env bash
# What the engine of `unstarve watch` costs: time by the clock of two loads, bare, beside it and beside `perf sched record`, in turn;
# then the programs' own time by the kernel's measurement, which costs itself. Needs root, perf and a quiet machine.
#
# At last what the whole watch takes of a CPU and of memory, at a scrape every 10 s and while it keeps an episode.
#
#     bench/watch.sh target/…/examples/readings target/…/unstarve [ROUNDS]
set -euo pipefail
engine=${1:?the example readings of unstarve-watch}
program=${2:?unstarve}
rounds=${3:-7}
work=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-bench-watch.XXXXXX")
before=$(cat /proc/sys/kernel/bpf_stats_enabled)
beside=
end() {
    [[ -z $beside ]] || kill "$beside" 2>/dev/null || true
    echo "$before" >/proc/sys/kernel/bpf_stats_enabled
    rm -rf "$work"
}
trap end EXIT
echo 0 >/proc/sys/kernel/bpf_stats_enabled

load() { # pipe or messaging: seconds by the clock
    case $1 in
    pipe) perf bench -f simple sched pipe -l 200000 ;;
    messaging) perf bench -f simple sched messaging -g 4 -l 2000 ;;
    esac 2>/dev/null | tail -1
}

run() { # bare, watch or perf; a load
    case $1 in
    bare) load "$2" ;;
    watch)
        "$engine" 0.25 100000 >"$work/watch" &
        beside=$!
        sleep 1
        load "$2"
        kill "$beside"
        wait "$beside" 2>/dev/null || true
        beside=
        ;;
    perf)
        perf sched record -o "$work/perf.data" sleep 1000 >"$work/perf" 2>&1 &
        beside=$!
        sleep 1
        load "$2"
        kill -INT "$beside"
        wait "$beside" 2>/dev/null || true
        beside=
        ;;
    esac
}

uptime
for load in pipe messaging; do
    for ((round = 0; round < rounds; round++)); do
        for way in bare watch perf; do
            echo "$way $(run "$way" "$load")" >>"$work/$load"
        done
    done
    awk -v load="$load" '
        { all[$1] = all[$1] " " $2 }
        function median(text, n, parts, i, j, swap) {
            n = split(text, parts, " ")
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && parts[j - 1] + 0 > parts[j] + 0; j--) { swap = parts[j]; parts[j] = parts[j - 1]; parts[j - 1] = swap }
            return parts[int((n + 1) / 2)]
        }
        END {
            bare = median(all["bare"])
            printf "%s: bare %.3f s, watch %+.1f %%, perf sched record %+.1f %%\n", load, bare,
                100 * (median(all["watch"]) / bare - 1), 100 * (median(all["perf"]) / bare - 1)
        }' "$work/$load"
done

echo 1 >/proc/sys/kernel/bpf_stats_enabled
"$engine" 5 1 >"$work/watch" &
beside=$!
sleep 1
load pipe >"$work/seconds"
wait "$beside"
beside=
grep '^Cost' "$work/watch"

echo 0 >/proc/sys/kernel/bpf_stats_enabled
printf '[store]\ndirectory = "%s"\n[listen]\naddress = "unix:%s"\n[sinks]\nlog = "off"\n' "$work/store" "$work/http" >"$work/watch.toml"
"$program" watch --config "$work/watch.toml" --state "$work/state" 2>"$work/said" &
beside=$!
scrape() { # CPU time of the watch in seconds
    curl --silent --unix-socket "$work/http" http://localhost/metrics | awk '$1 == "unstarve_watch_cpu_seconds_total" { print $2 }'
}
memory() { # VmRSS or VmHWM, in MiB
    awk -v key="$1:" '$1 == key { printf "%.1f", $2 / 1024 }' "/proc/$beside/status"
}
for ((tries = 0; tries < 100; tries++)); do
    [[ -z $(scrape) ]] || break
    sleep 0.2
done
sleep 10
first=$(scrape)
for ((scrapes = 0; scrapes < 6; scrapes++)); do
    sleep 10
    last=$(scrape)
done
awk -v first="$first" -v last="$last" -v rss="$(memory VmRSS)" \
    'BEGIN { printf "user space: %.3f %% of a CPU in a minute of six scrapes, %s MiB\n", 100 * (last - first) / 60, rss }'
echo 5 >"/proc/$beside/clear_refs"
"$program" watch dump --state "$work/state" >"$work/dump"
echo "while an episode is written: $(memory VmHWM) MiB"
