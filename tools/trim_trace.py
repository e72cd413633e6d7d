#!/usr/bin/env python3
"""Makes a trace.dat of `unstarve record` small enough for testdata/.

    tools/trim_trace.py trace.dat testdata/traces/NAME.dat.zst

Nine tenths of a short recording are the kernel's table of symbols. All of it that no event names is overwritten with
newlines of the same number, so that no offset in the file changes, and the whole is compressed by zstd. Events stay as they are.
"""
import re
import struct
import subprocess
import sys


def text_after(data, at):
    """The text and the end of what follows: a 4-byte length and as many bytes."""
    (length,) = struct.unpack_from("<I", data, at)
    return at + 4, at + 4 + length


def symbols(data):
    """Where the table of symbols begins and ends in a file of version 6."""
    if data[:10] != b"\x17\x08\x44tracing" or data[10:12] != b"6\0" or data[12] != 0:
        sys.exit("expected a little-endian trace.dat of version 6, as `unstarve record` writes it")
    at = 12 + 1 + 1 + 4
    for name in (b"header_page\0", b"header_event\0"):
        if data[at : at + len(name)] != name:
            sys.exit(f"no {name!r} at byte {at}")
        (length,) = struct.unpack_from("<Q", data, at + len(name))
        at += len(name) + 8 + length

    def formats(at):
        (count,) = struct.unpack_from("<I", data, at)
        at += 4
        for _ in range(count):
            (length,) = struct.unpack_from("<Q", data, at)
            at += 8 + length
        return at

    at = formats(at)
    (systems,) = struct.unpack_from("<I", data, at)
    at += 4
    for _ in range(systems):
        at = formats(data.index(b"\0", at) + 1)
    return text_after(data, at)


def main(source, target):
    data = bytearray(open(source, "rb").read())
    begin, end = symbols(data)
    named = set()
    # Events follow the table, in pages; the fields in which addresses are lie at multiples of four.
    for start in (-(-end // 8) * 8, -(-end // 8) * 8 + 4):
        whole = bytes(data[start : start + (len(data) - start) // 8 * 8])
        named.update(word for (word,) in struct.iter_unpack("<Q", whole) if word >> 63)
    kept = 0
    for line in re.finditer(rb"[^\n]*\n", bytes(data[begin:end])):
        try:
            address = int(line.group().split(b" ", 1)[0], 16)
        except ValueError:
            address = None
        if address in named:
            kept += 1
        else:
            data[begin + line.start() : begin + line.end()] = b"\n" * (line.end() - line.start())
    subprocess.run(["zstd", "-q", "-19", "-f", "-o", target], input=bytes(data), check=True)
    print(f"{target}: {kept} symbols kept")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
