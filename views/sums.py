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

    @staticmethod
    def machines(of):
        """How many machines: by name and id. One without an id is another only where no row of its name has one."""
        ids = collections.defaultdict(set)
        for row in of:
            if row["host"] is not None:
                ids[row["host"]].add(row.get("machine_id"))
        return sum(len(found - {None}) or 1 for found in ids.values())

    @staticmethod
    def only_ids(of):
        """Names that one machine has."""
        ids = collections.defaultdict(set)
        for row in of:
            ids[row["host"]].add(row.get("machine_id"))
        return {host: next(iter(found - {None})) for host, found in ids.items() if len(found - {None}) == 1}

    def sums(self, of, *keys, hosts=False):
        for key, group in self.by(of, *keys).items():
            yield (*key, *([self.machines(group)] if hosts else []), sum(row["ns"] for row in group))

    def watched(self):
        return set((row["host"], row.get("machine_id"), row.get("kernel"), row.get("labels"), row["ts"], row["span_ns"]) for row in self.waits)

    def shares(self, *keys):
        """By keys: hosts, ns, the share and what is missing, from what each machine, kernel and labels have in each hour."""
        whole = ("host", "machine_id", "kernel", "labels")
        hourly = (*whole, lambda row: row["ts"].replace(minute=0, second=0, microsecond=0))
        watched, waits, blame = collections.Counter(), self.by(self.waits, *hourly), self.by(self.blame, *hourly)
        for *key, ts, span in self.watched():
            watched[(*key, ts.replace(minute=0, second=0, microsecond=0))] += span
        one_of_name = self.only_ids(self.waits + self.blame)
        parts = []
        for key in {*waits, *blame}:
            ns = sum(row["ns"] for row in blame.get(key, []) if row["rule"] in STARVED and row["victim_kind"] in KERNEL_KINDS)
            waited, blamed = sum(row["sum_ns"] for row in waits.get(key, [])), sum(row["ns"] for row in blame.get(key, []))
            missing = "wait_rollup" if key not in waits or blamed > waited else "blame_rollup" if blamed < waited else None
            if key not in blame and waited:
                ns = None
            part = dict(zip(whole, key), ns=ns, watched=watched.get(key), missing=missing, first=min(row["ts"] for row in waits.get(key, []) + blame.get(key, [])))
            part["machine_id"] = part["machine_id"] or one_of_name.get(part["host"])
            parts.append(part)
        for key, group in self.by(parts, *keys).items():
            known = [part for part in group if not part["missing"]]
            time = sum(part["watched"] for part in known)
            share = sum(part["ns"] for part in known) / time if time else None
            all_ns = [part["ns"] for part in group if part["ns"] is not None]
            yield dict(zip(keys, key), hosts=self.machines(group), ns=sum(all_ns) if all_ns else None, share=share,
                       missing=max((part["missing"] for part in group if part["missing"]), default=None), first=min(part["first"] for part in group))  # fmt: skip

    def changes(self, key):
        groups = list(self.shares("host", "machine_id", key))
        machine = lambda group: (group["host"], group["machine_id"])
        times = collections.Counter(map(machine, groups))
        return [(*machine(group), group[key], group["first"], group["ns"], group["share"], group["missing"]) for group in groups if times[machine(group)] > 1]

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
            "starved_roles": lambda: self.sums(self.starved, "host", "machine_id", "victim_role"),
            "starved_io_workers": lambda: self.sums([row for row in self.starved if row["victim_kind"] == "direct-io"], "host", "machine_id", "kernel", "occupant", "rule"),
            "kernels": lambda: [(s["kernel"], s["hosts"], s["ns"], s["share"], s["missing"]) for s in self.shares("kernel")],
            "worst_hosts": lambda: [(s["host"], s["machine_id"], s["ns"], s["share"], s["missing"]) for s in self.shares("host", "machine_id")],
            "by_labels": lambda: [(s["labels"], s["hosts"], s["ns"], s["share"], s["missing"]) for s in self.shares("labels")],
            "kernel_changes": lambda: self.changes("kernel"),
            "label_changes": lambda: self.changes("labels"),
            "top_culprits": lambda: self.sums([row for row in self.starved if row["rule"] != "throttled"], "occupant", "rule", hosts=True),
            "top_victims": lambda: self.sums(self.starved, "victim_role", "rule", hosts=True),
            "throttled_groups": lambda: self.sums([row for row in self.starved if row["rule"] == "throttled"], "victim_role", hosts=True),
            "by_day": lambda: self.sums(self.kernel_threads, "host", "machine_id", lambda row: row["ts"].replace(hour=0, minute=0, second=0, microsecond=0)),
            "by_hour": lambda: self.sums(self.kernel_threads, lambda row: row["ts"].replace(minute=0, second=0, microsecond=0), hosts=True),
            "rules": self.rules,
            "longest_waits": self.longest,
            "wait_quantiles": self.quantiles,
            "new_since_yesterday": self.new,
            "silent_hosts": self.silent,
            "worst_episodes": lambda: [(row["id"], row["host"], row.get("machine_id"), row.get("victim") or row.get("victim_role"), row.get("culprit") or row.get("culprit_role"), row.get("ns") if row.get("total_ns") is None else row["total_ns"]) for row in self.episodes if row.get("ended_by") != "continued"],
            "episode_causes": lambda: [(*key, len(group), self.machines(group),
                                        sum(ns) if (ns := [row["ns"] for row in group if row.get("ns") is not None]) else None)
                                       for key, group in self.by(self.episodes, "finding", "culprit_role", "rule").items()],  # fmt: skip
            "setting_outliers": self.outliers_of_settings,
            "peer_outliers": self.peers,
            "proved_for_episodes": self.proved,
        }

    def rules(self):
        whole = sum(row["ns"] for row in self.blame)
        return [(*group, group[-1] / whole if whole else None) for group in self.sums(self.blame, "rule", hosts=True)]

    def longest(self):
        """By the steps, not by what the rows say of their longest: the last step has no upper bound."""
        for key, group in self.by(self.waits, "host", "machine_id", "victim_role").items():
            if sum(row["n"] for row in group) == 0 and all(row.get("max_ns") is None for row in group):
                continue
            is_beyond = any(len(row["buckets"]) == 106 and row["buckets"][105] for row in group)
            yield (*key, *((None, "64 s or more") if is_beyond else (max(row["max_ns"] for row in group if row.get("max_ns") is not None), None)))

    def quantiles(self):
        bound = lambda step: 2.0 ** (-20 + min(step, 104) / 4) * 1e9
        for key, group in self.by(self.waits, "host", "machine_id", "victim_role").items():
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
        begin = max(moments) - 24 * HOUR
        nameless = self.by([row for row in self.starved if row.get("machine_id") is None and row["ts"] <= begin], "host", "victim_role", "occupant", "rule")
        for key, group in self.by(self.starved, "host", "machine_id", "victim_role", "occupant", "rule").items():
            if min(row["ts"] for row in group) > begin and (key[0], *key[2:]) not in nameless:
                yield (*key, sum(row["ns"] for row in group))

    def silent(self):
        last, newest = {}, []
        of_tables = [(table, row) for table, of in (("rollup", self.waits), ("rollup", self.blame), ("hosts", self.hosts)) for row in of
                     if row["ts"] < self.horizon and row["host"] is not None]  # fmt: skip
        one_of_name = self.only_ids([row for _, row in of_tables])
        for table, row in of_tables:
            newest.append(row["ts"])
            machine = row["host"], row.get("machine_id") or one_of_name.get(row["host"])
            last.setdefault(machine, None)
            if table == "rollup":
                last[machine] = max(last[machine] or row["ts"], row["ts"])
        return [(*machine, ts) for machine, ts in last.items() if ts is None or ts < max(newest) - HOUR]

    def outliers_of_settings(self):
        newest = {}
        for row in sorted(self.settings, key=lambda row: row["ts"]):
            newest[row["host"], row.get("machine_id"), row["path"]] = row
        for group in self.by(newest.values(), "kernel", "path").values():
            value, times = collections.Counter(row["value"] for row in group).most_common(1)[0]
            if times * 2 > len(group) and times > 1:
                yield from ((row["host"], row.get("machine_id"), row["path"], row["value"], value, times, row.get("kernel")) for row in group if row["value"] != value)

    def peers(self):
        shares = [share for share in self.shares("host", "machine_id", "kernel") if share["ns"] is not None]
        for group in self.by(shares, "kernel", lambda share: share["share"] is None).values():
            measure = lambda share: share["ns"] if share["share"] is None else share["share"]
            usual = statistics.median(map(measure, group))
            for one in group:
                if len(group) > 2 and measure(one) > 3 * usual and (one["share"] is None or one["share"] > 0.001):
                    yield one["host"], one["machine_id"], one["kernel"], one["share"], None if one["share"] is None else usual, len(group), one["missing"]

    def proved(self):
        kind = lambda role: "kworker" if role in ("direct-io", "kworker", "storage") else role if role in ("ksoftirqd", "rcu", "nfsd", "kernel") else "task"
        series = lambda kernel: (re.match(r"[^.]*\.[^.]*", kernel) or [""])[0]
        asked = [row for row in self.episodes if all(row.get(name) is not None for name in ("finding", "kernel", "victim_role"))]
        for key, group in self.by(asked, "finding", lambda row: kind(row["victim_role"]), lambda row: series(row["kernel"])).items():
            for proof in self.proofs:
                if (proof["finding"], proof["victim"], proof["kernel"]) == key:
                    yield (*key, len(group), self.machines(group), proof["remedy"], proof["answer"], proof["scenario"], proof["effect"])


