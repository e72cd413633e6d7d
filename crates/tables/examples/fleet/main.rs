//! Multiplies the rollups of a real host to those of a fleet, with faults planted in some of its hosts:
//!
//!     cargo run -p unstarve-tables --features columnar --example fleet -- REAL OUT HOSTS HOURS [from=H] [rows=N] [apart]
//!
//! REAL and OUT are directories as `unstarve watch --tables` writes them, REAL also of the layout before `v1`; OUT is `hosts` of a store that `unstarve fleet compact` is to merge. All hosts are in one file for each hour, as if they had been merged;
//! with `apart`, each host has files of its own, as before that, and a load of its own: without it, the same numbers again and again take next to no room.
//! With `rows=N` each interval of a host has so many rows of `blame_rollup`, as on a host with more groups than the real one: some of what it has is there once more, of other
//! groups. With `from=H` the hours before it are left out: one that was stopped goes on so. What is planted comes on top. Every host gets real intervals in an order of its own. The same call makes the same rows. What is planted, by the number of the host:
//!
//! * each 10th, `host-NNNN` with N % 10 = 3: real-time tasks keep the workers of direct I/O waiting for 12 s in each interval;
//! * kernel 6.1.0-planted on each 4th: a group outweighs kworkers for 3 s in each interval;
//! * from the middle of the time on, host-0001: an occupant that was not there before, `/batch.slice`;
//! * host-0004: a group whose CPU limit is used up, `/limited.slice`, for 5 s in each interval;
//! * host-0005 has another kernel from the middle of the time on, 6.12.9-changed;
//! * each 20th, `host-NNNN` with N % 20 = 7, gets the label `policy=v2` in the middle of the time; until then a group outweighs its storage workers for 4 s in each interval;
//! * host-0006 has another value of `kernel.sched_rt_runtime_us` than all others;
//! * each host of the first kind has an episode in each hour.

mod interval;

use std::error::Error;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use unstarve_model::WallTime;
use unstarve_tables::{
    BLAME_ROLLUP, Cell, EPISODES, HOSTS, Partition, Rows, SETTINGS, Schema, Shelf, WAIT_ROLLUP, parquet_file, part_name,
};

use interval::{Blame, Interval, Wait, mix};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// 2026-11-22 00:00 UTC.
const BEGIN: u64 = 1_795_305_600_000_000_000;
const SPAN: u64 = 300_000_000_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (arguments, apart) = match arguments.split_last() {
        Some((last, first)) if last == "apart" => (first, true),
        _ => (&arguments[..], false),
    };
    let (arguments, rows) = match arguments.split_last() {
        Some((last, first)) if last.starts_with("rows=") => (first, Some(last["rows=".len()..].parse()?)),
        _ => (arguments, None),
    };
    let (arguments, from) = match arguments.split_last() {
        Some((last, first)) if last.starts_with("from=") => (first, last["from=".len()..].parse()?),
        _ => (arguments, 0),
    };
    let [real, out, hosts, hours] = arguments else {
        return Err("expected REAL OUT HOSTS HOURS [from=H] [rows=N] [apart]".into());
    };
    let mut real = read(Path::new(real))?;
    if let Some(rows) = rows {
        real.iter_mut().for_each(|interval| interval.widen(rows));
    }
    let shelf = Shelf::open(&std::path::absolute(out)?)?;
    let (hosts, hours): (u64, u64) = (hosts.parse()?, hours.parse()?);
    for hour in from..hours {
        let begin = (BEGIN + hour * 12 * SPAN).to_string();
        if apart {
            for host in 0..hosts {
                let name = Host { number: host, is_late: false }.name();
                write_hour(
                    &shelf,
                    (&real, Load::Own),
                    host..host + 1,
                    &part_name(&[&name, "boot", &begin]),
                    (hour, hours),
                )?;
            }
        } else {
            write_hour(&shelf, (&real, Load::Same), 0..hosts, &part_name(&["merged", &begin]), (hour, hours))?;
        }
    }
    Ok(())
}

/// Writes what a host has of an interval, by the time at which that begins.
type Row<'a> = Box<dyn FnMut(Host, u64, &Interval) -> std::result::Result<(), unstarve_tables::TableError> + 'a>;

/// Whether all hosts do the same.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Same,
    Own,
}

