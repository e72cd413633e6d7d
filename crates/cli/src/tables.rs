//! Rows of tables that single commands write: hosts, settings, proofs.

use std::path::Path;
#[cfg(feature = "columnar")]
use std::time::SystemTime;

#[cfg(feature = "columnar")]
use anyhow::Context;
use anyhow::Result;
use unstarve_diagnose::proofs::Proof;
use unstarve_facts::Snapshot;
use unstarve_lab::kernel_table::KernelTable;
#[cfg(feature = "columnar")]
use unstarve_model::{WallTime, clean};
#[cfg(feature = "columnar")]
use unstarve_tables::{Cell, HOSTS, KERNEL_CELLS, PROOFS, Partition, SETTINGS, Shelf, parquet_file, part_name};

#[cfg(feature = "columnar")]
use crate::knobs::settings_of;
use crate::target::Target;

#[cfg(not(feature = "columnar"))]
const WITHOUT_PARQUET: &str =
    "this unstarve was built without Parquet: build it with `make build` (cargo's feature columnar)";

/// Not in this build.
#[cfg(not(feature = "columnar"))]
pub fn write_host(_: &Path, _: &Snapshot, _: Option<&str>) -> Result<()> {
    anyhow::bail!(WITHOUT_PARQUET)
}

/// Not in this build.
#[cfg(not(feature = "columnar"))]
pub fn write_proofs(_: &Path, _: &[&Proof]) -> Result<()> {
    anyhow::bail!(WITHOUT_PARQUET)
}

/// Writes a host and its settings as rows of `hosts` and `settings`.
#[cfg(feature = "columnar")]
pub fn write_host(directory: &Path, snapshot: &Snapshot, machine_id: Option<&str>) -> Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("the clock is before 1970")?;
    let now = WallTime(u64::try_from(now.as_nanos()).context("the clock is after 2500")?);
    let shelf = Shelf::open(directory)?;
    let host = snapshot.host.as_deref().map(clean);
    let part = part_name(&[host.as_deref().unwrap_or("unknown"), "snapshot", &now.0.to_string()]);
    let settings = Setting::all(snapshot);
    let kernel = snapshot.kernel.release.as_deref();
    let [host, machine_id, boot] = [host.as_deref(), machine_id, snapshot.boot.as_deref()].map(Cell::text);
    let begin = [host, machine_id, boot, now.0.into()];
    let digest = digest_of(&settings);
    let row = [
        Cell::text(kernel),
        Cell::text(snapshot.kernel.version.as_deref()),
        Cell::text(snapshot.kernel.machine.as_deref()),
        Cell::number(snapshot.cpus.online.as_ref().map(|cpus| cpus.len() as u64)),
        Cell::Empty,
        Cell::Text(&digest),
        Cell::Text(env!("CARGO_PKG_VERSION")),
    ];
    let bytes = parquet_file(&HOSTS, |out| out.row(&[&begin[..], &row].concat()))?;
    shelf.put(&Partition::of(HOSTS.name, now), &part, &bytes)?;
    let bytes = parquet_file(&SETTINGS, |out| {
        settings.iter().try_for_each(|setting| {
            let name = Cell::text(setting.name.as_deref());
            let default = Cell::text(setting.default.as_deref());
            let row = [Cell::Text(&setting.path), name, Cell::Text(&setting.value), default, Cell::text(kernel)];
            out.row(&[&begin[..], &row].concat())
        })
    })?;
    shelf.put(&Partition::of(SETTINGS.name, now), &part, &bytes)?;
    Ok(())
}

/// A setting of a host.
#[cfg(feature = "columnar")]
struct Setting {
    path: String,
    name: Option<String>,
    value: String,
    default: Option<String>,
}

#[cfg(feature = "columnar")]
impl Setting {
    /// All that a snapshot has: files, then the scheduler's features.
    fn all(snapshot: &Snapshot) -> Vec<Setting> {
        let of_file = settings_of(snapshot).into_iter().map(|line| Setting {
            name: (line.name != line.path).then_some(line.name),
            path: line.path,
            value: line.value,
            default: line.default,
        });
        let feature = |(name, on): (&String, &bool)| Setting {
            path: format!("features/{}", clean(name)),
            name: Some(clean(name).into_owned()),
            value: if *on { "1" } else { "0" }.to_owned(),
            default: None,
        };
        of_file.chain(snapshot.features.iter().flatten().map(feature)).collect()
    }
}

