"""Real programs on this machine: healthy under load, and with a fault. Loads run for some seconds and end with the recording.

What else the machine does is in the recordings, too. Real-time bursts are of 0.3 s at most, on one CPU. Programs: Debian's
postgresql, redis-server, nginx, wrk, ffmpeg, fio, stress-ng and gcc; what is missing is said and left out.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS = 3
GROUPS = Path("/sys/fs/cgroup/cpu")
LAST = str(max(os.sched_getaffinity(0)))
FIRST = str(min(os.sched_getaffinity(0)))


class Stage:
    """What runs for one recording; ends all of it."""

    def __init__(self, scratch):
        self.scratch = Path(scratch)
        self.running = []
        self.groups = []
        self.said = []

    def start(self, *argv, cpu=None, group=None, keep=False, **options):
        argv = [str(word) for word in argv]
        if cpu is not None:
            argv = ["taskset", "-c", cpu, *argv]
        out = open(self.scratch / f"said.{len(self.running)}", "w+b") if keep else subprocess.DEVNULL
        if group:
            argv = ["sh", "-c", 'echo 0 > "$0" && exec "$@"', str(group / "cgroup.procs"), *argv]
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
                                 start_new_session=True, cwd=self.scratch, **options)
        self.running.append(child)
        if keep:
            self.said.append(out)
        return child

    def mix(self, *words, **where):
        return self.start(os.environ["MIX"], *words, keep=True, **where)

    def group(self, name, **settings):
        """A cgroup of the cpu controller, version 1 (bench/results/truth.md says why: no machine with version 2 was at hand)."""
        path = GROUPS / f"truth-{name}"
        path.mkdir()
        self.groups.append(path)
        for file, text in settings.items():
            (path / file).write_text(str(text))
        return path

    def end(self):
        for child in reversed(self.running):
            if child.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGINT)
        until = time.monotonic() + 3
        for child in self.running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.1, until - time.monotonic()))
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        for group in self.groups:
            for _ in range(50):
                try:
                    group.rmdir()
                    break
                except OSError:
                    time.sleep(0.1)

    def felt(self):
        texts = []
        for file in self.said:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return texts


def pgbench(stage, fault):
    """PostgreSQL with eight clients; the fault is a limit of a fifth of a CPU."""
    data = stage.scratch / "data"
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
    postgres = {"user": "postgres", "group": "postgres", "extra_groups": []}
    subprocess.run(["chown", "postgres", stage.scratch], check=True)
    run = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=stage.scratch, **postgres)
    subprocess.run([programs / "initdb", "-A", "trust", "-D", data], **run)
    group = stage.group("db", **{"cpu.cfs_quota_us": 20000}) if fault else None
    server = ["runuser", "-u", "postgres", "--", programs / "postgres", "-D", data, "-k", stage.scratch, "-h", ""]
    stage.start(*server, group=group)
    time.sleep(2)
    subprocess.run([programs / "pgbench", "-h", stage.scratch, "-i", "-s", "2", "postgres"], **run)
    stage.start("runuser", "-u", "postgres", "--", programs / "pgbench", "-h", stage.scratch, "-c", "8", "-T", SECONDS + 1,
                "postgres", keep=True)


def redis(stage, fault):
    """redis and its benchmark; the fault is a real-time program on redis' CPU, 0.2 of every 0.4 s."""
    stage.start("redis-server", "--save", "", "--port", "7379", cpu=LAST)
    time.sleep(0.5)
    stage.start("redis-benchmark", "-p", "7379", "-q", "-t", "get,set", "-n", "10000000", "-c", "16", cpu=FIRST, keep=True)
    if fault:
        stage.mix("start=200", f"for={SECONDS}", "policy=fifo:10", "burn", "rtpoll", "200000", "400000", cpu=LAST)


