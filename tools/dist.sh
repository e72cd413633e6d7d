#!/usr/bin/env bash
# Makes everything that a release has, from this tree: the program as one file, its debug symbols, man pages, completions,
# deb and rpm, an OCI image, licences and SBOM of what is inside, and SHA256SUMS. Prints where it is. On x86-64 the same for arm64, in a
# folder of that name.
#
#     tools/dist.sh [DIRECTORY]        by default $CARGO_TARGET_DIR/dist-tree/out; no other user may be able to write there
#     ARCH=amd64 tools/dist.sh         for one architecture alone; several are separated by spaces
set -euo pipefail
out=${1-}
[[ -z $out ]] || out=$("$(dirname "$0")/dist/place.sh" "$out")
cd "$(dirname "$0")/.."
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve
export HOME PATH="$cache/tools/bin:$PATH:$HOME/.cargo/bin"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target}
out=${out:-$CARGO_TARGET_DIR/dist-tree/out}
# Another build of this commit gets the same times in packages.
read -r _ epoch <<<"$(tools/commit.sh)"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-${epoch:-0}}
# shellcheck source=tools/dist/machine.sh
. tools/dist/machine.sh
own=$(own_machine)
every=$own
[[ $own != amd64 ]] || every+=" arm64"

for architecture in ${ARCH:-$every}; do
    place=$out
    [[ $architecture = "$own" ]] || place=$out/$architecture
    [[ ! -L $place ]] || { echo "dist: $place: a symbolic link; expected a directory" >&2 && exit 1; }
    tools/dist/packages.sh "$architecture" "$place"
done
# One image for clusters whose nodes are of both kinds.
rm -f "$out/unstarve-oci-all.tar"
asked=" ${ARCH:-$every} "
if [[ $own != arm64 && $asked = *" $own "* && $asked = *" arm64 "* ]]; then
    tools/dist/images.py "$out/unstarve-oci-all.tar" "$SOURCE_DATE_EPOCH" "$out/unstarve-oci.tar" "$out/arm64/unstarve-oci.tar"
    tools/dist/sums.sh "$out"
fi
echo "$out"
