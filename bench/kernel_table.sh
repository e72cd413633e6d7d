#!/usr/bin/env bash
# Fills the table of kernels and writes what ships of it: crates/facts/data/lab_cells.tsv and docs/kernels.md. An interrupted run goes on
# where it was; a guest takes a third of a minute, a cell of three seeds two minutes.
#
#     bench/kernel_table.sh UNSTARVE GUEST [KERNEL...]     by default the kernels below; KNOWN=1: boots no guest
set -euo pipefail
unstarve=$(realpath "$1") guest=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
kernels=("$@")
# Of each series the newest that Debian's archive has, and those on both sides of a known bug.
((${#kernels[@]})) || kernels=(5.10.262 6.1.192 6.12.57 6.12.74 6.12.118 6.16.12 6.17.8 6.17.13 6.18.15 7.2.13)
cells=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/lab/table
options=(--cells "$cells" --init "$guest")
for kernel in "${kernels[@]}"; do
    "$unstarve" lab kernel list | grep -q "^$kernel " || "$unstarve" lab kernel add "$kernel"
    options+=(--kernel "$kernel")
done
[[ -z ${KNOWN-} ]] || options+=(--known)
# Some cells may be missing: what is known is written.
"$unstarve" lab table "${options[@]}" --lines crates/facts/data/lab_cells.tsv --markdown docs/kernels.md || (($? == 1))
