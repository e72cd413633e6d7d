"""Answers to views without any engine: sums in Python over the rows of a store, for a third opinion. Of each view the columns are those of
COLUMNS; rows have no order."""
import collections
import datetime
import functools
import re
import statistics

from stores import rows

STARVED = {"class", "weight", "wakeup-preemption", "throttled"}
KERNEL_KINDS = {"ksoftirqd", "direct-io", "kworker", "rcu", "storage", "nfsd", "kernel"}
# Views of single rows are asked for one host of many: sums are over all of them.
OF_ROWS, ONE_HOST = {"marked_hourly", "starved_hourly", "starved", "starved_kernel_threads"}, "host-0003"
HOUR = datetime.timedelta(hours=1)


class Sums:
    def __init__(self, store):
        self.blame, self.waits, self.hosts, self.settings, self.episodes, self.proofs = (
            rows(store, table) for table in ("blame_rollup", "wait_rollup", "hosts", "settings", "episodes", "proofs"))
        self.starved = [row for row in self.blame if row["rule"] in STARVED]
        self.kernel_threads = [row for row in self.starved if row["victim_kind"] in KERNEL_KINDS]
        # datetime.now() of this machine, as of the engines.
        self.horizon = datetime.datetime.now(datetime.timezone.utc) + HOUR

    @staticmethod
    def by(of, *keys):
        """Rows by the values of columns, or of functions of rows."""
        groups = collections.defaultdict(list)
        for row in of:
            groups[tuple(key(row) if callable(key) else row.get(key) for key in keys)].append(row)
        return groups

    def sums(self, of, *keys, hosts=False):
        for key, group in self.by(of, *keys).items():
            yield (*key, *([len({row["host"] for row in group})] if hosts else []), sum(row["ns"] for row in group))

    def watched(self):
        return set((row["host"], row.get("kernel"), row.get("labels"), row["ts"], row["span_ns"]) for row in self.waits)

    def shares(self, *keys):
        """By keys: hosts, ns, the share and what is missing, from what each host, kernel and labels have."""
        whole = ("host", "kernel", "labels")
        watched, waits, blame = collections.Counter(), self.by(self.waits, *whole), self.by(self.blame, *whole)
        for host, kernel, labels, _, span in self.watched():
            watched[host, kernel, labels] += span
        first = {key: min(row["ts"] for row in waits.get(key, []) + blame.get(key, [])) for key in {*waits, *blame}}
        parts = []
        for key in {*waits, *blame}:
            ns = sum(row["ns"] for row in blame.get(key, []) if row["rule"] in STARVED and row["victim_kind"] in KERNEL_KINDS)
            if key not in blame and sum(row["sum_ns"] for row in waits[key]):
                ns = None
            missing = "wait_rollup" if key not in waits else "blame_rollup" if ns is None else None
            parts.append(dict(zip(whole, key), ns=ns, watched=watched.get(key), missing=missing, first=first[key]))
        for key, group in self.by(parts, *keys).items():
            known = [part for part in group if not part["missing"]]
            time = sum(part["watched"] for part in known)
            share = sum(part["ns"] for part in known) / time if time else None
            all_ns = [part["ns"] for part in group if part["ns"] is not None]
            yield dict(zip(keys, key), hosts=len({part["host"] for part in group}), ns=sum(all_ns) if all_ns else None, share=share,
                       missing=max((part["missing"] for part in group if part["missing"]), default=None), first=min(part["first"] for part in group))  # fmt: skip

    def changes(self, key):
        groups = list(self.shares("host", key))
        times = collections.Counter(group["host"] for group in groups)
        return [(group["host"], group[key], group["first"], group["ns"], group["share"], group["missing"]) for group in groups if times[group["host"]] > 1]

    def is_part(self, view):
        return view in OF_ROWS and any(row["host"] == ONE_HOST for row in self.hosts)

    def question(self, view):
        return f"select * from {view}" + (f" where host = '{ONE_HOST}'" if self.is_part(view) else "")

    @functools.cache
    def of(self, view):
        """The rows of its question, in the columns of COLUMNS. The host is the first one of single rows."""
        return [row for row in self.answers()[view]() if not self.is_part(view) or row[0] == ONE_HOST]

    def answers(self):
        return {
            "starved": lambda: [(row["host"], row["ts"], row["victim_role"], row["occupant"], row["rule"], row["ns"], row["victim_kind"] in KERNEL_KINDS) for row in self.starved],
            "starved_kernel_threads": lambda: [(row["host"], row["ts"], row["victim_role"], row["occupant"], row["rule"], row["ns"]) for row in self.kernel_threads],
            "watched": self.watched,
            "starved_roles": lambda: self.sums(self.starved, "host", "victim_role"),
            "starved_io_workers": lambda: self.sums([row for row in self.starved if row["victim_kind"] == "direct-io"], "host", "kernel", "occupant", "rule"),
            "kernels": lambda: [(s["kernel"], s["hosts"], s["ns"], s["share"], s["missing"]) for s in self.shares("kernel")],
            "worst_hosts": lambda: [(s["host"], s["ns"], s["share"], s["missing"]) for s in self.shares("host")],
            "by_labels": lambda: [(s["labels"], s["hosts"], s["ns"], s["share"], s["missing"]) for s in self.shares("labels")],
            "kernel_changes": lambda: self.changes("kernel"),
            "label_changes": lambda: self.changes("labels"),
            "top_culprits": lambda: self.sums([row for row in self.starved if row["rule"] != "throttled"], "occupant", "rule", hosts=True),
            "top_victims": lambda: self.sums(self.starved, "victim_role", "rule", hosts=True),
            "throttled_groups": lambda: self.sums([row for row in self.starved if row["rule"] == "throttled"], "victim_role", hosts=True),
            "by_day": lambda: self.sums(self.kernel_threads, "host", lambda row: row["ts"].replace(hour=0, minute=0, second=0, microsecond=0)),
            "by_hour": lambda: self.sums(self.kernel_threads, lambda row: row["ts"].replace(minute=0, second=0, microsecond=0), hosts=True),
            "rules": self.rules,
            "longest_waits": lambda: [(*key, max(row["max_ns"] for row in group)) for key, group in
                                      self.by([row for row in self.waits if row.get("max_ns") is not None], "host", "victim_role").items()],  # fmt: skip
            "wait_quantiles": self.quantiles,
            "new_since_yesterday": self.new,
            "silent_hosts": self.silent,
            "worst_episodes": lambda: [(row["id"], row["host"], row.get("victim") or row.get("victim_role"), row.get("culprit") or row.get("culprit_role"), row.get("ns") if row.get("total_ns") is None else row["total_ns"]) for row in self.episodes if row.get("ended_by") != "continued"],
            "episode_causes": lambda: [(*key, len(group), len({row["host"] for row in group if row["host"] is not None}),
                                        sum(ns) if (ns := [row["ns"] for row in group if row.get("ns") is not None]) else None)
                                       for key, group in self.by(self.episodes, "finding", "culprit_role", "rule").items()],  # fmt: skip
            "setting_outliers": self.outliers_of_settings,
            "peer_outliers": self.peers,
            "proved_for_episodes": self.proved,
        }

    def rules(self):
        whole = sum(row["ns"] for row in self.blame)
        return [(*group, group[-1] / whole if whole else None) for group in self.sums(self.blame, "rule", hosts=True)]

    def quantiles(self):
        bound = lambda step: 2.0 ** (-20 + min(step, 104) / 4) * 1e9
        for key, group in self.by(self.waits, "host", "victim_role").items():
            counts = [0] * 106
            for row in group:
                for step, count in enumerate(row["buckets"]):
                    counts[step] += count
            if not sum(counts):
                continue
            lengths = []
            for part in (500, 990, 999):
                rank = part * sum(counts)
                for step, count in enumerate(counts):
                    if count and count * 1000 >= rank:
                        inside = rank / 1000 / count
                        lower = bound(step - 1) if step else 0
                        lengths.append(lower * (bound(step) / lower) ** inside if step else bound(0) * inside)
                        break
                    rank -= count * 1000
            yield (*key, sum(counts), *lengths)

    def new(self):
        moments = [row["ts"] for row in self.blame if row["ts"] < self.horizon]
        if not moments or min(moments) > max(moments) - 24 * HOUR:
            return
        for key, group in self.by(self.starved, "host", "victim_role", "occupant", "rule").items():
            if min(row["ts"] for row in group) > max(moments) - 24 * HOUR:
                yield (*key, sum(row["ns"] for row in group))

    def silent(self):
        last, newest = {}, []
        for table, of in (("rollup", self.waits), ("rollup", self.blame), ("hosts", self.hosts)):
            for row in of:
                if row["ts"] < self.horizon and row["host"] is not None:
                    newest.append(row["ts"])
                    last.setdefault(row["host"], None)
                    if table == "rollup":
                        last[row["host"]] = max(last[row["host"]] or row["ts"], row["ts"])
        return [(host, ts) for host, ts in last.items() if ts is None or ts < max(newest) - HOUR]

    def outliers_of_settings(self):
        newest = {}
        for row in sorted(self.settings, key=lambda row: row["ts"]):
            newest[row["host"], row["path"]] = row
        for group in self.by(newest.values(), "kernel", "path").values():
            value, times = collections.Counter(row["value"] for row in group).most_common(1)[0]
            if times * 2 > len(group) and times > 1:
                yield from ((row["host"], row["path"], row["value"], value, times, row.get("kernel")) for row in group if row["value"] != value)

    def peers(self):
        shares = [share for share in self.shares("host", "kernel") if share["ns"] is not None]
        for group in self.by(shares, "kernel", lambda share: share["share"] is None).values():
            measure = lambda share: share["ns"] if share["share"] is None else share["share"]
            usual = statistics.median(map(measure, group))
            for one in group:
                if len(group) > 2 and measure(one) > 3 * usual and (one["share"] is None or one["share"] > 0.001):
                    yield one["host"], one["kernel"], one["share"], None if one["share"] is None else usual, len(group), one["missing"]

    def proved(self):
        kind = lambda role: "kworker" if role in ("direct-io", "kworker", "storage") else role if role in ("ksoftirqd", "rcu", "nfsd", "kernel") else "task"
        series = lambda kernel: (re.match(r"[^.]*\.[^.]*", kernel) or [""])[0]
        asked = [row for row in self.episodes if all(row.get(name) is not None for name in ("finding", "kernel", "victim_role"))]
        for key, group in self.by(asked, "finding", lambda row: kind(row["victim_role"]), lambda row: series(row["kernel"])).items():
            for proof in self.proofs:
                if (proof["finding"], proof["victim"], proof["kernel"]) == key:
                    yield (*key, len(group), len({row["host"] for row in group}), proof["remedy"], proof["answer"], proof["scenario"], proof["effect"])


