#!/usr/bin/env bash
# Makes everything of a release for one architecture.
#
#     tools/dist/packages.sh amd64|arm64 DIRECTORY        CARGO_TARGET_DIR and SOURCE_DATE_EPOCH are set
set -euo pipefail
out=$("$(dirname "$0")/place.sh" "$2")
cd "$(dirname "$0")/../.."
# shellcheck source=tools/dist/machine.sh
. tools/dist/machine.sh
for_machine "$1"
tree=$CARGO_TARGET_DIR/dist-tree

program=$(tools/dist/binary.sh "$architecture")
speaks=$program
[[ -z $sysroot ]] || speaks=$(tools/dist/speaker.sh)
built=$tree/$target/dist
tools/dist/stage.sh "$program" "$built" "$speaks"

# Only what a run before this one made: the directory may hold more.
rm -f "$out"/{unstarve,unstarve.debug,unstarve_*.deb,unstarve-*.rpm,unstarve-man-completions.tar.gz,unstarve-oci.tar,LICENCES.txt,LICENCES-C.txt,unstarve.cdx.json,SHA256SUMS}
cp "$program" "$(dirname "$program")/unstarve.debug" "$out"
tools/dist/notices.sh "$architecture" "$out"
for notice in LICENCES.txt LICENCES-C.txt; do
    gzip -9nc "$out/$notice" >"$built/root/usr/share/doc/unstarve/$notice.gz"
done
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$built/root/usr/share" -c \
    man bash-completion fish zsh | gzip -9n >"$out/unstarve-man-completions.tar.gz"

tools/dist/image.sh "$program" "$out" "$("$speaks" --version | cut -d' ' -f2)"

export CARGO_TARGET_DIR=$tree
cargo deb ${DEBEMAIL:+--maintainer "${DEBFULLNAME:-The unstarve authors} <$DEBEMAIL>"} --no-build --no-strip --locked -p unstarve-cli --profile dist --target "$target" -o "$out" >&2
cargo generate-rpm --payload-compress gzip -p crates/cli --profile dist --target "$target" --target-dir "$tree" --auto-req no -o "$out" >&2
tools/dist/sums.sh "$out"
