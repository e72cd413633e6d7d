#!/usr/bin/env bash
# Prints cargo's options so that the program is built with all that it can have here: Arrow and Parquet and the server for agents always,
# the guard's eBPF where what that needs is installed.
#
#     cargo build -p unstarve-cli $(tools/features.sh)
features=unstarve-cli/columnar,unstarve-cli/mcp
if command -v clang >/dev/null && command -v pkg-config >/dev/null && [[ -r /usr/include/libelf.h && -r /usr/include/zlib.h ]]; then
    features+=,unstarve-cli/bpf
else
    echo "note: without clang, pkg-config and the headers of libelf and zlib the guard is built without eBPF" >&2
fi
echo --features "$features"
