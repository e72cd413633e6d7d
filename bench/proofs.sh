#!/usr/bin/env bash
# Proves every remedy that explain offers for the lab's scenarios, kernel by kernel, and writes the table and its page.
#
#     bench/proofs.sh UNSTARVE [--scenario NAME]… [--kernel NAME]… [--seeds N]
#
# Each line of the table is put in place when its scenario and kernel are done: an interrupted run loses nothing but the last.
# What a scenario cannot have on a kernel is passed over.
set -u
cd "$(dirname "$0")/.." || exit
unstarve=${1:?which unstarve}
shift
scenarios=() kernels=() seeds=3
while [ $# -gt 0 ]; do
    case $1 in
    --scenario) scenarios+=("${2:?}") ;;
    --kernel) kernels+=("${2:?}") ;;
    --seeds) seeds=${2:?} ;;
    *) echo "$0: $1: expected --scenario, --kernel or --seeds" >&2; exit 2 ;;
    esac
    shift 2
done
# One CPU first: those guests are the quickest.
[ ${#scenarios[@]} -gt 0 ] || scenarios=(kubepods kubepods-unwritten nfsd oplog-ext4 oplog-xfs granularity-stream spike
    granularity-compile)
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1 6.12 5.10 7)
commit=$(git rev-parse --short HEAD)
failed=0
for scenario in "${scenarios[@]}"; do
    for kernel in "${kernels[@]}"; do
        "$unstarve" lab prove "$scenario" --all --kernel "$kernel" --seeds "$seeds" --init "$unstarve" \
            --table crates/diagnose/data/proofs.tsv --commit "$commit"
        # 1: nothing helped, which is an answer.
        [ $? -le 1 ] || { echo "$0: $scenario on $kernel was not proved" >&2; failed=1; }
    done
done
UNSTARVE_WRITE=1 cargo test -p unstarve-diagnose --test proofs || failed=1
exit "$failed"
