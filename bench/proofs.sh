#!/usr/bin/env bash
# Proves every remedy that explain offers for a scenario of the lab on a kernel.
#
#     bench/proofs.sh UNSTARVE SCENARIO KERNEL [SEEDS]    one scenario on one kernel: minutes to hours of one CPU
#     bench/proofs.sh UNSTARVE --all                      all of them, one after the other
#     bench/proofs.sh --table                             the shipped table and its page, from what the guests brought; no guests
#
# What belongs to it is kept in $UNSTARVE_PROOFS (default: ~/.cache/unstarve/proofs):
#     unstarve     a copy of UNSTARVE as of the first call: a build in between does not change what is proved. Remove it to
#     commit       begin with another
#     cells/       the outcomes behind each row, as JSON
#     proofs.tsv   the rows so far
# A row is written as soon as it is known. A call that was interrupted goes on with the row that it was at when made again.
set -u
cd "$(dirname "$0")/.." || exit
work=${UNSTARVE_PROOFS:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/proofs}
mkdir -p "$work/cells" || exit
usage() { sed -n '2,6p' "$0" >&2; exit 2; }

freeze() { # UNSTARVE
    [ -x "$work/unstarve" ] && return
    git rev-parse --short HEAD >"$work/commit"
    cp "$1" "$work/unstarve.part" && mv "$work/unstarve.part" "$work/unstarve"
}

prove() { # SCENARIO KERNEL SEEDS
    "$work/unstarve" lab prove "$1" --all --kernel "$2" --seeds "$3" --cells "$work/cells" --table "$work/proofs.tsv" \
        --commit "$(cat "$work/commit")"
    # 1: nothing helped, which is an answer.
    [ $? -le 1 ] || { echo "$0: $1 on $2 was not proved" >&2; return 2; }
}

table() {
    if [ ! -x "$work/unstarve" ]; then echo "$0: $work has no proofs" >&2; return 2; fi
    "$work/unstarve" lab proofs --cells "$work/cells" --table crates/diagnose/data/proofs.tsv &&
        UNSTARVE_WRITE=1 cargo test -p unstarve-diagnose --test integration proofs
}

case ${1:-} in
--table) table; exit ;;
'' | -*) usage ;;
esac
[ $# -ge 2 ] || usage
# Two calls at once would take each other's rows out of the table.
exec 9>"$work/lock"
flock 9
freeze "$1" || exit
if [ "$2" != --all ]; then
    [ $# -ge 3 ] || usage
    prove "$2" "$3" "${4:-3}"
    exit
fi
failed=0
# One CPU first: those guests are the quickest.
for scenario in kubepods kubepods-unwritten nfsd oplog-ext4 oplog-xfs granularity-stream spike granularity-compile reactor reactor-heavy; do
    for kernel in 6.1 6.12 5.10 7; do
        prove "$scenario" "$kernel" 3 || failed=1
    done
done
table || failed=1
exit "$failed"
