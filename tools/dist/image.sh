#!/usr/bin/env bash
# Makes an OCI image that holds the one file and nothing else, without any network: DIRECTORY/unstarve-oci.tar, which podman, containerd and
# skopeo read.
#
#     tools/dist/image.sh PROGRAM DIRECTORY
set -eu
program=$(realpath "$1") into=$(realpath "$2")
cd "$(dirname "$0")/../.."
command -v umoci >/dev/null || { echo "dist: no umoci here: no image" >&2; exit 0; }
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
read -r commit epoch <<<"$(tools/commit.sh)"
epoch=${SOURCE_DATE_EPOCH:-${epoch:-0}}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
version=$("$program" --version | cut -d' ' -f2)
image=$room/image:$version

# Times of files are in the layer.
install -D -m 755 "$program" "$room/root/usr/bin/unstarve"
mkdir -p "$room/root"/{etc/unstarve,run,tmp,var/lib}
chmod 1777 "$room/root/tmp"
find "$room/root" -depth -exec touch -h -d "@$epoch" {} +

umoci init --layout "$room/image"
umoci new --image "$image"
umoci insert --rootless --history.created "$created" --history.created_by tools/dist/image.sh --image "$image" "$room/root" /
umoci config --history.created "$created" --history.created_by tools/dist/image.sh --image "$image" --created "$created" --architecture amd64 --os linux \
    --config.entrypoint /usr/bin/unstarve --config.cmd watch --config.stopsignal SIGTERM \
    --config.env PATH=/usr/bin \
    --config.label org.opencontainers.image.title=unstarve --config.label "org.opencontainers.image.version=$version" \
    --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0" \
    ${commit:+--config.label "org.opencontainers.image.revision=$commit"}
umoci gc --layout "$room/image"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --mode=a+rX,go-w -C "$room/image" -cf "$into/unstarve-oci.tar" .