/// Some hosts' rows of an hour of all hours in a file for each table.
fn write_hour(
    shelf: &Shelf,
    (real, load): (&[Interval], Load),
    hosts: Range<u64>,
    part: &str,
    (hour, hours): (u64, u64),
) -> Result<()> {
    let begin = BEGIN + hour * 12 * SPAN;
    let at = WallTime(begin);
    let each = |mut row: Row<'_>| {
        for host in hosts.clone() {
            for step in 0..12 {
                let number = hour * 12 + step;
                let mut interval = real[(mix(host, number) % real.len() as u64) as usize].clone();
                if load == Load::Own {
                    interval.vary(host, number);
                }
                let host = Host { number: host, is_late: number >= hours * 6 };
                plant(&mut interval, host);
                row(host, begin + step * SPAN, &interval)?;
            }
        }
        Ok(())
    };
    let waits = parquet_file(&WAIT_ROLLUP, |out| {
        each(Box::new(|host, ts, interval| interval.waits.iter().try_for_each(|wait| write_wait(out, host, ts, wait))))
    })?;
    let blame = parquet_file(&BLAME_ROLLUP, |out| {
        each(Box::new(|host, ts, interval| {
            interval.blame.iter().try_for_each(|blame| write_blame(out, host, ts, blame))
        }))
    })?;
    let all = || hosts.clone().map(|number| Host { number, is_late: hour * 2 >= hours });
    let looked = parquet_file(&HOSTS, |out| all().try_for_each(|host| write_host(out, host, begin)))?;
    let settings = parquet_file(&SETTINGS, |out| all().try_for_each(|host| write_setting(out, host, begin)))?;
    let starved = || all().filter(|host| host.starves_io());
    let episodes = parquet_file(&EPISODES, |out| starved().try_for_each(|host| write_episode(out, host, begin)))?;
    let tables =
        [(&WAIT_ROLLUP, waits), (&BLAME_ROLLUP, blame), (&HOSTS, looked), (&SETTINGS, settings), (&EPISODES, episodes)];
    for (schema, bytes) in tables {
        // Who has no episode writes no file of them.
        if schema.name != EPISODES.name || starved().next().is_some() {
            shelf.put(&Partition::of(schema.name, at), part, &bytes)?;
        }
    }
    Ok(())
}

/// A host, before or after the middle of the time.
#[derive(Clone, Copy)]
struct Host {
    number: u64,
    is_late: bool,
}

impl Host {
    fn starves_io(self) -> bool {
        self.number % 10 == 3
    }

    fn name(self) -> String {
        format!("host-{:04}", self.number)
    }

    fn machine_id(self) -> String {
        format!("{:016x}{:016x}", mix(self.number, 1), mix(self.number, 2))
    }

    fn gets_a_policy(self) -> bool {
        self.number % 20 == 7
    }

    fn labels(self) -> Option<&'static str> {
        (self.gets_a_policy() && self.is_late).then_some("policy=v2")
    }

    fn kernel(self) -> &'static str {
        match self.number {
            5 if self.is_late => "6.12.9-changed",
            number if number % 4 == 2 => "6.1.0-planted",
            _ => "6.12.0-plain",
        }
    }
}

fn plant(interval: &mut Interval, host: Host) {
    if host.starves_io() {
        interval.add("direct-io", "real-time", "class", 12_000_000_000);
    }
    if host.number % 4 == 2 {
        interval.add("kworker", "/heavy.slice", "weight", 3_000_000_000);
    }
    if host.number == 1 && host.is_late {
        interval.add("rcu", "/batch.slice", "weight", 1_000_000_000);
    }
    if host.gets_a_policy() && !host.is_late {
        interval.add("storage", "/noisy.slice", "weight", 4_000_000_000);
    }
    if host.number == 4 {
        interval.add("/limited.slice", "/limited.slice", "throttled", 5_000_000_000);
    }
}

fn write_wait(
    out: &mut dyn Rows,
    host: Host,
    ts: u64,
    wait: &Wait,
) -> std::result::Result<(), unstarve_tables::TableError> {
    let (name, machine_id) = (host.name(), host.machine_id());
    out.row(&[
        Cell::Text(&name),
        Cell::Text(&machine_id),
        Cell::Text("boot"),
        ts.into(),
        SPAN.into(),
        Cell::Text(&wait.role),
        Cell::Text(&wait.kind),
        Cell::text(wait.role.starts_with('/').then_some(wait.role.as_str())),
        wait.n.into(),
        wait.sum.into(),
        Cell::number(wait.max),
        Cell::Counts(&wait.buckets),
        Cell::Text(host.kernel()),
        Cell::text(host.labels()),
    ])
}

fn write_blame(
    out: &mut dyn Rows,
    host: Host,
    ts: u64,
    blame: &Blame,
) -> std::result::Result<(), unstarve_tables::TableError> {
    let (name, machine_id) = (host.name(), host.machine_id());
    out.row(&[
        Cell::Text(&name),
        Cell::Text(&machine_id),
        Cell::Text("boot"),
        ts.into(),
        SPAN.into(),
        Cell::Text(&blame.victim),
        Cell::Text(&blame.kind),
        Cell::Text(&blame.occupant),
        Cell::Text(&blame.rule),
        blame.ns.into(),
        Cell::Text(host.kernel()),
        Cell::text(host.labels()),
    ])
}

fn write_host(out: &mut dyn Rows, host: Host, ts: u64) -> std::result::Result<(), unstarve_tables::TableError> {
    let (name, machine_id) = (host.name(), host.machine_id());
    out.row(&[
        Cell::Text(&name),
        Cell::Text(&machine_id),
        Cell::Text("boot"),
        ts.into(),
        Cell::Text(host.kernel()),
        Cell::Empty,
        Cell::Text("x86_64"),
        2.into(),
        Cell::text(host.labels()),
        Cell::Empty,
        Cell::Text(env!("CARGO_PKG_VERSION")),
    ])
}

