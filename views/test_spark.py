#!/usr/bin/env python3
"""Spark as it is run: a master and two workers on loopback. spark-submit asks all views, Spark Connect does, and a worker is killed while a
question is answered. Rows are compared with sums of our own.

    test_spark.py [submit|kill|connect…]

A killed worker may cost time or end in an error; other rows than the right ones it may not give. Exits with 1 if something differs.
Without Java or pyspark it says `skipped: …`.
"""
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()
sys.path[:0] = [str(Path(__file__).resolve().parent)]
import engines  # noqa: E402

sys.path[1:1] = [str(engines.CACHE)]
HERE = Path(__file__).resolve().parent
# Of one step, also where others use the machine.
LIMIT = 900
try:
    import pyspark
    import stores
    import sums
    import test_views
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh engines installs what the views are tested with")
    sys.exit(0)
if not shutil.which("java"):
    print("skipped: Spark needs Java (Debian: default-jre-headless)")
    sys.exit(0)
HOME = Path(pyspark.__file__).parent


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """A master and two workers with a core each, in process groups that end with this."""

    def __init__(self, scratch):
        self.scratch, self.running = scratch, []
        self.environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(scratch / "spark"), "SPARK_DAEMON_MEMORY": "256m", "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
                            "SPARK_NO_DAEMONIZE": "1", "PYTHONPATH": f"{HERE}:{engines.CACHE}", "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}  # fmt: skip
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self.start("master", "spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", 0)
        self.wait_for("master", "I have been elected leader")
        self.workers = [self.worker(number) for number in range(2)]
        self.wait_for("master", "Registering worker", 2)

    def worker(self, number):
        return self.start(f"worker-{number}", "spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--port", 0, "--webui-port", 0, "--cores", 1,
                          "--memory", "700m", "--work-dir", self.scratch / f"work-{number}", self.url)  # fmt: skip

    def start(self, name, program, *arguments, **environment):
        with open(self.scratch / f"{name}.log", "wb") as log:
            child = subprocess.Popen([HOME / "bin" / program, *map(str, arguments)], env={**self.environment, **environment}, cwd=self.scratch, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
        self.running.append(child)
        return child

    def log(self, name):
        return (self.scratch / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name, text, times=1, child=None):
        deadline = time.monotonic() + LIMIT
        while self.log(name).count(text) < times:
            if time.monotonic() > deadline or (child and child.poll() is not None):
                sys.exit(f"{name} does not say {text!r}:\n{self.log(name)[-3000:]}")
            time.sleep(0.2)

    def submit(self, name, *arguments):
        """Asks by spark-submit; the answers' file."""
        return self.start(name, "spark-submit", *self.options(name), HERE / "ask_spark.py", *arguments)

    def options(self, name):
        settings = {**engines.SMALL, "spark.driver.memory": "700m", "spark.executor.memory": "500m", "spark.sql.warehouse.dir": self.scratch / f"warehouse-{name}"}
        return ["--master", self.url, *(word for key, value in settings.items() for word in ("--conf", f"{key}={value}"))]

    def end(self, child):
        """It and what it started: a worker's executors."""
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()

    def close(self):
        for child in reversed(self.running):
            self.end(child)


def finished(cluster, name, child):
    try:
        return child.wait(LIMIT)
    except subprocess.TimeoutExpired:
        cluster.end(child)
        sys.exit(f"{name}: not done in {LIMIT} s:\n{cluster.log(name)[-3000:]}")


def check_answers(what, found, own):
    for view, columns in sums.COLUMNS.items():
        names, rows = found[own.question(view)]
        places = [names.index(name) for name in columns.split(", ")]
        rows = [[row[place] for place in places] for row in rows]
        ours = [list(map(engines.plain, row)) for row in own.of(view)]
        differs = "nothing was compared" if not ours else test_views.difference(test_views.unordered(rows), test_views.unordered(ours))
        if differs:
            test_views.problem(f"{what}: {view} differs from the row below: {differs}")
    print(f"{what}: {len(sums.COLUMNS)} views", flush=True)


def check_submit(cluster, store, own):
    answers = cluster.scratch / "all.json"
    child = cluster.submit("submit", store, answers, *map(own.question, sums.COLUMNS))
    if finished(cluster, "submit", child):
        sys.exit(f"spark-submit:\n{cluster.log('submit')[-3000:]}")
    check_answers("spark-submit", json.loads(answers.read_text()), own)


def check_kill(cluster, store, own, times=100):
    """A worker and its executor end while rows are counted so many times that it takes seconds."""
    question = f"select occupant, rule, sum(wide(ns)) as ns from blame_rollup cross join range({times}) group by occupant, rule"
    expected = sorted([occupant, rule, ns * times] for occupant, rule, ns in own.sums(own.blame, "occupant", "rule"))
    answers = cluster.scratch / f"killed-{times}.json"
    name = f"killed-{times}"
    child = cluster.submit(name, store, answers, question)
    deadline = time.monotonic() + LIMIT
    while not Path(f"{answers}.asked").exists():
        if child.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"{name}: did not ask:\n{cluster.log(name)[-3000:]}")
        time.sleep(0.05)
    # Planned, and being counted.
    time.sleep(3)
    if answers.exists():
        return check_kill(cluster, store, own, times * 8)
    cluster.end(cluster.workers[0])
    began = time.monotonic()
    code = finished(cluster, name, child)
    lost = "Lost executor" in cluster.log(name) or "Executor lost" in cluster.log(name) or "Lost task" in cluster.log(name)
    if not lost:
        test_views.problem("killed worker: the program does not say that it lost one; nothing was tried")
    if code:
        print(f"killed worker: an error, exit code {code}: {cluster.log(name).strip().splitlines()[-1][:200]}")
    else:
        rows = sorted(json.loads(answers.read_text())[question][1])
        if rows != expected:
            test_views.problem(f"killed worker: wrong rows: {test_views.difference(rows, expected)}")
        print(f"killed worker: the right {len(rows)} rows, {time.monotonic() - began:.1f} s later", flush=True)
    cluster.workers[0] = cluster.worker(2)
    cluster.wait_for("master", "Registering worker", 3)


