// Made by `UNSTARVE_WRITE=1 cargo test -p unstarve-html typescript` from the types in crates/html,
// crates/diagnose and crates/model. Do not edit.

export type ActorsData = { name: Array<string>, 
/**
 * 0 task, 1 interrupt, 2 softirq, 3 idle, 4 unknown, 5 others.
 */
kind: Uint8Array, 
/**
 * `fair`, `rt`, `deadline`; what the snapshot calls it, if there is one.
 */
policy: Array<string | null>, 
/**
 * The kernel's priority; `null` for what is not a task.
 */
prio: Array<number | null>, 
/**
 * `kworker`, `ksoftirqd`, …
 */
kernel_thread: Array<string | null>, 
/**
 * The first few.
 */
tids: Array<Array<number>>, 
/**
 * The processes of those, where the snapshot knows them.
 */
tgids: Array<Array<number>>, members: Uint32Array, cgroup: Array<string | null>, 
/**
 * The CPUs that its tasks, or the interrupt, may use.
 */
affinity: Array<string | null>, };

/**
 * What a remedy did.
 */
export type Answer = "helped" | "harmed" | "no-difference" | "not-shown" | "not-made";

export type BlameData = { victim: Uint16Array, occupant: Uint16Array, rule: Uint8Array, cpu: Uint16Array, ns: Float64Array, 
/**
 * The words of the rules, by number.
 */
rules: Array<string>, };

/**
 * How to record what is missing.
 */
export type BroughtBy = { "what": "event", "name": string } | { "what": "option", "name": string } | { "what": "recorder" };

/**
 * One moment on both the trace clock and the wall clock.
 */
export type ClockPair = { 
/**
 * On the trace clock.
 */
trace_ns: number, 
/**
 * On the wall clock.
 */
realtime_ns: number, };

export type Comparison = { severity: Severity | null, text: string, 
/**
 * What `compare --json` says.
 */
report: ComparisonReport, };

/**
 * Everything that `unstarve compare` has to say. Fields are only ever added.
 */
export type ComparisonReport = { 
/**
 * [`SCHEMA`].
 */
schema: string, 
/**
 * The first recording.
 */
a: TraceSummary, 
/**
 * The second one.
 */
b: TraceSummary, 
/**
 * Findings of either, those that changed first.
 */
findings: Array<FindingChange>, 
/**
 * Findings of one side of which nobody can say whether they are new or gone.
 */
unjudged?: Array<UnjudgedFinding>, 
/**
 * Rates that differ, what weighs most first; then those of which it is unclear.
 */
changes: Array<RateChange>, 
/**
 * The waits of each role in numbers, those whose longest differs most first. What is rare has no rate: a stall once a
 * second shows here.
 */
waits: Array<WaitChange>, 
/**
 * How many rates were set against each other; the intervals hold for all of them at once with 95 %.
 */
compared: number, 
/**
 * What the recordings cannot say.
 */
losses: Array<string>, };

export type Course = { 
/**
 * Whose waits; empty for all tasks together.
 */
actors: Array<number>, waits: number, total_ns: number, max_ns: number, 
/**
 * Intervals in which a wait ended, and of those:
 */
interval: Uint16Array, count: Uint32Array, p50: Float32Array, p99: Float32Array, max: Float64Array, };

/**
 * An occupant and a rule.
 */
export type Culprit = { 
/**
 * The task's name; for others `idle`, `irq 33 virtio0`, `softirq NET_RX`, `unknown`.
 */
comm: string, 
/**
 * Its threads, the first 128; empty if it is not a task.
 */
tids: Array<number>, 
/**
 * How many threads there are; 0 if it is not a task.
 */
tasks: number, 
/**
 * `fair`, `rt`, `deadline`, `idle`; none for interrupts and unknown.
 */
policy: string | null, 
/**
 * The kernel's priority.
 */
prio: number | null, 
/**
 * The rule's word.
 */
rule: string, 
/**
 * How long.
 */
ns: number, 
/**
 * The processes of these threads, where the host snapshot knows them.
 */
tgids: Array<number>, 
/**
 * Their cgroups, the first few, where the snapshot knows them.
 */
cgroups: Array<string>, };

/**
 * The texts of logs and tools, and what would say more.
 */
