#!/usr/bin/env bash
# Licences, SBOM and sums.
set -eu
out=$1
cd "$(dirname "$0")/../.."
# shellcheck source=tools/test-dist/common.sh
. tools/test-dist/common.sh
(cd "$out" && sha256sum --quiet -c SHA256SUMS)
(cd "$out" && for file in *; do [[ $file = SHA256SUMS || -d $file ]] || grep -q "  $file\$" SHA256SUMS || fail "$file has no sum"; done)
python3 - "$out/unstarve.cdx.json" <<'END'
import json, sys
sbom = json.load(open(sys.argv[1]))
names = {component["name"] for component in sbom["components"]}
assert sbom["bomFormat"] == "CycloneDX" and sbom["metadata"]["component"]["name"] == "unstarve-cli", sbom["metadata"]
missing = {"libbpf-sys", "clap", "parquet", "rustls", "unstarve-watch", "elfutils", "zlib"} - names
assert not missing, f"not in the SBOM: {missing}"
assert all("purl" in component or component["name"].startswith("unstarve-") for component in sbom["components"])
print(len(names), "components")
END
for crate in libbpf-sys parquet rustls; do
    grep -q "^$crate [0-9]" "$out/LICENCES.txt" || fail "$crate has no licence"
done
grep -q elfutils "$out/LICENCES-C.txt" || fail "no licence of elfutils"
