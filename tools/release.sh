#!/usr/bin/env bash
# Builds the program as it is shipped: with all features that this machine can build, and optimised for what it did while
# it explained, listed, reported and exported the traces of testdata/ (profile-guided optimisation). That takes two
# builds and makes `explain` faster by a sixth of its time. Prints where the program is.
#
#     tools/release.sh
set -eu
cd "$(dirname "$0")/.."
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME PATH="$PATH:$HOME/.cargo/bin"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}

read -ra features <<<"$(tools/features.sh)"
host=$(rustc -vV | sed -n 's/^host: //p')

# Of the compiler itself: profiles of another LLVM would not do.
profdata=$(rustc --print target-libdir)/../bin/llvm-profdata
if [[ ! -x $profdata ]]; then
    timeout 300 rustup component add llvm-tools >&2 || true
fi
if [[ ! -x $profdata ]]; then
    echo "note: no llvm-profdata (rustup component add llvm-tools): built without a profile, explain is slower" >&2
    cargo build --profile dist -p unstarve-cli "${features[@]}"
    echo "$CARGO_TARGET_DIR/dist/unstarve"
    exit
fi

# With --target the flags are not for build scripts and procedural macros.
build() {
    RUSTFLAGS="$1 ${RUSTFLAGS-}" CARGO_TARGET_DIR=$CARGO_TARGET_DIR/profiled \
        cargo build --profile dist -p unstarve-cli --target "$host" "${features[@]}"
}
program=$CARGO_TARGET_DIR/profiled/$host/dist/unstarve

# Always the same place, for other flags would have every dependency compiled anew.
place=$CARGO_TARGET_DIR/profiled/work
rm -rf "$place"
mkdir -p "$place"

build "-Cprofile-generate=$place/raw"
run() {
    timeout 60 "$program" "$@" >/dev/null 2>"$place/errors" || {
        echo "release: unstarve $* failed:" >&2
        cat "$place/errors" >&2
        exit 1
    }
}
echo "at work for the profile" >&2
for trace in testdata/traces/*.{dat,zst,txt,pftrace}; do
    for _ in 1 2 3; do
        run explain --fail-on never "$trace"
        run explain --fail-on never --json "$trace"
    done
    run timeline "$trace"
    run report -o "$place/page.html" "$trace"
    for format in perfetto firefox folded csv arrow parquet; do
        run export --format "$format" -o "$place/export" "$trace"
    done
done
"$profdata" merge -o "$place/profile" "$place/raw"

build "-Cprofile-use=$place/profile"
echo "$program"