export type Evidence = { 
/**
 * What was read.
 */
sources: Array<EvidenceSource>, 
/**
 * Commands that show what the texts do not, most useful first.
 */
next: Array<NextStep>, 
/**
 * Other hosts of the same texts, worst first.
 */
others?: Array<OtherHost>, };

/**
 * A text that was read.
 */
export type EvidenceSource = { 
/**
 * The file.
 */
name: string, 
/**
 * What was found in it: `kernel log`, `list of threads (ps)`.
 */
kinds: Array<string>, 
/**
 * Its lines.
 */
lines: number, };

/**
 * A cause with evidence, price, confidence and remedies.
 */
export type Finding = { 
/**
 * One of the ids of the design: `rt-starvation`, ….
 */
id: string, 
/**
 * How bad.
 */
severity: Severity, 
/**
 * 0 to 1.
 */
confidence: number, 
/**
 * One sentence for people: which thread is starved by which others, and for how long.
 */
sentence: string, 
/**
 * Its first half, without numbers: `ksoftirqd/1 is starved by wl (real-time)`.
 */
headline: string, 
/**
 * Who waits.
 */
victim: Victim, 
/**
 * Who ran meanwhile, longest first.
 */
culprits: Array<Culprit>, 
/**
 * Everything that held the CPU during the victim's waits, longest first: adds up to `waits.total_ns` exactly.
 */
blame: Array<Culprit>, 
/**
 * The victim's waits in numbers.
 */
waits: Waits, 
/**
 * CPUs on which it waited.
 */
cpus: Array<number>, 
/**
 * When the trouble recurs at a steady interval: the interval.
 */
period_ns: number | null, 
/**
 * Who paid for the waits, most first.
 */
price: Array<PricePaid>, 
/**
 * Facts that speak for it, in words.
 */
evidence: Array<string>, 
/**
 * The worst instances, worst first.
 */
worst: Array<Instance>, 
/**
 * Losses that could overturn it.
 */
losses: Array<string>, 
/**
 * The same for programs.
 */
missing: Array<Missing>, 
/**
 * What to do, least invasive first.
 */
remedies: Array<Remedy>, };

/**
 * A finding on both sides.
 */
export type FindingChange = { 
/**
 * `rt-starvation`, ….
 */
id: string, 
/**
 * Whose waits.
 */
victim: Role, 
/**
 * What became of it.
 */
outcome: Outcome, 
/**
 * How bad it was in A; none if it was not there.
 */
a: Severity | null, 
/**
 * How bad it is in B.
 */
b: Severity | null, 
/**
 * The finding's sentence, B's where it has one.
 */
sentence: string, };

/**
 * What the page shows. Sums of waiting are those by rules that prefer others; a part of the time is a sum divided by `watched_ns`, and is more than the whole where
 * several tasks waited at once. What no row says is `None`, never 0: a table that is not there is no health.
 */
export type Fleet = { 
/**
 * Where the tables are.
 */
places: Array<string>, 
/**
 * Tables that have no row there.
 */
missing: Array<FleetTable>, 
/**
 * The first moment of the rows, ms since 1970.
 */
from_ms: number | null, 
/**
 * The last.
 */
to_ms: number | null, 
/**
 * Who waits: columns of the map.
 */
roles: Array<FleetRole>, 
/**
 * Hosts of which any table has a row: those first whose kernel threads wait for the greatest part of the time, then those of which only the sum is known, then the others.
 */
hosts: Array<FleetHost>, 
/**
 * Hosts that have no row of their own.
 */
rest: FleetRest, 
/**
 * When something was changed on all hosts, ms since 1970, where who asks says so.
 */
changed_ms: number | null, 
/**
 * Kernel threads of all hosts, hour by hour.
 */
hours: Array<FleetHour>, 
/**
 * Who is preferred to others, worst first.
 */
culprits: Array<FleetCulprit>, 
/**
 * The longest episodes.
 */
episodes: Array<FleetEpisode>, 
/**
 * How many there are in all.
 */
episodes_in_all: number, };

/**
 * Who is preferred to others.
 */
export type FleetCulprit = { 
/**
 * A role.
 */
occupant: string, 
/**
 * By which rule.
 */
rule: string, 
/**
 * On how many hosts.
 */
hosts: number, 
/**
 * For how long others waited.
 */
ns: number, };

/**
 * An episode.
 */
