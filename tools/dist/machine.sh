# shellcheck shell=bash
# For the scripts here: which machine something is built for. `for_machine amd64` or `arm64` sets
#
#     architecture  that name
#     target        Rust's name
#     multiarch     the name in Debian's directories of libraries
#     tools         what the names of its C compiler and binutils begin with; empty on the machine itself
#     sysroot       where its C libraries are (tools/dist/sysroot.sh fills it); empty on the machine itself

own_machine() {
    case $(rustc -vV | sed -n 's/^host: //p') in
    x86_64-unknown-linux-gnu) echo amd64 ;;
    aarch64-unknown-linux-gnu) echo arm64 ;;
    *) echo "dist: packages are made on x86-64 and arm64 only" >&2 && return 1 ;;
    esac
}

# shellcheck disable=SC2034
for_machine() {
    local cpu
    case $1 in
    amd64) cpu=x86_64 ;;
    arm64) cpu=aarch64 ;;
    *) echo "dist: $1: there is amd64 and arm64" >&2 && return 1 ;;
    esac
    target=$cpu-unknown-linux-gnu
    multiarch=$cpu-linux-gnu
    architecture=$1 tools='' sysroot=''
    if [[ $1 != "$(own_machine)" ]]; then
        tools=$multiarch-
        sysroot=${XDG_CACHE_HOME:-$HOME/.cache}/unstarve/sysroot-$1
        command -v "${tools}gcc" >/dev/null || { echo "dist: no ${tools}gcc here; Debian's package gcc-${multiarch/_/-} has it" >&2 && return 1; }
    fi
}
