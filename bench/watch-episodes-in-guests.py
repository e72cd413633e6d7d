#!/usr/bin/env python3
"""Runs all of `unstarve watch` in guests of the lab, beside each scenario's fault and beside its healthy twin, and judges its episodes.

    bench/watch-episodes-in-guests.py UNSTARVE [--kernel K ...] [--twin default|none] [--seconds S] [--keep DIR] [SCENARIO ...]
    bench/watch-episodes-in-guests.py UNSTARVE --idle SECONDS [--every S] [--kernel K ...] [SCENARIO]

A SCENARIO is one of the lab's or a file with an `[expect]`. In each guest the watch runs as root with the default thresholds, from before the
loads begin until its episodes are explained. What was injected has to be the headline of an episode, as `[expect]` says: finding and
victim, and its culprit among those of the finding. Beside a healthy twin, and where nothing is starved, there must be no episode. Where nobody waits for
long (preemption-thrash, wake-storm), there may be none (docs/decisions/0220); then the numbers are shown. Loads last S virtual seconds (3). `--idle`
watches a guest for so long, beside nothing or beside a scenario, and shows every S (300) seconds what the watch has taken.

One line of a Markdown table for each guest; exit code 1 if one is not as it should be.
"""
import argparse
import collections
import fnmatch
import json
import pathlib
import re
import sys
import tarfile
import tempfile
import tomllib

import guests

HERE = pathlib.Path(__file__).resolve().parent
# The watch is ready by then.
BEFORE = 8
# Who comes last is seen a reading later.
AFTER = 2
TOOLS = ["bash", "sleep", "grep", "tar", "cat", "mkdir"]
CONFIG = 'version = 1\n[store]\ndirectory = "/run/watch/store"\n[sinks]\nlog = "stderr"\n'
NOTHING = 'name = "nothing"\ntitle = "nothing but the watch"\nmemory_mib = 1024\ncpus = 2\n'
# Findings about costs that are no long waits.
NO_LONG_WAITS = {"preemption-thrash", "wake-storm"}
PRECEDENCE = {"irq", "softirq", "throttled", "class", "order", "wakeup-preemption", "weight", "count"}


def with_watch(text, name, arguments):
    """The scenario with the watch as its main load; its own loads begin when that is ready."""
    text = guests.without_main(guests.loads_later(guests.renamed(text, name, "watch"), BEFORE * 1000))
    script = json.dumps((HERE / "watch-in-guest.sh").read_text())
    more = [
        "", "[[file]]", 'path = "/etc/unstarve/watch.toml"', f"text = {json.dumps(CONFIG)}",
        "[[file]]", 'path = "/opt/watch-in-guest.sh"', "executable = true", f"text = {script}",
        "[[load]]", 'name = "watch"', "main = true", f"argv = {json.dumps(['/opt/watch-in-guest.sh', *map(str, arguments)])}", "",
    ]
    return guests.with_tools(text, TOOLS) + "\n".join(more)