export type FleetEpisode = { 
/**
 * When it was seen, ms since 1970.
 */
at_ms: number, 
/**
 * On which host.
 */
host: string, 
/**
 * Its name there.
 */
id: string, 
/**
 * What `explain` found.
 */
finding: string | null, 
/**
 * Who waited.
 */
victim: string | null, 
/**
 * Who had the CPU.
 */
culprit: string | null, 
/**
 * Why.
 */
rule: string | null, 
/**
 * For how long.
 */
ns: number, 
/**
 * What to do first.
 */
remedy: string | null, 
/**
 * Where its trace is.
 */
trace: string | null, 
/**
 * Where its report page is, if that is on a server; by whoever made this page, never by a host.
 */
link: string | null, };

/**
 * A host.
 */
export type FleetHost = { 
/**
 * Its name.
 */
name: string, 
/**
 * The `ts` of its last row in any of the tables, ms since 1970.
 */
last_ms: number, 
/**
 * For how long it was watched; `None` without a row of `wait_rollup`.
 */
watched_ns: number | null, 
/**
 * For how long each role waited, in their order; `None` without a row of `blame_rollup`, by whatever rule.
 */
ns: Array<number> | null, 
/**
 * For how long those did that have no column; 0 where `ns` is `None`.
 */
others_ns: number, 
/**
 * What it ran, in the order of time.
 */
periods: Array<FleetPeriod>, };

/**
 * An hour of all hosts.
 */
export type FleetHour = { 
/**
 * When it began, ms since 1970.
 */
at_ms: number, 
/**
 * For how long kernel threads waited.
 */
ns: number, 
/**
 * On how many hosts.
 */
hosts: number, };

/**
 * How the hours of a period differ.
 */
export type FleetHourly = { 
/**
 * Hours in which the host was watched.
 */
hours: number, 
/**
 * The sample standard deviation, over these hours, of the part of the time for which kernel threads waited.
 */
deviation: number, };

export type FleetPage = { schema: string, generator: string, 
/**
 * What is found, in a sentence.
 */
headline: string, 
/**
 * The worst of it.
 */
lead: string, 
/**
 * What is not known, because tables have no row: a sentence for each.
 */
gaps: Array<string>, 
/**
 * All rules, in the order of the legend.
 */
rules: Array<RuleData>, fleet: Fleet, };

/**
 * A time in which nothing of a host's kernel and labels changed.
 */
export type FleetPeriod = { 
/**
 * `uname -r`, where known.
 */
kernel: string | null, 
/**
 * `key=value`, apart by commas.
 */
labels: string | null, 
/**
 * Whether it was after the change on all hosts.
 */
is_after: boolean, 
/**
 * When it began, ms since 1970.
 */
first_ms: number, 
/**
 * For how long the host was watched in it; `None` without a row of `wait_rollup`.
 */
watched_ns: number | null, 
/**
 * For how long kernel threads waited in it; `None` without a row of `blame_rollup`.
 */
ns: number | null, 
/**
 * How its hours differ, where that was asked; without it a change of one host is judged by its size alone.
 */
hourly: FleetHourly | null, };

/**
 * Hosts that have no row of their own.
 */
export type FleetRest = { 
/**
 * How many.
 */
hosts: number, 
/**
 * Of how many of these it is not known for which part of the time their kernel threads waited.
 */
unknown: number, };

/**
 * Somebody who waits.
 */
export type FleetRole = { 
/**
 * `ksoftirqd`, or the path of a top-level cgroup.
 */
name: string, 
/**
 * Whether its tasks are threads of the kernel.
 */
is_kernel: boolean, };

/**
 * The tables that the page is made of.
 */
export type FleetTable = "wait_rollup" | "blame_rollup" | "episodes" | "hosts";

/**
 * One occurrence.
 */
export type Instance = { 
/**
 * Where.
 */
cpu: number, 
/**
 * From, on the trace's clock.
 */
start_ns: number, 
/**
 * To.
 */
end_ns: number, 
/**
 * From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell.
 */
start_utc?: string, };

export type InterruptsData = { actor: Uint16Array, cpu: Uint16Array, count: Float64Array, ns: Float64Array, longest: Float64Array, };

export type IntervalsData = { width_ns: number, count: number, voluntary: Uint32Array, involuntary: Uint32Array, wakeups: Uint32Array, migrations: Uint32Array, waiting: Float32Array, running: Float32Array, rt: Float32Array, irq: Float32Array, softirq: Float32Array, };

