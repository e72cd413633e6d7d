#!/usr/bin/env bash
# Writes SHA256SUMS of all files of a directory, not of those in folders.
#
#     tools/dist/sums.sh DIRECTORY
set -euo pipefail
cd "$1"
sums=$(find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\0' | LC_ALL=C sort -z | xargs -0 sha256sum --)
echo "$sums" >SHA256SUMS
