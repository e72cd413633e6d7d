#!/usr/bin/env bash
# Makes the package for Python with the program inside (docs/python.md), and prints where it is. Another build of the same commit gives the same bytes.
#
#     tools/wheel.sh DIRECTORY PROGRAM     one static file, as `make dist` makes it; licences that lie beside it (LICENCES*.txt) are put in
#     tools/wheel.sh DIRECTORY             without a program: for every machine, uses that of the host
set -euo pipefail
[[ $# -ge 1 && $# -le 2 ]] || { echo "wheel: expected DIRECTORY [PROGRAM]" >&2 && exit 2; }
mkdir -p "$1"
out=$(realpath "$1")
export UNSTARVE_PROGRAM='' UNSTARVE_PLATFORM=''
if [[ $# -gt 1 ]]; then
    UNSTARVE_PROGRAM=$(realpath "$2")
    case $(readelf -hW "$UNSTARVE_PROGRAM" | sed -n 's/^ *Machine: *//p') in
    *X86-64) cpu=x86_64 ;;
    AArch64) cpu=aarch64 ;;
    *) echo "wheel: $2: is no program for x86-64 or arm64" >&2 && exit 2 ;;
    esac
    # No library of the host: as old a Linux, and as other a libc, as a wheel can say.
    UNSTARVE_PLATFORM=manylinux2014_$cpu.musllinux_1_1_$cpu
    if readelf -lW "$UNSTARVE_PROGRAM" | grep -q INTERP; then
        # Only where it was built: PyPI takes no such wheel.
        UNSTARVE_PLATFORM=linux_$cpu
        echo "wheel: $2 needs the host's libraries: the wheel is for machines like this one" >&2
    fi
fi
cd "$(dirname "$0")/.."
read -r _ epoch <<<"$(tools/commit.sh)"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-${epoch:-0}}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
# What builds it is what tools/setup.sh has installed (tools/python.txt); where it has not, pip fetches it.
python=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/notebook isolated=()
if PYTHONPATH=$python python3 -c 'import hatchling' 2>/dev/null; then
    export PYTHONPATH=$python
    isolated=(--no-build-isolation)
fi
python3 -m pip wheel -q --no-input --disable-pip-version-check --no-deps "${isolated[@]}" --wheel-dir "$room" ./python >&2
made=$(basename "$room"/unstarve-*.whl)
mv "$room/$made" "$out/$made"
echo "$out/$made"