/**
 * What a [`Record`] is, and what its `detail` means.
 */
export const enum Kind { "Run", "Wait", "Piece", "Wake", "Irq", "Softirq", "Work", "Block" }

/**
 * Each CPU over the whole recording: a row for each, one after the other, of `count` intervals.
 */
export type LanesData = { width_ns: number, count: number, cpu: Uint16Array, 
/**
 * The part of the interval in which it was busy, in 1/255.
 */
busy: Uint8Array, 
/**
 * How many waited for it on average, in 1/16.
 */
waiting: Uint16Array, 
/**
 * CPUs that have no row.
 */
hidden: number, };

/**
 * What is compared.
 */
export type Metric = "waited-under" | "waited" | "item-latency" | "ran" | "softirq" | "irq" | "involuntary-switches" | "voluntary-switches" | "wakeups" | "migrations" | "items";

/**
 * Something that the trace cannot say: what is missing, what that may hide, and what would bring it.
 */
export type Missing = { 
/**
 * The same in a line for people.
 */
text: string, 
/**
 * What it may hide or make wrong, for people.
 */
hides: string, 
/**
 * What would bring it in another recording.
 */
brought_by?: BroughtBy, 
/**
 * How often; 1 for something that is either there or not.
 */
count: number, 
/**
 * Where, and what to do about it, for people; may be empty.
 */
detail?: string, } & ({ "kind": "lost-events" } | { "kind": "uncounted-gap" } | { "kind": "truncated" } | { "kind": "undecodable" } | { "kind": "not-recorded", "event": string } | { "kind": "malformed", "event": string } | { "kind": "shifted-states" } | { "kind": "other-recordings" } | { "kind": "unrecorded-cpus" } | { "kind": "ends-early" } | { "kind": "no-priorities" } | { "kind": "missing-switch" } | { "kind": "out-of-order" } | { "kind": "too-many-names" } | { "kind": "too-much-work" } | { "kind": "all-cpus-silent" } | { "kind": "silent-tasks" } | { "kind": "no-snapshot" } | { "kind": "clock-unit" } | { "kind": "name-only" } | { "kind": "foreign-ids" });

/**
 * Everything that happened between two times. Starts and lengths count `unit_ns` from `from`; what began before `from`
 * or ended after `to` is cut there.
 */
export type Moment = { from: number, to: number, unit_ns: number, 
/**
 * Runs, wakeups and interrupts left out because there were too many, and how long the longest of them was.
 */
left_out: number, left_out_ns: number, kind: Uint8Array, cpu: Uint16Array, actor: Uint16Array, tid: Uint32Array, start: Uint32Array, length: Uint32Array, detail: Uint32Array, };

/**
 * Moments in detail, and the waits that they show.
 */
export type MomentsData = { list: Array<Moment>, 
/**
 * Waits that were looked at, longest first: which moment shows them, and where.
 */
spots: SpotsData, };

/**
 * A command that shows more.
 */
export type NextStep = { 
/**
 * What it is good for.
 */
why: string, 
/**
 * The command.
 */
command: string, };

/**
 * What the texts prove of another host.
 */
export type OtherHost = { 
/**
 * The host; empty where no text names it.
 */
host: string, 
/**
 * The answer.
 */
verdict: Verdict, };

/**
 * What became of a finding.
 */
export type Outcome = "appeared" | "worse" | "milder" | "vanished" | "stays";

/**
 * What a change would do, in one word.
 */
export type Outlook = "helps" | "helps-and-starves" | "no-difference" | "starves-others" | "harms" | "refused";

export type PageData = { schema: string, generator: string, 
/**
 * All rules, in the order of the legend.
 */
rules: Array<RuleData>, comparison: Comparison | null, traces: Array<Trace>, };

export type PlacesData = { actor: Uint16Array, cpu: Uint16Array, ran: Float64Array, runs: Float64Array, waited: Float64Array, waits: Float64Array, longest: Float64Array, };

/**
 * What a change would do, with ranges; or why that is not known.
 */
export type Predicted = { 
/**
 * In one word.
 */
verdict: Outlook, 
/**
 * To the victim, the most telling metric first; empty if refused.
 */
metrics: Array<PredictedMetric>, 
/**
 * To others.
 */
others: Array<PredictedOther>, 
/**
 * Who would become starved, or be starved for far longer than now.
 */
newly_starved: Array<string>, 
/**
 * Why nothing is predicted, as sentences.
 */
refused: Array<string>, };

