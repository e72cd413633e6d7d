#!/usr/bin/env bash
# The library crates as they would be published: each packed and resolved against the others' packages; the smallest also built from its package.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
needs cargo
export CARGO_TARGET_DIR=$room/target
# The program holds a recording of testdata/, and testing is for tests of this workspace: neither is published.
cargo package --workspace --exclude unstarve-cli --exclude unstarve-testing --allow-dirty --no-verify 2>&1 | tee "$room/log" |
    grep -v '^warning: manifest has no\|^ *|$\|^  = note: see\|^$' || :
[[ ${PIPESTATUS[0]} -eq 0 ]] || fail "cargo package"
for crate in crates/*/; do
    crate=${crate%/} crate=unstarve-${crate#crates/}
    case $crate in
    unstarve-cli | unstarve-testing) ;;
    *) ls "$room/target/package/$crate-"[0-9]*.crate >/dev/null || fail "$crate was not packed" ;;
    esac
done
cargo publish --dry-run --allow-dirty -p unstarve-model -p unstarve-files -p unstarve-facts
