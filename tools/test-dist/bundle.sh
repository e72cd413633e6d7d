#!/usr/bin/env bash
# Unpacks the image as a runtime does: BUNDLE/rootfs, and what the image says of itself in BUNDLE/image.json.
#
#     bundle.sh IMAGE.tar BUNDLE
set -euo pipefail
layout=$(mktemp -d)
trap 'rm -rf "$layout"' EXIT
tar -xf "$1" -C "$layout"
tag=$(umoci list --layout "$layout")
umoci unpack --image "$layout:$tag" "$2"
mv "$2/config.json" "$2/image.json"