def nginx(stage, fault):
    """nginx and wrk; the fault is that nginx' group has 20 shares and a group beside it 102400, on one CPU."""
    light = stage.group("web", **{"cpu.shares": 20}) if fault else None
    (stage.scratch / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; user root; pid {stage.scratch}/pid; events {{ worker_connections 128; }}"
        f" http {{ access_log off; server {{ listen 127.0.0.1:7380; location / {{ return 200 hello; }} }} }}")
    stage.start("nginx", "-c", stage.scratch / "nginx.conf", "-e", stage.scratch / "log", cpu=LAST, group=light)
    time.sleep(1)
    stage.start("wrk", "-t1", "-c8", f"-d{SECONDS + 1}", "--timeout", "9", "http://127.0.0.1:7380/", cpu=FIRST, keep=True)
    time.sleep(0.3)
    if fault:
        stage.mix(f"for={SECONDS + 1}", "spin", "cruncher", cpu=LAST, group=stage.group("batch", **{"cpu.shares": 102400}))


def build(stage, fault):
    """gcc, eight at a time (the fault twin) or two: as any build has it."""
    source = Path(__file__).with_name("mix.c")
    jobs = 8 if fault else 2
    loop = f'while :; do gcc -O2 -c -o {stage.scratch}/$0.o {source}; echo compiled; done'
    for job in range(jobs):
        stage.start("sh", "-c", loop, job, keep=job == 0)


def ffmpeg(stage, fault):
    """A film of a test picture is encoded, by one thread or by as many as ffmpeg likes."""
    stage.start("ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc=size=1280x720:rate=30", "-t", "60", "-c:v", "libx264",
                "-threads", "0" if fault else "1", "-f", "null", "-")


def lock(stage, fault):
    """A thread of SCHED_IDLE that holds a lock, beside an ordinary program on its CPU."""
    policy = "policy=idle" if fault else "policy=other"
    stage.mix(f"for={SECONDS + 1}", "lock", "3000", "1000", policy, cpu=LAST)
    stage.mix(f"for={SECONDS + 1}", "spin", "cruncher", cpu=LAST)


def stress(stage, fault):
    """stress-ng with CPU, memory, pipes and timers, twice as much in the fault twin: busy, and nobody is treated unfairly."""
    many = "2" if fault else "1"
    stage.start("stress-ng", "--cpu", many, "--vm", many, "--vm-bytes", "64M", "--pipe", many, "--timer", "1", "-t",
                f"{SECONDS + 1}s")


def rings(stage, fault):
    """fio through io_uring and the page cache; the fault twin writes, the other one reads."""
    stage.start("fio", "--name=ring", f"--directory={stage.scratch}", "--size=64M", "--ioengine=io_uring", "--iodepth=16",
                "--bs=16k", "--rw=" + ("randwrite" if fault else "randread"), "--time_based", f"--runtime={SECONDS + 1}",
                keep=True)


SCENARIOS = {
    "host-pgbench": (pgbench, ["postgres", "pgbench"]),
    "host-redis": (redis, ["redis-server", "redis-benchmark"]),
    "host-nginx": (nginx, ["nginx", "wrk"]),
    "host-build": (build, ["gcc"]),
    "host-ffmpeg": (ffmpeg, ["ffmpeg"]),
    "host-lock": (lock, []),
    "host-stress": (stress, ["stress-ng"]),
    "host-rings": (rings, ["fio"]),
}


def record(unstarve, directory, names, keep):
    """Records what is not there yet; what the machine cannot do is said."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    os.environ["CGROUPS"] = str(GROUPS)
    release = ".".join(os.uname().release.split(".")[:2])
    for name in names or SCENARIOS:
        play, programs = SCENARIOS[name]
        missing = [program for program in programs if not shutil.which(program)]
        for twin in ("fault", "none"):
            base = directory / f"{name}.{release}.{twin}"
            if missing:
                print(f"{base.name}: left out, no {', '.join(missing)}")
            elif not base.with_name(base.name + ".dat.zst").exists():
                one(unstarve, base, play, twin == "fault", keep)
    return 0


def one(unstarve, base, play, fault, keep):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as scratch:
        os.chmod(scratch, 0o755)
        stage = Stage(scratch)
        try:
            play(stage, fault)
            time.sleep(0.5)
            trace = Path(scratch) / "trace.dat"
            command = [unstarve, "record", "-o", trace, "--for", f"{SECONDS}s"]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
        finally:
            stage.end()
        keep(base, trace, stage.felt())
