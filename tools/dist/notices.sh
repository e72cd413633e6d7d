#!/usr/bin/env bash
# What is inside of the program and under which licences: LICENCES.html (crates, with their texts), LICENCES-C.txt (C libraries),
# unstarve.cdx.json (CycloneDX).
#
#     tools/dist/notices.sh DIRECTORY
set -eu
into=$(realpath "$1")
cd "$(dirname "$0")/../.."
target=$(rustc -vV | sed -n 's/^host: //p')
features=static,columnar

cargo about generate --locked --fail --manifest-path crates/cli/Cargo.toml --features "$features" --target "$target" \
    --config packaging/about/about.toml -o "$into/LICENCES.html" packaging/about/licences.hbs

# libbpf is compiled from libbpf-sys; the others are the distribution's, whose package has their licences.
{
    for package in libelf-dev zlib1g-dev libc6-dev "libgcc-$(cc -dumpversion)-dev"; do
        printf '===== %s\n\n' "$(dpkg-query -W -f '${source:Package} ${source:Version}' "$package" 2>/dev/null || echo "$package")"
        cat "/usr/share/doc/$package/copyright" || echo "The licence of $package is not installed here."
        echo
    done
} >"$into/LICENCES-C.txt"

# It writes beside the manifest of every crate of the workspace, so it gets a copy.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r Cargo.toml Cargo.lock crates "$copy"
cargo cyclonedx --quiet --manifest-path "$copy/crates/cli/Cargo.toml" --format json --features "$features" --target "$target" \
    --override-filename sbom
# Without the serial number, which is a new one each time.
python3 - "$copy/crates/cli/sbom.json" "$copy" >"$into/unstarve.cdx.json" <<'END'
import json, sys
text = open(sys.argv[1]).read().replace(sys.argv[2] + "/", "")
sbom = json.loads(text)
sbom.pop("serialNumber", None)
json.dump(sbom, sys.stdout, indent=1)
END
