#!/usr/bin/env bash
# How many instructions each part of explain takes for an event that it uses, counted by callgrind: unlike times, counts
# do not depend on what else the machine does. Differences of less than a hundredth mean nothing.
#
#     bench/instructions.sh PHASES UNSTARVE [TRACE...]
#     bench/instructions.sh --stored PHASES
#
# PHASES is the example `phases` of unstarve-diagnose. Without traces the loads of `make bench` are recorded, in short, by
# perf and by UNSTARVE; that needs root and perf. Recordings differ from one to the next: to compare two builds, give both
# the same traces. Needs valgrind.
#
# --stored counts traces of testdata/, says by how much each part differs from bench/instructions.tsv, and exits with 1 if
# explain takes more than a fiftieth more for one of them. UNSTARVE_WRITE=1 writes that table instead.
set -eu
if [[ $# -lt 2 ]]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
command -v valgrind >/dev/null || { echo "instructions: valgrind is missing (Debian: apt-get install valgrind)" >&2; exit 1; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
here=$(cd "$(dirname "$0")" && pwd)
parts=(open read timeline explain)

# Instructions of one part; the number of events goes to a file.
count() {
    timeout 600 valgrind --tool=callgrind --callgrind-out-file="$place/counts" "$phases" "$1" "$2" \
        >"$place/events" 2>"$place/errors" || { cat "$place/errors" >&2; exit 1; }
    sed -n 's/^totals: //p' "$place/counts"
}

# The counts of a trace, each part with those before it, and the number of events.
count_all() {
    local part counts=()
    for part in "${parts[@]}"; do
        counts+=("$(count "$part" "$1")")
    done
    echo "${counts[@]}" "$(<"$place/events")"
}

# By how much one number differs from another, in per cent.
differs() {
    awk -v now="$1" -v then="$2" 'BEGIN { printf "%+.1f %%", then ? (now - then) * 100 / then : 0 }'
}

write_stored() {
    {
        echo "# Instructions of \`phases PART TRACE\`, counted by bench/instructions.sh --stored: $(rustc --version | cut -d" " -f1,2), glibc $(ldd --version | head -1 | grep -o "[^ ]*$")."
        printf 'trace\tevents\topen\tread\ttimeline\texplain\n'
        tail -n +3 "$table" | cut -f1 >"$place/names"
        while read -r trace; do
            read -r open read timeline all events <<<"$(count_all "$here/../testdata/traces/$trace")"
            printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$trace" "$events" "$open" "$read" "$timeline" "$all"
        done <"$place/names"
    } >"$place/table"
    cat "$place/table" >"$table"
}

compare_stored() {
    local worse=0 trace open read timeline all events o r t a
    (($(wc -l <"$table") > 2)) || { echo "instructions: $table has no traces" >&2; exit 1; }
    echo "| trace | reading | timeline | ledger and findings | sum, for each event | was | differs |"
    echo "|---|---|---|---|---|---|---|"
    while IFS=$'\t' read -r trace _ o r t a; do
        read -r open read timeline all events <<<"$(count_all "$here/../testdata/traces/$trace")"
        echo "| $trace | $(differs $((read - open)) $((r - o))) | $(differs $((timeline - read)) $((t - r)))" \
            "| $(differs $((all - timeline)) $((a - t))) | $(((all - open) / events)) | $(((a - o) / events))" \
            "| $(differs $((all - open)) $((a - o))) |"
        (((all - open) * 50 <= (a - o) * 51)) || worse=1
    done < <(tail -n +3 "$table")
    if ((worse)); then
        echo "instructions: explain takes more than a fiftieth more; if that is meant, UNSTARVE_WRITE=1 $0 --stored PHASES" >&2
        exit 1
    fi
}

if [[ $1 == --stored ]]; then
    phases=$(realpath "$2") table=$here/instructions.tsv
    if [[ -n ${UNSTARVE_WRITE-} ]]; then write_stored; else compare_stored; fi
    exit
fi

phases=$(realpath "$1") unstarve=$(realpath "$2")
shift 2
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

echo "| trace | events | opening, in all | reading | timeline | ledger and findings | sum |"
echo "|---|---|---|---|---|---|---|"
for trace in "$@"; do
    read -r open read timeline all events <<<"$(count_all "$trace")"
    each() { echo $((($1 + events / 2) / events)); }
    echo "| $(basename "$trace") | $events | $((open / 1000000)).$((open / 100000 % 10)) M | $(each $((read - open))) | $(each $((timeline - read)))" \
        "| $(each $((all - timeline))) | $(each $((all - open))) |"
done