/**
 * A metric of the victim, before and after.
 */
export type PredictedMetric = { 
/**
 * `wait-per-item`, `wait-per-cpu`, `longest`, `p99`, `cpu-per-item`, `switches-per-item`.
 */
metric: string, 
/**
 * The same for people.
 */
name: string, 
/**
 * `ns`, or `1` for a number of times.
 */
unit: string, 
/**
 * As recorded.
 */
recorded: number, 
/**
 * As predicted.
 */
predicted: number, 
/**
 * It is hardly less,
 */
low: number, 
/**
 * nor more.
 */
high: number, 
/**
 * As it came where the change was tried, if that is known.
 */
came?: number, };

/**
 * Somebody else whose waits change.
 */
export type PredictedOther = { 
/**
 * The name of its threads.
 */
comm: string, 
/**
 * How many threads.
 */
threads: number, 
/**
 * Their waits before, summed.
 */
waited_before_ns: number, 
/**
 * After.
 */
waited_after_ns: number, 
/**
 * Their longest wait before.
 */
longest_before_ns: number, 
/**
 * After.
 */
longest_after_ns: number, 
/**
 * Their CPU time before.
 */
ran_before_ns: number, 
/**
 * After.
 */
ran_after_ns: number, };

/**
 * Who paid.
 */
export type PricePaid = { 
/**
 * The task's name.
 */
comm: string, 
/**
 * Its threads, the first 128.
 */
tids: Array<number>, 
/**
 * How many threads there are.
 */
tasks: number, 
/**
 * What it lost: asleep until the victim woke it, or itself waiting behind the same culprits.
 */
ns: number, 
/**
 * The processes of these threads, where the host snapshot knows them.
 */
tgids: Array<number>, 
/**
 * Their cgroups, the first few, where the snapshot knows them.
 */
cgroups: Array<string>, 
/**
 * The part of `ns` in which it waited for a CPU itself.
 */
waited_ns: number, };

/**
 * What was proved of a remedy, beside it in a report.
 */
export type Proved = { 
/**
 * The kernel's series: `6.1`.
 */
kernel: string, 
/**
 * Whether the recorded kernel is of that series.
 */
this_series: boolean, 
/**
 * The kind of the victim, which is this finding's.
 */
victim: string, 
/**
 * The lab's scenario.
 */
scenario: string, 
/**
 * What it came to.
 */
answer: Answer, 
/**
 * The metric.
 */
metric: string, 
/**
 * What it was above that without the remedy, as a part of it.
 */
effect: number | null, 
/**
 * The 95 % interval's lower bound.
 */
low: number | null, 
/**
 * The upper one.
 */
high: number | null, 
/**
 * Pairs of runs.
 */
seeds: number, 
/**
 * What else is to be known of the proof: what could not be taken back, for instance.
 */
note?: string, };

/**
 * A rate on both sides.
 */
export type RateChange = { 
/**
 * Whose.
 */
role: Role, 
/**
 * What.
 */
metric: Metric, 
/**
 * For [`Metric::WaitedUnder`]: the rule.
 */
rule?: string, 
/**
 * `ns/s`, `/s` or `ns`.
 */
unit: string, 
/**
 * In A.
 */
a: number, 
/**
 * In B.
 */
b: number, 
/**
 * B − A, from and to; none where a recording is too short to tell.
 */
interval: [number, number] | null, 
/**
 * What it comes to.
 */
verdict: RateVerdict, };

/**
 * What the two rates come to.
 */
export type RateVerdict = "more" | "less" | "unclear" | "no-difference-that-matters";

export type RecordingData = { clock: string | null, 
/**
 * Kinds of events with whether they were recorded; nothing if the file does not say.
 */
recorded: Array<[string, boolean]> | null, totals: Totals, };

/**
 * What to do.
 */