fn write_setting(out: &mut dyn Rows, host: Host, ts: u64) -> std::result::Result<(), unstarve_tables::TableError> {
    let (name, machine_id) = (host.name(), host.machine_id());
    let value = if host.number == 6 { "-1" } else { "950000" };
    out.row(&[
        Cell::Text(&name),
        Cell::Text(&machine_id),
        Cell::Text("boot"),
        ts.into(),
        Cell::Text("/proc/sys/kernel/sched_rt_runtime_us"),
        Cell::Empty,
        Cell::Text(value),
        Cell::Empty,
        Cell::Text(host.kernel()),
    ])
}

fn write_episode(out: &mut dyn Rows, host: Host, ts: u64) -> std::result::Result<(), unstarve_tables::TableError> {
    let (name, machine_id, id) = (host.name(), host.machine_id(), format!("{ts}-direct-io"));
    let victim = [Cell::Text("kworker/0:1H"), Cell::Text("direct-io"), Cell::Empty];
    let culprit = [Cell::Text("spinner"), Cell::Text("real-time"), Cell::Empty];
    out.row(
        &[
            &[Cell::Text(&id), Cell::Text(&name), Cell::Text(&machine_id), ts.into()][..],
            &[Cell::Text("rt-starvation"), Cell::Text("critical")],
            &victim,
            &culprit,
            &[Cell::Text("class"), (1_000_000_000 + host.number).into(), 1.into()],
            &[Cell::Text("rt-throttling"), Cell::Empty, Cell::Empty, Cell::Empty, Cell::Empty],
            &[Cell::Text(host.kernel()), Cell::text(host.labels())],
            &[(ts + 2_000_000_000).into(), Cell::Text("calm"), 2_000_000_000.into()],
            &[(1_000_000_000 + host.number).into(), 1_500_000_000.into(), Cell::Empty],
        ]
        .concat(),
    )
}

/// The real intervals, in the order of their time.
fn read(directory: &Path) -> Result<Vec<Interval>> {
    let mut intervals = std::collections::BTreeMap::<i64, Interval>::new();
    for batch in batches(directory, &WAIT_ROLLUP)? {
        let (moments, n, sums) = (moments(&batch)?, numbers(&batch, "n")?, numbers(&batch, "sum_ns")?);
        let (longest, steps) = (column(&batch, "max_ns")?, column(&batch, "buckets")?.as_list::<i32>());
        let most = integers(longest)?;
        for row in 0..batch.num_rows() {
            let wait = Wait {
                role: text(&batch, "victim_role", row)?,
                kind: text(&batch, "victim_kind", row)?,
                n: n[row],
                sum: sums[row],
                max: longest.is_valid(row).then(|| most[row]),
                buckets: integers(&steps.value(row))?,
            };
            intervals.entry(moments[row]).or_default().waits.push(wait);
        }
    }
    for batch in batches(directory, &BLAME_ROLLUP)? {
        let (moments, ns) = (moments(&batch)?, numbers(&batch, "ns")?);
        for row in 0..batch.num_rows() {
            let [victim, kind, occupant, rule] =
                ["victim_role", "victim_kind", "occupant", "rule"].map(|name| text(&batch, name, row));
            let blame = Blame { victim: victim?, kind: kind?, occupant: occupant?, rule: rule?, ns: ns[row] };
            intervals.entry(moments[row]).or_default().blame.push(blame);
        }
    }
    if intervals.is_empty() {
        return Err(format!("{}: there are no rollups", directory.display()).into());
    }
    Ok(intervals.into_values().collect())
}

fn batches(directory: &Path, schema: &Schema) -> Result<Vec<RecordBatch>> {
    let mut batches = Vec::new();
    for file in files(&directory.join(format!("table={}", schema.name)))? {
        for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(file)?)?.build()? {
            batches.push(batch?);
        }
    }
    Ok(batches)
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    Ok(batch.column_by_name(name).ok_or_else(|| format!("no column {name}"))?.as_ref())
}

/// In any unit: only their order matters.
fn moments(batch: &RecordBatch) -> Result<Vec<i64>> {
    let column = column(batch, "ts")?;
    let early = column.as_primitive_opt::<TimestampNanosecondType>().map(|column| column.values().to_vec());
    let today = || column.as_primitive_opt::<TimestampMicrosecondType>().map(|column| column.values().to_vec());
    Ok(early.or_else(today).ok_or("`ts` has no moments")?)
}

fn numbers(batch: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    integers(column(batch, name)?)
}

/// What was counted, which is never negative.
fn integers(column: &dyn Array) -> Result<Vec<u64>> {
    let early = column.as_primitive_opt::<UInt64Type>().map(|column| column.values().to_vec());
    let today = |column: &PrimitiveArray<Int64Type>| column.values().iter().map(|n| n.max(&0).unsigned_abs()).collect();
    let today = || column.as_primitive_opt::<Int64Type>().map(today);
    Ok(early.or_else(today).ok_or("a column has no integers")?)
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> Result<String> {
    Ok(column(batch, name)?.as_string::<i32>().value(row).to_owned())
}
