#!/usr/bin/env bash
# Brings Debian's static libraries and headers of another architecture into a directory of their own, of the same releases as this machine's packages.
# Nothing is installed. Prints the directory; the packages themselves are in its folder debs.
#
#     tools/dist/sysroot.sh arm64 DIRECTORY
set -euo pipefail
architecture=$1 into=$2
packages=(libelf-dev zlib1g-dev libc6-dev linux-libc-dev)
mkdir -p "$into/debs"
into=$(realpath "$into")
APT_CONFIG=$("$(dirname "$0")/apt.sh" "$architecture" "$into/apt")
export APT_CONFIG
cd "$into/debs"
for package in "${packages[@]}"; do
    # Nothing is printed where the newest version is there already.
    if [[ -n $(apt-get -q download --print-uris "$package") ]]; then
        rm -f "${package}"_*.deb
        apt-get -qq download "$package" >&2
    fi
    dpkg-deb -x "${package}"_*.deb "$into"
done
echo "$into"