export type Remedy = { 
/**
 * A stable id: `raise-worker`.
 */
id: string, 
/**
 * What and why, one or two sentences.
 */
text: string, 
/**
 * The exact command, empty if there is none.
 */
apply: string, 
/**
 * The command that takes it back.
 */
undo: string, 
/**
 * What can go wrong.
 */
risk: string, 
/**
 * The kernels and conditions it is valid on.
 */
valid_on: string, 
/**
 * What it was proved to do on real kernels of this series, or where nothing was, of others.
 */
proved?: Array<Proved>, 
/**
 * What it would do to everybody in this recording, by a replay; absent where that was not asked, or takes too long.
 */
predicted?: Predicted, };

/**
 * Everything `unstarve explain` has to say about a trace.
 */
export type Report = { 
/**
 * [`SCHEMA`].
 */
schema: string, 
/**
 * What was read.
 */
trace: TraceSummary, 
/**
 * The answer in one sentence or two.
 */
verdict: Verdict, 
/**
 * Worst first, at most 64. With selected tasks: those first in which they are the victim.
 */
findings: Array<Finding>, 
/**
 * Findings beyond those, none of them worse.
 */
more_findings: number, 
/**
 * The longest waits of the whole trace, longest first, at most ten.
 */
worst_waits: Array<WorstWait>, 
/**
 * What the trace cannot say.
 */
losses: Array<string>, 
/**
 * The same for programs.
 */
missing: Array<Missing>, 
/**
 * What was read, where that was no recording but the text of logs and tools.
 */
evidence?: Evidence, };

/**
 * What two recordings have in common where ids differ: a kind of thread and its name without numbers that only count.
 */
export type Role = { 
/**
 * `kworker`, `ksoftirqd`, …; `task` for everything that is no kernel thread by its name.
 */
kind: string, 
/**
 * `kworker/*:*`, `nfsd`, `worker-*`.
 */
name: string, };

/**
 * The waits of a role in numbers.
 */
export type RoleWaits = { 
/**
 * How many.
 */
count: number, 
/**
 * Half of them were no longer.
 */
p50_ns: number, 
/**
 * 99 of 100 were no longer.
 */
p99_ns: number, 
/**
 * The longest.
 */
max_ns: number, };

export type RuleData = { word: string, meaning: string, };

/**
 * How bad a finding is.
 */
export type Severity = "info" | "warning" | "critical";

export type SpotsData = { moment: Uint16Array, actor: Uint16Array, tid: Uint32Array, cpu: Uint16Array, start: Float64Array, end: Float64Array, rule: Uint8Array, };

/**
 * How much there was of each kind.
 */
export type Totals = { runs: number, waits: number, wakeups: number, migrations: number, interrupts: number, softirqs: number, work_items: number, };

/**
 * What the page gets of one trace. Times count from the trace's start.
 */
export type Trace = { name: string, 
/**
 * The trace's start on its own clock, in nanoseconds; text, for a number in JavaScript has 53 bits.
 */
zero: string, span_ns: number, verdict: Verdict, report: Report, 
/**
 * What the trace cannot say, for people.
 */
losses: Array<string>, recording: RecordingData, 
/**
 * The time of day at the trace's start, in nanoseconds since 1970; text, as above. Nothing where it is not known.
 */
wall: string | null, 
/**
 * How much further the wall's clock went than the trace's, from start to end.
 */
wall_drift_ns: number, intervals: IntervalsData, lanes: LanesData, courses: Array<Course>, blame: BlameData, places: PlacesData, interrupts: InterruptsData, moments: MomentsData, 
/**
 * For each finding: its course.
 */
findings: Array<number>, actors: ActorsData, functions: Array<string>, };

/**
 * The trace in numbers.
 */