class Left:
    """What the watch left in a guest."""

    def __init__(self, archive):
        with tarfile.open(archive) as tar:
            self.files = {member.name.removeprefix("./"): tar.extractfile(member).read() for member in tar if member.isfile()}

    def text(self, name):
        return self.files.get(name, b"").decode(errors="replace")

    def episodes(self):
        """Of each the last line."""
        lines = map(json.loads, self.text("store/episodes.jsonl").splitlines())
        return list({line["id"]: line for line in lines}.values())

    def report(self, episode):
        name = f"store/{episode.get('trace_of', episode['id'])}/report.json"
        return json.loads(self.files[name]) if name in self.files else {"findings": []}

    def remarks(self):
        """What episodes say of themselves."""
        return [f"{episode['id']}: {episode['problem']}" for episode in self.episodes() if "problem" in episode]

    def troubles(self):
        """What did not go as it should with the watch itself. That a trace begins late is none: the episode before took the recorder's past."""
        found = []
        times = [float(time) for time in self.text("times").split()]
        if len(times) < 2 or times[1] - times[0] >= BEFORE:
            found.append(f"ready too late: {times}")
        if self.text("exit").strip() != "0":
            found.append(f"ended with {self.text('exit').strip()}: {self.text('said').strip().splitlines()[-1:]}")
        status = json.loads(self.text("status") or "{}")
        if status.get("engine") != "eBPF":
            found.append(f"engine {status.get('engine')}")
        found += status.get("problems", [])
        found += [remark for remark in self.remarks() if "the trace begins" not in remark]
        found += [f"{episode['id']}: no last word" for episode in self.episodes() if episode["stage"] != "complete"]
        return found

    def most(self, seconds):
        """The longest wait and the most that others were preferred, over all roles, by the metrics."""
        waits, preferred = {}, collections.Counter()
        for name, labels, value in re.findall(r"(?m)^(\w+)\{(.*)\} (\S+)", self.text("metrics")):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
            if name == "unstarve_wait_seconds_bucket":
                waits.setdefault(labels["victim"], []).append((float(labels["le"]), float(value)))
            if name == "unstarve_blame_seconds_total" and labels["rule"] in PRECEDENCE:
                preferred[labels["victim"]] += float(value)
        longest = {}
        for victim, buckets in waits.items():
            buckets.sort()
            longest[victim] = next((upper for upper, count in buckets if count == buckets[-1][1]), 0)
        who = max(longest, key=longest.get, default="")
        share = preferred.most_common(1)
        return f"longest wait up to {longest.get(who, 0):g} s ({who}); most preferred to {share[0][0]}, {share[0][1] / seconds:.2f} of the time" if share else "no waits"


def fits(pattern, text):
    return any(fnmatch.fnmatchcase(text, one.replace("[", "[[]")) for one in pattern.split("|"))


def names(patterns):
    return [patterns] if isinstance(patterns, str) else list(patterns or [])


def is_injected(episode, left, expect):
    """Whether an episode's headline is what was injected: the words of `[expect]`, as `lab truth` reads them."""
    if episode.get("finding") not in expect.get("finding", []):
        return False
    headline = episode.get("victim", {}).get("comm", "")
    victim = expect.get("victim", {})
    victim = {"comm": victim} if isinstance(victim, str) else victim
    for finding in left.report(episode)["findings"]:
        if finding["id"] != episode["finding"] or finding["victim"]["comm"] != headline:
            continue
        have = {**finding["victim"], "work": (finding["victim"].get("work") or {}).get("function", "")}
        culprits = [culprit["comm"] for culprit in finding["culprits"]]
        if all(fits(pattern, have[key]) for key, pattern in victim.items()) and all(
                any(fits(pattern, culprit) for culprit in culprits) for pattern in names(expect.get("culprit"))):
            return True
    return False


def in_short(episode):
    who = episode.get("victim", {})
    by = episode.get("culprit", {})
    trigger = episode.get("trigger") or {}
    seen = {"wait": "ns", "oldest": "ns"}.get(trigger.get("kind"), "share")
    amount = trigger.get(seen, 0)
    amount = f"{amount / 1e6:.0f} ms" if seen == "ns" else f"{amount:.2f}"
    return (f"{episode.get('finding', 'no finding')}: {who.get('comm') or who.get('role')} by {by.get('comm') or by.get('role')} ({episode.get('rule')}, "
            f"{episode.get('ns', 0) / 1e6:.0f} ms); {trigger.get('kind')} {amount}")


def judged(left, expect, twin, seconds):
    """Whether it is as it should be, and the words on it."""
    episodes = left.episodes()
    wanted = expect.get("finding", []) if twin == "default" else []
    said = "<br>".join(map(in_short, episodes))
    if not wanted:
        return not episodes, said or f"none, rightly; {left.most(seconds)}"
    right = [episode for episode in episodes if is_injected(episode, left, expect)]
    if right:
        return True, said
    if not episodes and set(wanted) <= NO_LONG_WAITS:
        return True, f"none: nobody waits for long ({', '.join(wanted)}); {left.most(seconds)}"
    return False, said or f"NONE; {left.most(seconds)}"


