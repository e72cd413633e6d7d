#!/usr/bin/env bash
# Builds the program as one file that needs nothing of the host but a kernel, and its debug symbols apart. The same sources,
# compiler and C libraries give the same bytes, whatever directory they are in. Prints where the program is; beside it is
# unstarve.debug.
#
#     tools/dist/binary.sh [amd64|arm64]        by default this machine's own
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME PATH="$PATH:$HOME/.cargo/bin"
tree=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}/dist-tree
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# shellcheck source=tools/dist/machine.sh
. tools/dist/machine.sh
for_machine "${1:-$(own_machine)}"
read -r commit _ <<<"$(tools/commit.sh)"

search=() c_flags=
if [[ -n $sysroot ]]; then
    tools/dist/sysroot.sh "$architecture" "$sysroot" >&2
    search=("-B$sysroot/usr/lib/$multiarch")
    # Before those of the cross compiler's own glibc, which gets no security updates.
    c_flags=" -isystem $sysroot/usr/include/$multiarch -isystem $sysroot/usr/include"
fi
# Where a compiler finds them, so that rustc does, too. A bare name in the answer is one that it has not found.
libraries() { # compiler and options…
    local library found
    for library in libelf.a libz.a libc.a; do
        found=$("$@" -print-file-name=$library)
        [[ $found = */* ]] || { echo "dist: no $library; Debian's libelf-dev, zlib1g-dev and libc6-dev have them" >&2; return 1; }
        dirname "$(realpath "$found")"
    done | sort -u | paste -sd:
}
its=$(libraries "${tools}gcc" "${search[@]}")
# What compiles the BPF programs is linked for this machine by the same crate.
ours=$(libraries gcc)

# Paths of this machine are in no output: neither Rust's, nor those of the C libraries that are compiled on the way.
flags=(-Ctarget-feature=+crt-static -Clink-arg=-Wl,--build-id=sha1)
[[ -z $sysroot ]] || flags+=("-Clinker=${tools}gcc" "-Clink-arg=${search[0]}")
for pair in "$PWD=." "$tree=target" "$cargo_home=cargo" ${sysroot:+"$sysroot=sysroot"}; do
    flags+=("--remap-path-prefix=$pair")
    c_flags+=" -ffile-prefix-map=$pair"
done
flags+=("--remap-path-prefix=$(rustc --print sysroot)=rust")
# By the target's name: build scripts are for this machine.
host=$(rustc -vV | sed -n 's/^host: //p')
env "CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; echo "${flags[*]}")" "CFLAGS_${target//-/_}=${c_flags# }" \
    "LIBBPF_SYS_LIBRARY_PATH_${host//-/_}=$ours" "LIBBPF_SYS_LIBRARY_PATH_${target//-/_}=$its" \
    CARGO_INCREMENTAL=0 "CARGO_TARGET_DIR=$tree" "UNSTARVE_COMMIT=$commit" \
    cargo build --locked --profile dist -p unstarve-cli --target "$target" \
    --features unstarve-cli/static,unstarve-cli/columnar,unstarve-cli/mcp >&2

place=$tree/$target/dist/shipped
mkdir -p "$place"
cp "$tree/$target/dist/unstarve" "$place/unstarve.whole"
cd "$place"
"${tools}objcopy" --only-keep-debug --compress-debug-sections unstarve.whole unstarve.debug
"${tools}objcopy" --strip-all --add-gnu-debuglink=unstarve.debug unstarve.whole unstarve
rm unstarve.whole
# It would start in no empty root.
if readelf -lW unstarve | grep -q INTERP || readelf -dW unstarve | grep -q NEEDED; then
    echo "dist: $place/unstarve asks for libraries of the host" >&2
    exit 1
fi
echo "$place/unstarve"