# What is compared of each view.
COLUMNS = {
    "starved": "host, ts, victim_role, occupant, rule, ns, is_kernel_thread",
    "starved_kernel_threads": "host, ts, victim_role, occupant, rule, ns",
    "watched": "host, kernel, labels, ts, span_ns",
    "starved_roles": "host, victim_role, ns",
    "starved_io_workers": "host, kernel, occupant, rule, ns",
    "kernels": "kernel, hosts, ns, share, missing",
    "worst_hosts": "host, ns, share, missing",
    "by_labels": "labels, hosts, ns, share, missing",
    "kernel_changes": "host, kernel, first, ns, share, missing",
    "label_changes": "host, labels, first, ns, share, missing",
    "top_culprits": "occupant, rule, hosts, ns",
    "top_victims": "victim_role, rule, hosts, ns",
    "throttled_groups": "cgroup, hosts, ns",
    "by_day": "host, day, ns",
    "by_hour": "hour, hosts, ns",
    "rules": "rule, hosts, ns, share",
    "longest_waits": "host, victim_role, max_ns",
    "wait_quantiles": "host, victim_role, n, p50_ns, p99_ns, p999_ns",
    "new_since_yesterday": "host, victim_role, occupant, rule, ns",
    "silent_hosts": "host, last",
    "worst_episodes": "id, host, victim, culprit, ns",
    "episode_causes": "finding, culprit_role, rule, episodes, hosts, ns",
    "setting_outliers": "host, path, value, usual, hosts_with_usual, kernel",
    "peer_outliers": "host, kernel, share, usual, hosts, missing",
    "proved_for_episodes": "finding, victim, series, episodes, hosts, remedy, answer, scenario, effect",
}