export type TraceSummary = { 
/**
 * `trace.dat v7`.
 */
format: string, 
/**
 * Events read.
 */
events: number, 
/**
 * Events known to be lost.
 */
lost: number, 
/**
 * CPUs.
 */
cpus: number, 
/**
 * First event, ns on the trace's clock.
 */
start_ns: number, 
/**
 * Last event.
 */
end_ns: number, 
/**
 * The kernel, where known.
 */
kernel: string | null, 
/**
 * Whether a host snapshot came with the trace.
 */
snapshot: boolean, 
/**
 * All waits of all tasks, in ns.
 */
waits_total_ns: number, 
/**
 * How many waits there were.
 */
waits_count: number, 
/**
 * Of `waits_total_ns`, the time in which nobody knows who had the CPU.
 */
waits_unknown_ns: number, 
/**
 * Why the trace cannot tell that nobody is starved; absent where it can.
 */
too_little?: string, 
/**
 * Waits of a kind that the trace cannot show at all; absent where it shows all.
 */
invisible?: string, 
/**
 * A cgroup with a CPU limit whose tasks waited, of which the recording does not say how often the limit stopped them; absent
 * where there is none.
 */
uncounted_limit?: string, 
/**
 * The name of the recorded machine, where known.
 */
host: string | null, 
/**
 * The trace's clock (`mono`, `local`), where known.
 */
clock: string | null, 
/**
 * The trace's clock and CLOCK_REALTIME at the same moment, at the beginning and at the end; fewer or none where the
 * recording does not have them.
 */
clock_pairs: Array<ClockPair>, 
/**
 * The first event in UTC, as RFC 3339, where `clock_pairs` tell.
 */
start_utc: string | null, 
/**
 * The last event.
 */
end_utc: string | null, 
/**
 * CPU time of the recorder and of others that only watch, in ns, where they are in the trace. They are no victims,
 * culprits or payers of findings.
 */
recorder_ns: number | null, };

/**
 * A finding of one side, where the other could not have shown it, or its own is in doubt.
 */
export type UnjudgedFinding = { 
/**
 * `rt-starvation`, ….
 */
id: string, 
/**
 * Whose waits.
 */
victim: Role, 
/**
 * How bad it is in A; none if it is in B alone.
 */
a: Severity | null, 
/**
 * How bad it is in B; none if it is in A alone.
 */
b: Severity | null, 
/**
 * The finding's sentence.
 */
sentence: string, 
/**
 * Why it is called neither new nor gone: `B: it has no sched_switch events`.
 */
because: string, };

/**
 * What a reader in a hurry came for.
 */
export type Verdict = { 
/**
 * How bad the worst is; nothing if nothing is wrong.
 */
severity: Severity | null, 
/**
 * The answer, for people.
 */
text: string, };

/**
 * Whose wait.
 */
export type Victim = { 
/**
 * `kworker`, `ksoftirqd`, `nfsd`, `rcu`, … or `task`; `cgroup` where none of its tasks is known.
 */
kind: string, 
/**
 * Its name.
 */
comm: string, 
/**
 * Its threads, the first 128.
 */
tids: Array<number>, 
/**
 * How many threads there are.
 */
tasks: number, 
/**
 * `fair`, `rt`, `deadline`.
 */
policy: string | null, 
/**
 * The kernel's priority.
 */
prio: number | null, 
/**
 * What the worker works on.
 */
work: Work | null, 
/**
 * The processes of these threads, where the host snapshot knows them.
 */
tgids: Array<number>, 
/**
 * Their cgroups, the first few, where the snapshot knows them.
 */
cgroups: Array<string>, };

/**
 * The waits of a role on both sides.
 */
export type WaitChange = { 
/**
 * Whose.
 */
role: Role, 
/**
 * In A; none if it never waited.
 */
a: RoleWaits | null, 
/**
 * In B.
 */
b: RoleWaits | null, };

/**
 * Waits in numbers.
 */
export type Waits = { 
/**
 * How many.
 */
count: number, 
/**
 * Together.
 */
total_ns: number, 
/**
 * The longest.
 */
max_ns: number, 
/**
 * 99 % were at most this long (3 significant figures).
 */
p99_ns: number, 
/**
 * Owed time: ideal equal-share service minus service received.
 */
owed_ns: number, };

/**
 * A worker's identity.
 */
export type Work = { 
/**
 * The work function.
 */
function: string, 
/**
 * The workqueue, where known.
 */
workqueue: string | null, };

/**
 * One of the longest waits of the trace.
 */
export type WorstWait = { 
/**
 * Who waited.
 */
comm: string, 
/**
 * Its id.
 */
tid: number, 
/**
 * Where.
 */
cpu: number, 
/**
 * From, on the trace's clock.
 */
start_ns: number, 
/**
 * To.
 */
end_ns: number, 
/**
 * Who ran meanwhile, longest first: adds up exactly.
 */
blame: Array<Culprit>, 
/**
 * From, in UTC, as RFC 3339, where the trace's `clock_pairs` tell.
 */
start_utc?: string, 
/**
 * Its process, where the host snapshot knows it.
 */
tgid: number | null, 
/**
 * Its cgroup, where the snapshot knows it.
 */
cgroup: string | null, };
