#!/usr/bin/env bash
# Prints a program of this tree that runs on this machine, for what is asked of it when another architecture's is packed: man pages, completions, the
# version. It is the one that is shipped for this machine, if that was built of this commit, else a plain build.
#
#     tools/dist/speaker.sh        CARGO_TARGET_DIR is set
set -euo pipefail
cd "$(dirname "$0")/../.."
read -r commit _ <<<"$(tools/commit.sh)"
shipped=$CARGO_TARGET_DIR/dist-tree/$(rustc -vV | sed -n 's/^host: //p')/dist/shipped/unstarve
if [[ -x $shipped && -n $commit && $commit != *-dirty && $("$shipped" --version) = *"$commit"* ]]; then
    echo "$shipped"
else
    UNSTARVE_COMMIT=$commit cargo build --locked -p unstarve-cli --features unstarve-cli/bpf,unstarve-cli/columnar,unstarve-cli/mcp >&2
    echo "$CARGO_TARGET_DIR/debug/unstarve"
fi
