//! Tables of hosts, settings and proofs of remedies.

use crate::column::Kind::{F64, I64, Moment, Text};
use crate::column::{Column, column, optional};

const HOST_MEANING: &str = "the name of the machine";
pub(super) const MACHINE_ID_MEANING: &str = "the machine, whatever its name: `/etc/machine-id`, hashed for unstarve";
const BOOT_MEANING: &str = "the boot of the machine";
const TS_MEANING: &str = "when it was looked at";

pub(crate) const HOST_COLUMNS: &[Column] = &[
    optional("host", Text, "", HOST_MEANING),
    optional("machine_id", Text, "", MACHINE_ID_MEANING),
    optional("boot_id", Text, "", BOOT_MEANING),
    column("ts", Moment, "", TS_MEANING),
    optional("kernel", Text, "", "`uname -r`"),
    optional("kernel_version", Text, "", "`uname -v`"),
    optional("machine", Text, "", "`uname -m`"),
    optional("cpus", I64, "", "CPUs that are online"),
    optional("labels", Text, "", "`key=value`, apart by commas, in the order of the keys"),
    optional("settings_digest", Text, "", "the same for hosts whose settings of `settings` are the same"),
    column("unstarve", Text, "", "the version that looked"),
];

pub(crate) const SETTING_COLUMNS: &[Column] = &[
    optional("host", Text, "", HOST_MEANING),
    optional("machine_id", Text, "", MACHINE_ID_MEANING),
    optional("boot_id", Text, "", BOOT_MEANING),
    column("ts", Moment, "", TS_MEANING),
    column("path", Text, "", "the file in /proc or /sys; `features/NAME` for a scheduler feature"),
    optional("name", Text, "", "the name for `unstarve knobs`, where it has one"),
    column("value", Text, "", "what it is"),
    optional("default", Text, "", "what this kernel would have, where it is something else and known"),
    optional("kernel", Text, "", "`uname -r`"),
];

pub(crate) const PROOF_COLUMNS: &[Column] = &[
    column("remedy", Text, "", "the remedy's id (docs/remedies.md)"),
    column("finding", Text, "", "the finding that offered it"),
    column("victim", Text, "", "the kind of the finding's victim"),
    column("scenario", Text, "", "the lab's scenario"),
    column("kernel", Text, "", "the kernel's series: `6.1`"),
    column("answer", Text, "", "`helped`, `harmed`, `no-difference`, `not-shown` or `not-made`"),
    column("metric", Text, "", "what `effect` is of"),
    optional("effect", F64, "", "the metric's change as a part of what it was without the remedy: −0.86 is 86 % less"),
    optional("low", F64, "", "the lower bound of its 95 % interval"),
    optional("high", F64, "", "the upper bound"),
    column("seeds", I64, "", "pairs of runs"),
    column("costs", Text, "", "metrics that got worse, apart by blanks"),
    column("release", Text, "", "the kernel's own release string"),
    column("package", Text, "", "its package with the version"),
    column("unstarve", Text, "", "the version and commit that proved it"),
    column("date", Text, "", "the day"),
    column("note", Text, "", "what else is to be known"),
];

pub(crate) const KERNEL_CELL_COLUMNS: &[Column] = &[
    column("scenario", Text, "", "the lab's scenario (docs/lab-scenarios.md)"),
    column("title", Text, "", "what it shows"),
    column("kernel", Text, "", "the kernel's name in the lab: `6.12.118`, `6.12.118-rt`"),
    column("release", Text, "", "the kernel's own release string"),
    column("package", Text, "", "its package with the version"),
    column("verdict", Text, "", "`starves`, `does not` or another of docs/lab.md"),
    column("expected", Text, "", "the findings that the scenario expects where it starves, separated by spaces"),
    column("finding", Text, "", "the first finding with the fault, in words"),
    optional(
        "longest_ns",
        I64,
        "ns",
        "the longest wait of who is starved, else of the expected victim: the median over the seeds",
    ),
    column("metric", Text, "", "the scenario's main metric"),
    column("unit", Text, "", "its unit"),
    optional("healthy", F64, "", "its mean without the fault"),
    optional("faulty", F64, "", "its mean with it"),
    optional("relative", F64, "", "what the fault changes, as a part of `healthy`"),
    optional("low", F64, "", "the lower bound of its 95 % interval over the seeds"),
    optional("high", F64, "", "the upper bound"),
    column("metric_verdict", Text, "", "`better`, `worse`, `no difference that matters` or why nothing is claimed"),
    column("seeds", I64, "", "pairs of guests"),
    column("traces", Text, "", "SHA-256 of each recording with the fault, separated by spaces"),
    column("twin_traces", Text, "", "the same without the fault"),
    column("kernel_digest", Text, "", "SHA-256 of the kernel's image"),
    column("program_digest", Text, "", "SHA-256 of the guests' init"),
    column("image_digest", Text, "", "SHA-256 of all that the guests were given: init, tools, libraries, modules"),
    column("qemu", Text, "", "QEMU's version"),
    column("command", Text, "", "the command that makes it again"),
];
