#!/usr/bin/env bash
# Makes the book, and refuses one that would load anything from the network.
#
#     UNSTARVE=PROGRAM tools/book/build.sh DIRECTORY
set -euo pipefail
into=$(realpath -m "$1")
cd "$(dirname "$0")/../.."
tools=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/tools
"$tools/bin/mdbook" build -d "$into"
if loads=$(grep -rnoE "(src|href)=\"(https?:)?//[^\"]*\.(js|css|woff2?|png|svg)\"|url\((https?:)?//[^)]*\)" "$into" --include='*.html' --include='*.css'); then
    echo "the book loads from the network: $loads" >&2
    exit 1
fi
echo "$into/index.html"
