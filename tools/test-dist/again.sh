#!/usr/bin/env bash
# Builds the same commit in another directory: the same bytes. Some ten minutes.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
read -r commit _ <<<"$(tools/commit.sh)"
[[ -n $commit && $commit != *-dirty ]] || skip "this tree is no commit, so nothing says what was built"
grep -q "$commit" <<<"$("$out/unstarve" --version)" || skip "$out is not of this commit"
mkdir "$room/elsewhere"
git archive HEAD | tar -x -C "$room/elsewhere"
# Another length of path, so that nothing fits by chance.
program=$(CARGO_TARGET_DIR=$room/objects "$room/elsewhere/tools/dist/binary.sh")
cmp "$program" "$out/unstarve" || fail "another program"
cmp "$(dirname "$program")/unstarve.debug" "$out/unstarve.debug" || fail "other debug symbols"
sha256sum "$program"