def watched(options, text, name, kernel, twin, arguments, seconds):
    """What the watch left in a guest, or why nothing."""
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        if options.keep:
            directory = options.keep / f"{name}.{kernel}.{twin}"
            directory.mkdir(parents=True, exist_ok=True)
        out = directory / "out"
        if not options.again:
            run = guests.Run(options.unstarve, kernel, twin, seconds, options.init, options.limit)
            out, ran = run.boot(with_watch(text, name, arguments), directory)
            (directory / "said").write_text(ran.stdout)
        if not (out / "watch.out").exists():
            return None, "".join((directory / "said").read_text().strip().splitlines()[-1:])
        try:
            return Left(out / "watch.out"), None
        except (tarfile.TarError, OSError) as error:
            return None, str(error)


def beside(options, name, kernel):
    """A line for each twin."""
    name, text = guests.scenario(options.unstarve, name)
    expect = tomllib.loads(text).get("expect", {})
    every = True
    seconds = options.seconds or 3
    for twin in [options.twin] if options.twin else ["default", "none"]:
        left, why = watched(options, text, name, kernel, twin, [BEFORE + seconds + AFTER], seconds)
        if why and "is for kernels" in why:
            return every
        good, said = judged(left, expect, twin, seconds) if left else (False, f"no outcome: {why}")
        troubles = left.troubles() if left else []
        word = {True: "right", False: "**WRONG**"}[good]
        more = "".join(f"<br>**{trouble}**" for trouble in troubles)
        more += "".join(f"<br>{remark}" for remark in left.remarks() if remark not in troubles) if left else ""
        print(f"| {name} | {kernel} | {'faulty' if twin == 'default' else 'healthy'} | {word} | {said}{more} |", flush=True)
        every &= good and not troubles
    return every


def idle(options, kernel):
    """What the watch takes over a long time: a line for each sample, from the first one on."""
    name, text = guests.scenario(options.unstarve, options.scenarios[0]) if options.scenarios else ("nothing", NOTHING)
    left, why = watched(options, text, name, kernel, options.twin or "default", [options.idle, options.every], min(options.idle, 60))
    if not left:
        print(f"| {name} | {kernel} | no outcome: {why} |")
        return False
    rows = [list(map(float, line.split())) for line in left.text("samples").splitlines()]
    for before, row in zip(rows, rows[1:]):
        minutes = (row[0] - before[0]) / 60
        user, system = (10 * (row[at] - before[at]) / minutes for at in (1, 2))
        print(f"| {name} | {kernel} | {row[0] - rows[0][0]:.0f} s | {row[3]:.0f} KiB | {row[4]:.0f} | {user:.1f} ms | {system:.1f} ms |", flush=True)
    episodes, troubles = left.episodes(), left.troubles()
    print(f"{name} on {kernel}: {len(episodes)} episodes; {'; '.join(map(in_short, episodes))}{'; '.join(troubles)}")
    first, last = rows[1], rows[-1]
    grown = [at for at in (3, 4) if last[at] > first[at] * 1.1]
    return not episodes and not troubles and not grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("unstarve")
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--kernel", action="append")
    parser.add_argument("--twin", choices=["default", "none"])
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--idle", type=int)
    parser.add_argument("--every", type=int, default=300)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the guests' results here")
    parser.add_argument("--again", action="store_true", help="boot nothing; judge what is kept")
    parser.add_argument("--init", help="the unstarve that runs in the guests, if not this one")
    parser.add_argument("--limit", type=int, default=1800, help="host's seconds for a guest")
    options = parser.parse_intermixed_args()
    kernels = options.kernel or guests.KERNELS
    if options.idle:
        print("| load | kernel | after | resident | files | user CPU a minute | system |\n|---|---|---|---|---|---|---|", flush=True)
        sys.exit(0 if all([idle(options, kernel) for kernel in kernels]) else 1)
    print("| scenario | kernel | twin | | episodes |\n|---|---|---|---|---|", flush=True)
    scenarios = options.scenarios or guests.listed(options.unstarve)
    sys.exit(0 if all([beside(options, name, kernel) for name in scenarios for kernel in kernels]) else 1)


main()
