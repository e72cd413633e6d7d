#!/usr/bin/env bash
# The report page of a recording of ten million events: time and memory of explain and of report on it, the page's size,
# and how long Chromium takes to open it. Needs root, perf, Node and Chromium.
#
#     bench/page.sh UNSTARVE [recording]
set -eu
unstarve=$(realpath "$1")
cd "$(dirname "$0")/.."
room=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-bench.XXXXXX")
trap 'rm -rf "$room"' EXIT
recording=${2:-$room/pipe.dat}
[[ -e $recording ]] || timeout -k 10 300 "$unstarve" record -o "$recording" -- perf bench sched pipe -l 2400000 | tail -2
timed() { # name, command…
    python3 - "$@" <<'PY'
import resource, subprocess, sys, time
name, command = sys.argv[1], sys.argv[2:]
walls = []
for _ in range(3):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    walls.append((wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
wall, cpu = sorted(walls)[1]
print(f"{name}: {wall:.2f} s, {cpu:.2f} s of CPU, {after.ru_maxrss / 1024:.0f} MiB at most")
PY
}
timed explain "$unstarve" explain "$recording"
timed report "$unstarve" report "$recording" -o "$room/page.html"
node web/bench.mjs "$room/page.html"
