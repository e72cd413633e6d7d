#!/usr/bin/env bash
# Makes a directory for what is written, or run by name, afterwards, and prints its real path. Refuses one in which another user can put links or
# files: it and all above it have to be root's or this user's, and nobody else's to write (one like /tmp may be above it).
#
#     tools/dist/place.sh DIRECTORY
set -euo pipefail
: "${1:?which directory}"

ours() { # real path of a directory
    local at=$1 owner mode sticky=0
    while :; do
        read -r owner mode < <(stat -c '%u %a' "$at")
        if [[ $owner != 0 && $owner != "$(id -u)" ]] || (((8#$mode & 8#022) && !sticky)); then
            echo "dist: $1: other users can change $at (owner $owner, mode $mode); expected directories of root's or yours that nobody else may write" >&2
            return 1
        fi
        [[ $at != / ]] || return 0
        at=$(dirname "$at")
        sticky=$((8#$(stat -c %a "$at") & 8#1000))
    done
}

# Nothing is made in a directory of somebody else's either.
above=$1
until [[ -e $above ]]; do above=$(dirname "$above"); done
above=$(realpath "$above")
[[ $above = "$(realpath -m "$1")" ]] || [[ -k $above ]] || ours "$above"
mkdir -p "$1"
place=$(realpath "$1")
ours "$place"
echo "$place"
