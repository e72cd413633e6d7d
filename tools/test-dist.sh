#!/usr/bin/env bash
# Uses what tools/dist.sh made, as its users would: the file in an empty root, the deb in a fresh Debian and under a real systemd, the rpm in an
# empty root, the image as a pod would run it, the chart by helm, arm64 in guests of its own, and a second build elsewhere, which must give the
# same bytes. Needs root; what cannot be tried here is said.
#
#     tools/test-dist.sh DIRECTORY [PART…]        parts: file names deb rpm notices image kubernetes systemd arm64 crates again; all by default
set -u
exec </dev/null
# What is there is run as root.
out=$("$(dirname "$0")/dist/place.sh" "${1:?where tools/dist.sh put everything}") || exit 1
shift
cd "$(dirname "$0")/.." || exit 1
export PATH="${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/tools/bin:$PATH:/usr/sbin:/sbin:$HOME/.cargo/bin"
parts=("$@")
((${#parts[@]})) || parts=(file names deb rpm notices image kubernetes systemd arm64 crates again)
failed=0
for part in "${parts[@]}"; do
    echo "== $part"
    timeout -k 10 3600 "tools/test-dist/$part.sh" "$out"
    status=$?
    case $status in
    0) echo "== $part: ok" ;;
    77) echo "== $part: skipped, see above" ;;
    *)
        echo "== $part: FAILED ($status)"
        failed=1
        ;;
    esac
done
exit "$failed"
