#!/usr/bin/env bash
# Makes everything that a release has, from this tree: the program as one file, its debug symbols, man pages, completions,
# deb and rpm, an OCI image, licences and SBOM of what is inside, and SHA256SUMS. Prints where it is.
#
#     tools/dist.sh [DIRECTORY]        by default $CARGO_TARGET_DIR/dist-tree/out
set -euo pipefail
out=${1-}
[[ -z $out ]] || { mkdir -p "$out" && out=$(realpath "$out"); }
cd "$(dirname "$0")/.."
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve
export HOME PATH="$cache/tools/bin:$PATH:$HOME/.cargo/bin"
tree=${CARGO_TARGET_DIR:-$cache/target}/dist-tree
target=$(rustc -vV | sed -n 's/^host: //p')
# Another build of this commit gets the same times in packages.
read -r _ epoch <<<"$(tools/commit.sh)"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-${epoch:-0}}

program=$(tools/dist/binary.sh)
built=$tree/$target/dist
tools/dist/stage.sh "$program" "$built"
out=${out:-$tree/out}
mkdir -p "$out"
# Only what a run before this one made: the directory may be anybody's.
rm -f "$out"/{unstarve,unstarve.debug,unstarve_*.deb,unstarve-*.rpm,unstarve-man-completions.tar.gz,unstarve-oci.tar,LICENCES.txt,LICENCES-C.txt,unstarve.cdx.json,SHA256SUMS}
cp "$program" "$(dirname "$program")/unstarve.debug" "$out"
tools/dist/notices.sh "$out"
for notice in LICENCES.txt LICENCES-C.txt; do
    gzip -9nc "$out/$notice" >"$built/root/usr/share/doc/unstarve/$notice.gz"
done
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$built/root/usr/share" -c \
    man bash-completion fish zsh | gzip -9n >"$out/unstarve-man-completions.tar.gz"

tools/dist/image.sh "$program" "$out"

export CARGO_TARGET_DIR=$tree
cargo deb ${DEBEMAIL:+--maintainer "${DEBFULLNAME:-The unstarve authors} <$DEBEMAIL>"} --no-build --no-strip --locked -p unstarve-cli --profile dist --target "$target" -o "$out" >&2
cargo generate-rpm --payload-compress gzip -p crates/cli --profile dist --target "$target" --target-dir "$tree" --auto-req no -o "$out" >&2
(cd "$out" && sha256sum -- * >"$tree/SHA256SUMS" && mv "$tree/SHA256SUMS" .)
echo "$out"
