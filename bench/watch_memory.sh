#!/usr/bin/env bash
# What `unstarve watch` takes of memory at rest, in a storm of threads with episodes in it, and when that is over.
#
#     bench/watch_memory.sh UNSTARVE [THREADS [EPISODES]]
#
# Lines: moment, resident set, private memory (Private_Dirty), memory that is in no file (Anonymous), of files, in KiB, from
# /proc/PID/smaps_rollup. Every episode is one of `watch dump`: a trace, a snapshot and an explanation. Exit code 1 if the resident set
# is above 20 MiB a quarter of a minute after the storm. Needs root and curl.
set -uo pipefail
unstarve=$(readlink -f "${1:?the program}")
threads=${2:-4000}
episodes=${3:-5}
cd /
work=$(mktemp -d /root/.unstarve-memory.XXXXXX)
watch=
storm=
end() {
    [[ -z $storm ]] || kill "$storm" 2>/dev/null
    [[ -z $watch ]] || kill "$watch" 2>/dev/null
    wait
    rm -rf "$work"
}
trap end EXIT
printf 'version = 1\n[store]\ndirectory = "%s"\n[listen]\naddress = "unix:%s"\n[sinks]\nlog = "stderr"\n' \
    "$work/store" "$work/metrics" >"$work/config.toml"
"$unstarve" watch --config "$work/config.toml" --state "$work" >"$work/out" 2>"$work/err" &
watch=$!
scrape() { curl -s --max-time 20 --unix-socket "$work/metrics" "http://localhost$1" >/dev/null; }
look() {
    awk -v moment="$1" '/^Rss:/ {r = $2} /^Private_Dirty:/ {p = $2} /^Anonymous:/ {a = $2}
        END {print moment, r, p, a, r - a}' "/proc/$watch/smaps_rollup"
}
echo "moment rss private anonymous of_files"
sleep 10
kill -0 "$watch" || { cat "$work/err" >&2; exit 2; }
look rest
for page in /metrics / /episodes.json; do scrape "$page"; done
look scraped
# Threads of names of their own, for two minutes at most.
python3 - "$threads" <<'PYTHON' &
import sys, threading, time
stop = time.time() + 120
def work(number):
    with open("/proc/thread-self/comm", "w") as comm: comm.write(f"storm{number}")
    while time.time() < stop: time.sleep(0.05 + number % 50 / 100)
threading.stack_size(64 << 10)
for number in range(int(sys.argv[1])): threading.Thread(target=work, args=(number,), daemon=True).start()
time.sleep(max(0, stop - time.time()))
PYTHON
storm=$!
sleep 15
look storm
for number in $(seq "$episodes"); do
    "$unstarve" watch dump --state "$work" >/dev/null || tail -3 "$work/err" >&2
    look "episode_$number"
    scrape /metrics
done
kill "$storm"
wait "$storm" 2>/dev/null
storm=
sleep 15
look after
for page in /metrics / /episodes.json; do scrape "$page"; done
look scraped_again
metric=$(curl -s --max-time 20 --unix-socket "$work/metrics" http://localhost/metrics | awk '/^unstarve_episode_to_disk_seconds /{print $2}')
echo "the latest trace was on the disk after ${metric:-?} s; $(find "$work/store" -name trace.dat | wc -l) traces, $(du -sk "$work/store" | cut -f1) KiB"
(($(awk '/^Rss:/ {print $2}' "/proc/$watch/smaps_rollup") <= 20480))
