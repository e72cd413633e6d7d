#!/usr/bin/env bash
# Builds the program as one file that needs nothing of the host but a kernel, and its debug symbols apart. The same sources,
# compiler and C libraries give the same bytes, whatever directory they are in. Prints where the program is; beside it is
# unstarve.debug.
#
#     tools/dist/binary.sh
set -eu
cd "$(dirname "$0")/../.."
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
export HOME PATH="$PATH:$HOME/.cargo/bin"
tree=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/target}/dist-tree
cargo_home=${CARGO_HOME:-$HOME/.cargo}
target=$(rustc -vV | sed -n 's/^host: //p')
read -r commit _ <<<"$(tools/commit.sh)"

# Where the compiler finds them, so that rustc does, too. A bare name in the answer is one that it has not found.
places=()
for library in libelf.a libz.a; do
    found=$(cc -print-file-name=$library)
    [[ $found = */* ]] || { echo "dist: no $library; Debian's libelf-dev and zlib1g-dev have both" >&2; exit 1; }
    places+=("$(dirname "$(realpath "$found")")")
done
libraries=$(printf '%s\n' "${places[@]}" | sort -u | paste -sd:)

# Paths of this machine are in no output: neither Rust's, nor those of the C libraries that are compiled on the way.
flags=(-Ctarget-feature=+crt-static -Clink-arg=-Wl,--build-id=sha1)
c_flags=
for pair in "$PWD=." "$tree=target" "$cargo_home=cargo"; do
    flags+=("--remap-path-prefix=$pair")
    c_flags+=" -ffile-prefix-map=$pair"
done
flags+=("--remap-path-prefix=$(rustc --print sysroot)=rust")
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; echo "${flags[*]}") CFLAGS=${c_flags# } LIBBPF_SYS_LIBRARY_PATH=$libraries \
    CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$tree UNSTARVE_COMMIT=$commit \
    cargo build --locked --profile dist -p unstarve-cli --target "$target" \
    --features unstarve-cli/static,unstarve-cli/columnar >&2

place=$tree/$target/dist/shipped
mkdir -p "$place"
cp "$tree/$target/dist/unstarve" "$place/unstarve.whole"
cd "$place"
objcopy --only-keep-debug --compress-debug-sections unstarve.whole unstarve.debug
objcopy --strip-all --add-gnu-debuglink=unstarve.debug unstarve.whole unstarve
rm unstarve.whole
# It would start in no empty root.
if readelf -lW unstarve | grep -q INTERP || readelf -dW unstarve | grep -q NEEDED; then
    echo "dist: $place/unstarve asks for libraries of the host" >&2
    exit 1
fi
echo "$place/unstarve"