# What is compared of each view.
COLUMNS = {
    "starved": "host, ts, victim_role, occupant, rule, ns, is_kernel_thread",
    "starved_kernel_threads": "host, ts, victim_role, occupant, rule, ns",
    "watched": "host, machine_id, kernel, labels, ts, span_ns",
    "starved_roles": "host, machine_id, victim_role, ns",
    "starved_io_workers": "host, machine_id, kernel, occupant, rule, ns",
    "kernels": "kernel, hosts, ns, share, missing",
    "worst_hosts": "host, machine_id, ns, share, missing",
    "by_labels": "labels, hosts, ns, share, missing",
    "kernel_changes": "host, machine_id, kernel, first, ns, share, missing",
    "label_changes": "host, machine_id, labels, first, ns, share, missing",
    "top_culprits": "occupant, rule, hosts, ns",
    "top_victims": "victim_role, rule, hosts, ns",
    "throttled_groups": "cgroup, hosts, ns",
    "by_day": "host, machine_id, day, ns",
    "by_hour": "hour, hosts, ns",
    "rules": "rule, hosts, ns, share",
    "longest_waits": "host, machine_id, victim_role, max_ns, beyond",
    "wait_quantiles": "host, machine_id, victim_role, n, p50_ns, p99_ns, p999_ns",
    "new_since_yesterday": "host, machine_id, victim_role, occupant, rule, ns",
    "silent_hosts": "host, machine_id, last",
    "worst_episodes": "id, host, machine_id, victim, culprit, ns",
    "episode_causes": "finding, culprit_role, rule, episodes, hosts, ns",
    "setting_outliers": "host, machine_id, path, value, usual, hosts_with_usual, kernel",
    "peer_outliers": "host, machine_id, kernel, share, usual, hosts, missing",
    "proved_for_episodes": "finding, victim, series, episodes, hosts, remedy, answer, scenario, effect",
}
