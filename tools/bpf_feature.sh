#!/usr/bin/env bash
# Prints what cargo has to be told so that the guard is built with eBPF, or nothing if what that needs is not here.
#
#     cargo build -p unstarve-cli $(tools/bpf_feature.sh)
command -v clang >/dev/null && command -v pkg-config >/dev/null && [[ -r /usr/include/libelf.h && -r /usr/include/zlib.h ]] || {
    echo "note: without clang, pkg-config and the headers of libelf and zlib the guard is built without eBPF" >&2
    exit 0
}
echo --features unstarve-cli/bpf
