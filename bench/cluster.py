"""A scheduler and two executors on loopback, for a measurement."""
import os
import subprocess
import tempfile


class Cluster:
    """As long as it is entered. Its executors read one place; what they keep, and the token, is in a directory of its own."""

    def __init__(self, program, place, executors=2):
        self.program, self.place, self.count = str(program), str(place), executors
        self.parts, self.executors = [], []

    def __enter__(self):
        self.home = tempfile.TemporaryDirectory(prefix="unstarve-cluster-")
        self.environment = {**os.environ, "XDG_STATE_HOME": self.home.name}
        try:
            self.address = self.start("listening at", "scheduler", "--listen", "127.0.0.1:0")
            for number in range(self.count):
                self.start("registered with", "executor", "--scheduler", self.address, "--place", self.place, "--work", self.work(number))
                self.executors.append(self.parts[-1])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for part in reversed(self.parts):
            part.kill()
            part.wait()
            part.stdout.close()
        self.home.cleanup()

    def start(self, word, *arguments):
        """Starts a part; the word after this one in what it says."""
        part = subprocess.Popen([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=self.environment)
        self.parts.append(part)
        for line in part.stdout:
            if f"{word} " in line:
                return line.split(f"{word} ", 1)[1].split()[0].rstrip(",")
        raise RuntimeError(f"{arguments}: it ended")

    def work(self, number):
        return f"{self.home.name}/executor-{number}"

    def jobs(self, number):
        """Directories of queries that an executor has rows of."""
        found = set()
        for own in os.scandir(self.work(number)) if os.path.isdir(self.work(number)) else []:
            found |= {entry.name for entry in os.scandir(own.path) if entry.is_dir()}
        return found

    def command(self, question, place):
        return [self.program, "sql", "--cluster", f"df://{self.address}", "--format", "csv", question, str(place)]

    def ask(self, question, place):
        return subprocess.run(self.command(question, place), stdin=subprocess.DEVNULL, capture_output=True, env=self.environment)

    def begin(self, question, place):
        return subprocess.Popen(self.command(question, place), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)

    def kill(self, number):
        """SIGKILL."""
        self.executors[number].kill()
        self.executors[number].wait()