/// The same for the same settings, whatever the host. FNV-1a: it says that two are alike, and keeps nothing secret.
#[cfg(feature = "columnar")]
fn digest_of(settings: &[Setting]) -> String {
    let mut digest = 0xcbf2_9ce4_8422_2325_u64;
    for setting in settings {
        for byte in setting.path.bytes().chain([0]).chain(setting.value.bytes()).chain([0]) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    format!("{digest:016x}")
}

/// Not in this build.
#[cfg(not(feature = "columnar"))]
pub fn write_kernel_cells(_: Target, _: &KernelTable) -> Result<()> {
    anyhow::bail!(WITHOUT_PARQUET)
}

/// Writes the cells that are known as the table `kernel_cells`.
#[cfg(feature = "columnar")]
pub fn write_kernel_cells(target: Target, table: &KernelTable) -> Result<()> {
    let bytes = parquet_file(&KERNEL_CELLS, |out| {
        table.known().try_for_each(|known| {
            let (cell, effect) = (known.cell, known.cell.effect.as_ref());
            let (expected, traces) = (known.expected(), known.traces());
            let finding = known.finding();
            let [finding, title] = [finding.as_str(), &known.row.title].map(clean);
            let (twin_traces, command) = (known.twin_traces(), cell.command());
            let interval = effect.and_then(|effect| effect.interval);
            out.row(&[
                Cell::Text(&cell.scenario),
                Cell::Text(&title),
                Cell::Text(&cell.kernel),
                Cell::Text(&known.kernel.release),
                Cell::Text(&known.kernel.package),
                Cell::Text(cell.verdict().words()),
                Cell::Text(&expected),
                Cell::Text(&finding),
                Cell::number(cell.longest().map(|longest| longest.0)),
                Cell::Text(effect.map(|effect| effect.metric.as_str()).unwrap_or_default()),
                Cell::Text(effect.map(|effect| effect.unit.as_str()).unwrap_or_default()),
                Cell::real(effect.map(|effect| effect.healthy)),
                Cell::real(effect.map(|effect| effect.faulty)),
                Cell::real(effect.and_then(|effect| effect.relative)),
                Cell::real(interval.map(|(low, _)| low)),
                Cell::real(interval.map(|(_, high)| high)),
                Cell::Text(effect.map(|effect| effect.verdict.words()).unwrap_or_default()),
                (cell.seeds.len() as u64).into(),
                Cell::Text(&traces),
                Cell::Text(&twin_traces),
                Cell::Text(&cell.kernel_digest),
                Cell::Text(&cell.program_digest),
                Cell::Text(&cell.image_digest),
                Cell::Text(&cell.qemu),
                Cell::Text(&command),
            ])
        })
    })?;
    deliver(target, &bytes)
}

#[cfg(feature = "columnar")]
fn deliver(target: Target, bytes: &[u8]) -> Result<()> {
    let mut writer = target.writer()?;
    std::io::Write::write_all(&mut writer, bytes).and_then(|()| std::io::Write::flush(&mut writer))?;
    drop(writer);
    target.deliver()
}

/// Writes what was proved as the table `proofs`.
#[cfg(feature = "columnar")]
pub fn write_proofs(file: &Path, proofs: &[&Proof]) -> Result<()> {
    let bytes = parquet_file(&PROOFS, |out| {
        proofs.iter().try_for_each(|proof| {
            let costs = proof.costs.join(" ");
            out.row(&[
                Cell::Text(proof.remedy.as_str()),
                Cell::Text(proof.finding.as_str()),
                Cell::Text(proof.victim.word()),
                Cell::Text(&proof.scenario),
                Cell::Text(&proof.kernel),
                Cell::Text(proof.answer.word()),
                Cell::Text(&proof.metric),
                Cell::real(proof.effect),
                Cell::real(proof.low),
                Cell::real(proof.high),
                (proof.seeds as u64).into(),
                Cell::Text(&costs),
                Cell::Text(&proof.release),
                Cell::Text(&proof.package),
                Cell::Text(&proof.unstarve),
                Cell::Text(&proof.date),
                Cell::Text(&proof.note),
            ])
        })
    })?;
    deliver(Target::open(file)?, &bytes)
}
