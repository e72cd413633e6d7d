#!/usr/bin/env bash
# Builds unstarve-guest, the init of guests, alone and without the names of this machine's directories, so that the same tree, compiler and
# libraries give the same program everywhere; prints where it is.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}/guest
cargo=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$cargo=/cargo --remap-path-prefix=$PWD=/unstarve"
cargo build --release --locked -p unstarve-lab --bin unstarve-guest >&2
echo "$CARGO_TARGET_DIR/release/unstarve-guest"
