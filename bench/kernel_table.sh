#!/usr/bin/env bash
# Fills the table of kernels and writes what ships of it: crates/facts/data/lab_cells.tsv and docs/kernels.md. An interrupted run goes on
# where it was; a guest takes a third of a minute, a cell of three seeds two minutes.
#
#     bench/kernel_table.sh UNSTARVE GUEST [KERNEL...]     runs these kernels, by default all below; always writes all
#     KNOWN=1 bench/kernel_table.sh UNSTARVE GUEST         boots no guest
set -euo pipefail
unstarve=$(realpath "$1")
shift
cd "$(dirname "$0")/.."
cells=${CELLS:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/lab/published}
mkdir -p "$cells"
# A build that happens meanwhile is not to change the init between two guests.
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
cp "$1" "$own/unstarve-guest"
shift
# Of each series the newest that Debian's archive has, and those on both sides of a known bug.
all=(5.10.262 6.1.192 6.1.176-rt 6.12.57 6.12.74 6.12.117-rt 6.12.118 6.16.12 6.17.8 6.17.13 6.18.15 7.2.13)
asked=("$@")
((${#asked[@]})) || asked=("${all[@]}")
table() { # options
    # 1: some cells failed or are missing.
    "$unstarve" lab table --cells "$cells" --init "$own/unstarve-guest" "$@" || (($? == 1))
}
of=()
list=$("$unstarve" lab kernel list)
for kernel in "${asked[@]}" "${all[@]}"; do
    grep -q "^${kernel//./\\.} " <<<"$list" || "$unstarve" lab kernel add "$kernel"
    list+=$'\n'"$kernel "
done
for kernel in "${asked[@]}"; do of+=(--kernel "$kernel"); done
[[ -n ${KNOWN-} ]] || table "${of[@]}"
# Rows and columns of which nothing is known would say nothing.
of=()
for kernel in "${all[@]}"; do
    ! compgen -G "$cells/*.$kernel.json" >/dev/null || of+=(--kernel "$kernel")
done
for scenario in $(cd "$cells" && printf '%s\n' *.json | cut -d. -f1 | sort -u); do of+=(--scenario "$scenario"); done
table "${of[@]}" --known --lines crates/facts/data/lab_cells.tsv --markdown docs/kernels.md >/dev/null
# What its commands need and no package has.
sed -i '3s|$| How `unstarve-guest` is built: [the lab](lab.md#which-kernels-starve).|' docs/kernels.md
