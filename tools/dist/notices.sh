#!/usr/bin/env bash
# What is inside of the program and under which licences: LICENCES.txt (crates, with their texts), LICENCES-C.txt (C libraries),
# unstarve.cdx.json (CycloneDX, of both).
#
#     tools/dist/notices.sh amd64|arm64 DIRECTORY
set -euo pipefail
into=$(realpath "$2")
cd "$(dirname "$0")/../.."
# shellcheck source=tools/dist/machine.sh
. tools/dist/machine.sh
for_machine "$1"
features=static,columnar,mcp

tools/dist/licences.py "$features" "$target" >"$into/LICENCES.txt"

# libbpf is compiled from the crate libbpf-sys; the others are the distribution's, whose packages have their licences.
here=("libgcc-$("${tools}gcc" -dumpversion)-dev${sysroot:+-$architecture-cross}") apart=()
libraries=(libelf-dev zlib1g-dev libc6-dev)
[[ -n $sysroot ]] && apart=("${libraries[@]}") || here+=("${libraries[@]}")
notice() { # root directory, packages…
    local package text
    for package in "${@:2}"; do
        text=$1/usr/share/doc/$package/copyright
        [[ -r $text ]] || { echo "dist: $text is not here" >&2; exit 1; }
        printf '===== %s\n\n' "$package"
        cat "$text"
        echo
    done
}
{
    notice '' "${here[@]}"
    notice "$sysroot" "${apart[@]}"
} >"$into/LICENCES-C.txt"
sources() { # their source packages and versions
    local package format='${source:Package} ${source:Version}\n'
    dpkg-query -W -f "$format" "${here[@]}"
    for package in "${apart[@]}"; do
        dpkg-deb --show --showformat "$format" "$sysroot/debs/${package}"_*.deb
    done
}

# It writes beside the manifest of every crate of the workspace, so it gets a copy.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml Cargo.lock crates "$copy"
cargo cyclonedx --quiet --manifest-path "$copy/crates/cli/Cargo.toml" --format json --features "$features" --target "$target" \
    --override-filename sbom
sources | sort -u | tools/dist/sbom.py "$copy/crates/cli/sbom.json" "$copy" >"$into/unstarve.cdx.json"
