#!/usr/bin/env python3
"""Spreads the events of a perf.data over more CPUs: what a busy host of many CPUs would record, as far as reading and
analysing go.

    bench/spread.py PERF_DATA CPUS TIMES OUT

The recording (of `perf sched record`) is cut into as many parts as it takes; each part goes to CPUs of its own, with tasks of
its own, and all begin at the same moment. So the mix of events and who wakes whom stay; how many CPUs there are changes. Each
part is used TIMES times, for different CPUs: the result has so many times the events. Each CPU's buffer is written out
every 10 ms, as perf does in rounds.
"""
import re
import struct
import sys

SAMPLE, FINISHED_ROUND, NRCPUS, TRACEPOINT = 9, 68, 7, 2
# IDENTIFIER, IP, TID, TIME, CPU, PERIOD, RAW: where `perf sched record` has them.
ID, TID, TIME, CPU, RAW = 8, 24, 32, 40, 56
SAMPLE_TYPE = 0x10000 | 1 | 2 | 4 | 0x80 | 0x100 | 0x400
ROUND = 10_000_000
TASKS = 1 << 21  # Ids from here on are those of the parts' tasks, one after the other, as a host gives them.


def sections(file, at, count):
    return [struct.unpack_from("<QQ", file, at + 16 * index) for index in range(count)]


def formats(file):
    """Where events have ids of tasks and numbers of CPUs, by their own ids: out of the formats that perf keeps."""
    fields = {}
    for text in re.finditer(rb"name: (\w+)\nID: (\d+)\nformat:\n(.*?)\nprint fmt:", file, re.DOTALL):
        places = {name: int(at) for name, at in re.findall(rb"field:[^;]*?(\w+);\toffset:(\d+);", text[3])}
        tasks = [at for name, at in places.items() if name.endswith(b"pid")]
        fields[int(text[2])] = tasks, [at for name, at in places.items() if name.endswith(b"_cpu")]
    return fields


def moved(record, part, cpus, first, start, fields, ids, tids):
    """The sample as its part's CPUs and tasks would have issued it. The first part's tasks keep their ids."""
    record = bytearray(record)
    time, cpu = struct.unpack_from("<QI", record, TIME)
    cpu += part * cpus
    identifier = struct.unpack_from("<Q", record, ID)[0]
    struct.pack_into("<Q", record, ID, ids[identifier][cpu])
    # A few nanoseconds apart, so that parts do not tie.
    struct.pack_into("<QI", record, TIME, first + time - start + 3 * part, cpu)
    tasks, targets = fields[struct.unpack_from("<H", record, RAW + 4)[0]]
    for at in [TID + 4] + [RAW + 4 + at for at in tasks]:
        (tid,) = struct.unpack_from("<I", record, at)
        if part > 0 and 0 < tid < 1 << 31:
            struct.pack_into("<I", record, at, tids.setdefault((part, tid), TASKS + len(tids)))
    for at in targets:
        (target,) = struct.unpack_from("<I", record, RAW + 4 + at)
        struct.pack_into("<I", record, RAW + 4 + at, target + part * cpus)
    return first + time - start + 3 * part, cpu, bytes(record)


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    file, wanted, times = open(sys.argv[1], "rb").read(), int(sys.argv[2]), int(sys.argv[3])
    magic, _, attr_size, attrs_at, attrs_size, data_at, data_size = struct.unpack_from("<8sQQQQQQ", file)
    if magic != b"PERFILE2":
        sys.exit(f"{sys.argv[1]}: not a little-endian perf.data")
    features = [bit for bit in range(256) if file[72 + bit // 8] >> bit % 8 & 1]
    feature_sections = dict(zip(features, sections(file, data_at + data_size, len(features))))
    cpus = struct.unpack_from("<I", file, feature_sections[NRCPUS][0])[0]
    attrs = [file[at : at + attr_size] for at in range(attrs_at, attrs_at + attrs_size, attr_size)]

    # Each event is opened once on each CPU.
    ids, new_ids = {}, []
    for index, attr in enumerate(attrs):
        if struct.unpack_from("<I", attr)[0] == TRACEPOINT and struct.unpack_from("<Q", attr, 24)[0] != SAMPLE_TYPE:
            sys.exit(f"{sys.argv[1]}: not of `perf sched record`")
        at, size = struct.unpack_from("<QQ", attr, attr_size - 16)
        new = [1 + index * wanted + cpu for cpu in range(wanted)]
        new_ids.append(new)
        ids.update((old, new) for (old,) in struct.iter_unpack("<Q", file[at : at + size]))

    samples, others, at = [], [], data_at
    while at < data_at + data_size:
        kind, _, size = struct.unpack_from("<IHH", file, at)
        if kind == SAMPLE:
            samples.append((struct.unpack_from("<Q", file, at + TIME)[0], at, size))
        elif kind != FINISHED_ROUND:
            others.append(file[at : at + size])
        at += size
    samples.sort()
    parts = wanted // cpus
    fields, first, each = formats(file), samples[0][0], len(samples) * times // parts
    issued, tids = [], {}
    for part in range(parts):
        own = samples[part // times * each : (part // times + 1) * each]
        issued += [moved(file[at : at + size], part, cpus, first, own[0][0], fields, ids, tids) for _, at, size in own]
    issued.sort(key=lambda event: ((event[0] - first) // ROUND, event[1], event[0]))

    data, last = bytearray(b"".join(others)), 0
    for time, _, record in issued:
        if (time - first) // ROUND != last:
            last = (time - first) // ROUND
            data += struct.pack("<IHH", FINISHED_ROUND, 0, 8)
        data += record
    data += struct.pack("<IHH", FINISHED_ROUND, 0, 8)

    out = bytearray(file[:104])
    ids_at = attrs_at_new = 104
    ids_at += attr_size * len(attrs)
    for attr, new in zip(attrs, new_ids):
        out += attr[:-16] + struct.pack("<QQ", ids_at, 8 * len(new))
        ids_at += 8 * len(new)
    for new in new_ids:
        out += struct.pack(f"<{len(new)}Q", *new)
    struct.pack_into("<QQQQ", out, 24, attrs_at_new, attr_size * len(attrs), len(out), len(data))
    out += data
    content_at = len(out) + 16 * len(features)
    contents = []
    for bit in features:
        at, size = feature_sections[bit]
        contents.append(struct.pack("<II", wanted, wanted) if bit == NRCPUS else file[at : at + size])
        out += struct.pack("<QQ", content_at, len(contents[-1]))
        content_at += len(contents[-1])
    with open(sys.argv[4], "wb") as spread:
        spread.write(out + b"".join(contents))
    print(f"{len(issued)} samples on {wanted} CPUs")


main()
