#!/usr/bin/env bash
# Makes an OCI image that holds the program, licences and nothing else, without any network: DIRECTORY/unstarve-oci.tar, which podman, skopeo and
# containerd read. The same program gives the same bytes.
#
#     tools/dist/image.sh PROGRAM DIRECTORY VERSION        DIRECTORY has LICENCES.txt and LICENCES-C.txt
set -euo pipefail
program=$(realpath "$1") into=$(realpath "$2") version=$3
cd "$(dirname "$0")/../.."
command -v umoci >/dev/null || { echo "dist: no umoci here (Debian's package umoci): no image" >&2; exit 1; }
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
umask 022
read -r commit epoch <<<"$(tools/commit.sh)"
epoch=${SOURCE_DATE_EPOCH:-${epoch:-0}}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
case $(readelf -hW "$program" | sed -n 's/ *Machine: *//p') in
*X86-64) architecture=amd64 ;;
AArch64) architecture=arm64 ;;
*) echo "dist: $program: an image is made for x86-64 and arm64 only" >&2 && exit 1 ;;
esac

root=$room/root
install -D -m 755 "$program" "$root/usr/bin/unstarve"
# What a pod mounts there finds its place even if nothing can be written.
mkdir -p "$root"/{dev,etc/unstarve,proc,run/unstarve,sys,tmp,usr/share/doc/unstarve,var/lib/unstarve}
chmod 1777 "$root/tmp"
for notice in LICENSE-MIT LICENSE-APACHE "$into/LICENCES.txt" "$into/LICENCES-C.txt"; do
    gzip -9nc "$notice" >"$root/usr/share/doc/unstarve/${notice##*/}.gz"
done
# Times of files are in the layer.
find "$root" -depth -exec touch -h -d "@$epoch" {} +

image=$room/image:$version
history=(--history.created "$created" --history.created_by tools/dist/image.sh)
label=org.opencontainers.image
umoci init --layout "$room/image"
umoci new --image "$image"
umoci insert --rootless "${history[@]}" --image "$image" "$root" /
umoci config "${history[@]}" --image "$image" --created "$created" --architecture "$architecture" --os linux \
    --config.entrypoint /usr/bin/unstarve --config.cmd watch --config.stopsignal SIGTERM --config.env PATH=/usr/bin \
    --config.label $label.title=unstarve --config.label "$label.version=$version" \
    --config.label "$label.licenses=MIT OR Apache-2.0" ${commit:+--config.label "$label.revision=$commit"}
umoci gc --layout "$room/image" >&2
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --mode=a+rX,go-w -C "$room/image" -cf "$into/unstarve-oci.tar" .
