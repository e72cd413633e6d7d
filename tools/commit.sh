#!/usr/bin/env bash
# Prints the commit that this tree is, with -dirty if it was changed since, and the commit's time in seconds since 1970. An
# archive of git (`git archive`) has both written below; another copy without git has neither: an empty line.
#
#     tools/commit.sh
set -eu
cd "$(dirname "$0")/.."
archived='$Format:%H %ct$'

# Of this tree, not of one that it happens to be below.
if [[ -e .git ]] && hash=$(git rev-parse --short=12 HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || hash+=-dirty
    echo "$hash $(git log -1 --format=%ct)"
elif [[ $archived != *Format* ]]; then
    echo "${archived:0:12} ${archived##* }"
else
    echo
fi
