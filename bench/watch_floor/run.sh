#!/usr/bin/env bash
# What the programs of `unstarve watch` cost beside programs that do nothing and such as only read the clock. Needs root, a second CPU,
# clang, and libbpf as cargo has built it.
#
#     bench/watch_floor/run.sh [ROUNDS] [OBJECT...]     more objects to compare: watch.bpf.c of another commit, compiled likewise
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-40}
shift || true
for library in "${CARGO_TARGET_DIR:-target}"/*/build/libbpf-sys-*/out/libbpf.a; do
    libbpf=$(dirname "$library")
done
[[ -f ${libbpf:-}/libbpf.a ]] || { echo "no libbpf.a below ${CARGO_TARGET_DIR:-target}: build with the feature bpf first" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/unstarve-watch-floor.XXXXXX")
trap 'rm -rf "$work"' EXIT
case $(uname -m) in aarch64) arch=arm64 ;; *) arch=x86 ;; esac
compile() {
    clang -O2 -g -target bpf "-D__TARGET_ARCH_$arch" -I"$libbpf/include" -Icrates/bpf/include "${@:3}" -c "$1" -o "$work/$2"
}
compile bench/watch_floor/floor.bpf.c nothing
compile bench/watch_floor/floor.bpf.c clock -DCLOCK
compile crates/watch/src/bpf/watch.bpf.c watch
cc -O2 -Wall -I"$libbpf/include" bench/watch_floor/turns.c -o "$work/turns" "$libbpf/libbpf.a" -lelf -lz
others=("$@")
(cd "$work" && ./turns "$rounds" nothing clock watch "${others[@]}")
(cd "$work" && STATS=1 ./turns "$rounds" nothing clock watch "${others[@]}")