def check_connect(cluster, store, own):
    """The questions by Spark Connect, from a process that has no Java of its own."""
    port = free_port()
    options = [*cluster.options("connect"), "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.connect.grpc.binding.address=127.0.0.1"]
    # It is a daemon to Spark, so its memory is a daemon's.
    server = cluster.start("connect", "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer", *options, "spark-internal", SPARK_DAEMON_MEMORY="700m")
    cluster.wait_for("connect", "Spark Connect server started", child=server)
    try:
        from pyspark.sql.connect.session import SparkSession
    except Exception as error:
        print(f"skipped: Spark Connect: {str(error).splitlines()[0]}")
        return
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    spark = engines.Spark(session)
    spark.open(store)
    check_answers("Spark Connect", {question: spark.ask(question) for question in map(own.question, sums.COLUMNS)}, own)
    session.stop()
    cluster.end(server)


CHECKS = {"submit": check_submit, "kill": check_kill, "connect": check_connect}


def main():
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="unstarve-spark-", ignore_cleanup_errors=True) as scratch:
        scratch = Path(scratch)
        store = stores.days(scratch / "store")
        own = sums.Sums(store)
        cluster = Cluster(scratch)
        try:
            print(f"Spark {pyspark.__version__}: {cluster.url}, 2 workers, {time.monotonic() - began:.0f} s", flush=True)
            for name, check in CHECKS.items():
                if sys.argv[1:] and name not in sys.argv[1:]:
                    continue
                start = time.monotonic()
                check(cluster, store, own)
                print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
        finally:
            cluster.close()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.monotonic() - began:.0f} s, {usage.ru_utime + usage.ru_stime:.0f} s of processors, the largest process {usage.ru_maxrss >> 10} MiB")
    sys.exit(f"{len(test_views.problems)} differences" if test_views.problems else 0)


if __name__ == "__main__":
    main()
