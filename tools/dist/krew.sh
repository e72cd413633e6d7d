#!/usr/bin/env bash
# Makes what krew installs: unstarve-kubectl.tar.gz and the manifest unstarve.yaml that names it. The same sources give the same bytes.
#
#     tools/dist/krew.sh DIRECTORY URL HOMEPAGE      URL is the folder where the release's files will be, without the file's name
#     kubectl krew install --manifest=DIRECTORY/unstarve.yaml --archive=DIRECTORY/unstarve-kubectl.tar.gz      tries it before it is there
set -euo pipefail
[[ $# = 3 ]] || { sed -n 's/^#     //p' "$0" >&2 && exit 2; }
into=$(realpath -e "$1") url=${2%/} homepage=$3
cd "$(dirname "$0")/../.."
for address in "$url" "$homepage"; do
    # Also what sed and YAML take for their own is refused.
    [[ $address =~ ^https://[A-Za-z0-9._~/%+:-]+$ ]] || { echo "krew: $address: expected an address that begins with https://" >&2 && exit 2; }
done
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
plugin=packaging/kubectl/kubectl-unstarve
grep -qx "version=$version" "$plugin" || { echo "krew: $plugin is of another version than $version" >&2 && exit 1; }
read -r _ epoch <<<"$(tools/commit.sh)"
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
install -m 755 "$plugin" "$room"
install -m 644 LICENSE-MIT LICENSE-APACHE packaging/kubectl/access.yaml "$room"
archive=$into/unstarve-kubectl.tar.gz
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@${SOURCE_DATE_EPOCH:-${epoch:-0}}" -C "$room" -cf - kubectl-unstarve access.yaml \
    LICENSE-MIT LICENSE-APACHE | gzip -9n >"$archive"
sum=$(sha256sum "$archive")
sed -e '/^#/d' -e "s|@VERSION@|$version|; s|@HOMEPAGE@|$homepage|; s|@URL@|$url/unstarve-kubectl.tar.gz|; s|@SHA256@|${sum%% *}|" \
    packaging/kubectl/unstarve.yaml >"$into/unstarve.yaml"
echo "$into/unstarve.yaml"
