#!/usr/bin/env bash
# Asks cargo-deny whether the crates of each workspace have licences, versions and sources that deny.toml allows, and, where RustSec's list can be
# had, whether anything is known against them. Some seconds.
#
#     tools/deny.sh
set -u
exec </dev/null
cd "$(dirname "$0")/.." || exit 1
deny=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/deny/bin/cargo-deny
[[ -x $deny ]] || deny=$(command -v cargo-deny) || { echo "skipped: no cargo-deny here (tools/setup.sh test installs it)"; exit 0; }

failed=0
ask() { # workspace, checks and options…
    echo "\$ cargo deny --manifest-path $1/Cargo.toml check ${*:2}"
    "$deny" --locked --workspace --manifest-path "$1/Cargo.toml" --config deny.toml check -A license-exception-not-encountered --hide-inclusion-graph "${@:2}" || failed=1
}
ask . licenses bans sources
ask fuzz -A unmatched-skip licenses bans sources

# A Git repository, which a machine behind a mirror of crates.io may not reach: that is no word on the crates.
if said=$(timeout -k 5 20 "$deny" --locked --config deny.toml fetch db 2>&1); then
    for workspace in . fuzz; do
        # What is forgiven in one workspace is not in the others.
        ask "$workspace" -A advisory-not-detected advisories
    done
else
    echo "skipped: advisories: RustSec's list cannot be fetched: $(tail -1 <<<"$said")"
fi
exit "$failed"
