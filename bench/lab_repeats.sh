#!/usr/bin/env bash
# Whether guests are repeatable to the byte: two short scenarios on 1, 2 and 4 virtual CPUs, with the host's CPUs left alone and
# with a busy thread for each of them.
#
#     bench/lab_repeats.sh UNSTARVE [TIMES [KERNEL]]
set -u
unstarve=${1:?which unstarve} times=${2:-20} kernel=${3:-6.1}
busy=$(nproc)
failed=0
for scenario in granularity-compile nfsd; do
    for cpus in 1 2 4; do
        for load in 0 "$busy"; do
            echo "== $scenario, $cpus CPUs, $load busy threads on the host"
            "$unstarve" lab repeat "$scenario" --kernel "$kernel" --cpus "$cpus" --seconds 0.15 --times "$times" \
                --host-load "$load" 2>/dev/null || failed=1
        done
    done
done
exit "$failed"
