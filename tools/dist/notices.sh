#!/usr/bin/env bash
# What is inside of the program and under which licences: LICENCES.txt (crates, with their texts), LICENCES-C.txt (C libraries),
# unstarve.cdx.json (CycloneDX, of both).
#
#     tools/dist/notices.sh DIRECTORY
set -euo pipefail
into=$(realpath "$1")
cd "$(dirname "$0")/../.."
target=$(rustc -vV | sed -n 's/^host: //p')
features=static,columnar

tools/dist/licences.py "$features" "$target" >"$into/LICENCES.txt"

# libbpf is compiled from the crate libbpf-sys; the others are the distribution's, whose packages have their licences.
packages=(libelf-dev zlib1g-dev libc6-dev "libgcc-$(cc -dumpversion)-dev")
for package in "${packages[@]}"; do
    [[ -r /usr/share/doc/$package/copyright ]] || { echo "dist: /usr/share/doc/$package/copyright is not here" >&2; exit 1; }
    printf '===== %s\n\n' "$package"
    cat "/usr/share/doc/$package/copyright"
    echo
done >"$into/LICENCES-C.txt"

# It writes beside the manifest of every crate of the workspace, so it gets a copy.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml Cargo.lock crates "$copy"
cargo cyclonedx --quiet --manifest-path "$copy/crates/cli/Cargo.toml" --format json --features "$features" --target "$target" \
    --override-filename sbom
dpkg-query -W -f '${source:Package} ${source:Version}\n' "${packages[@]}" | sort -u |
    tools/dist/sbom.py "$copy/crates/cli/sbom.json" "$copy" >"$into/unstarve.cdx.json"
