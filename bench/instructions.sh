#!/usr/bin/env bash
# How many instructions each part of explain takes for an event that it uses, counted by callgrind: unlike times, counts
# do not depend on what else the machine does. Differences of less than a hundredth mean nothing.
#
#     bench/instructions.sh PHASES UNSTARVE [TRACE...]
#
# PHASES is the example `phases` of unstarve-diagnose. Without traces the loads of `make bench` are recorded, in short, by
# perf and by UNSTARVE; that needs root and perf. Recordings differ from one to the next: to compare two builds, give both
# the same traces. Needs valgrind.
set -eu
if [[ $# -lt 2 ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
phases=$(realpath "$1") unstarve=$(realpath "$2")
shift 2
command -v valgrind >/dev/null || { echo "instructions: valgrind is missing (Debian: apt-get install valgrind)" >&2; exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

if [[ $# -eq 0 ]]; then
    loads=("messaging -g 4 -l 1200" "pipe -l 40000")
    for load in "${loads[@]}"; do
        read -ra words <<<"$load"
        own=$place/${words[0]}.dat perf=$place/${words[0]}.perf.data
        timeout 120 perf sched record -q -o "$perf" -- perf bench sched "${words[@]}" >/dev/null
        timeout 120 "$unstarve" record -o "$own" -- perf bench sched "${words[@]}" >/dev/null
        set -- "$@" "$perf" "$own"
    done
fi

# Instructions of one part; the number of events goes to a file.
count() {
    timeout 600 valgrind --tool=callgrind --callgrind-out-file="$place/counts" "$phases" "$1" "$2" \
        >"$place/events" 2>"$place/errors" || { cat "$place/errors" >&2; exit 1; }
    sed -n 's/^totals: //p' "$place/counts"
}

echo "| trace | events | opening, in all | reading | timeline | ledger and findings | sum |"
echo "|---|---|---|---|---|---|---|"
for trace in "$@"; do
    open=$(count open "$trace") read=$(count read "$trace") timeline=$(count timeline "$trace") all=$(count explain "$trace")
    events=$(<"$place/events")
    each() { echo $((($1 + events / 2) / events)); }
    echo "| $(basename "$trace") | $events | $((open / 1000000)).$((open / 100000 % 10)) M | $(each $((read - open))) | $(each $((timeline - read)))" \
        "| $(each $((all - timeline))) | $(each $((all - open))) |"
done
