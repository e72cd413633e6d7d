//! The page's tables of blame and of places.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use unstarve_diagnose::report::Report;
use unstarve_model::{CpuId, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, World};

use super::actors::ActorTable;
use crate::blob::{Column, Columns};
use crate::collect::Collector;
use crate::collect::tables::BlameEntry;

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct BlameData {
    victim: Column<u16>,
    occupant: Column<u16>,
    rule: Column<u8>,
    cpu: Column<u16>,
    ns: Column<f64>,
    /// The words of the rules, by number.
    rules: Vec<&'static str>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct PlacesData {
    actor: Column<u16>,
    cpu: Column<u16>,
    ran: Column<f64>,
    runs: Column<f64>,
    waited: Column<f64>,
    waits: Column<f64>,
    longest: Column<f64>,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct InterruptsData {
    actor: Column<u16>,
    cpu: Column<u16>,
    count: Column<f64>,
    ns: Column<f64>,
    longest: Column<f64>,
}

/// Maximum cells; smaller ones are summed up under "others", so that the sum over all cells equals all waits.
const MAX_BLAME_CELLS: usize = 6000;
/// Maximum actors in the layout.
const MAX_PLACED_ACTORS: usize = 120;
/// Maximum places of those actors.
const PLACES: usize = 12_000;

pub(crate) fn blame(
    collector: &Collector,
    report: &Report,
    world: &World,
    actors: &mut ActorTable<'_>,
    columns: &mut Columns,
) -> BlameData {
    let ids: Vec<ActorId> = world.actors.iter().map(|(id, _)| id).collect();
    let mut cells: Vec<(ActorId, BlameEntry)> = collector
        .blame
        .iter()
        .filter(|(_, entry)| entry.length > Nanos::ZERO)
        .filter_map(|(victim, entry)| Some((*ids.get(victim)?, *entry)))
        .collect();
    let told: FxHashSet<ActorId> = report.findings.iter().flat_map(|finding| finding.actors.iter().copied()).collect();
    cells.sort_unstable_by_key(|(victim, entry)| {
        // Victims of findings come first, even with short waits.
        let is_told = told.contains(victim);
        (!is_told, std::cmp::Reverse(entry.length), *victim, entry.occupant, entry.rule, entry.cpu)
    });
    let mut rest: FxHashMap<(Rule, CpuId), Nanos> = FxHashMap::default();
    for (_, entry) in cells.split_off(cells.len().min(MAX_BLAME_CELLS)) {
        *rest.entry((entry.rule, entry.cpu)).or_default() += entry.length;
    }
    let mut rest: Vec<((Rule, CpuId), Nanos)> = rest.into_iter().collect();
    rest.sort_unstable();
    let others = ActorId::OTHERS;
    let rest =
        rest.into_iter().map(|((rule, cpu), length)| (others, BlameEntry { occupant: others, rule, cpu, length }));
    cells.extend(rest);
    BlameData {
        victim: columns.u16(cells.iter().map(|(victim, _)| actors.index(*victim))),
        occupant: columns.u16(cells.iter().map(|(_, entry)| actors.index(entry.occupant))),
        rule: columns.u8(cells.iter().map(|(_, entry)| entry.rule as u8)),
        cpu: columns.u16(cells.iter().map(|(_, entry)| entry.cpu.0 as u16)),
        ns: columns.f64(cells.iter().map(|(_, entry)| entry.length.0)),
        rules: Rule::ALL.map(Rule::word).to_vec(),
    }
}

pub(crate) fn places(
    collector: &Collector,
    world: &World,
    actors: &mut ActorTable<'_>,
    columns: &mut Columns,
) -> PlacesData {
    let mut weight: FxHashMap<usize, Nanos> = FxHashMap::default();
    for (actor, _, place) in collector.places.iter() {
        *weight.entry(actor).or_default() += place.ran + place.waited;
    }
    let mut order: Vec<(Nanos, ActorId)> =
        world.actors.iter().filter_map(|(id, _)| Some((*weight.get(&id.index())?, id))).collect();
    order.sort_unstable_by_key(|(weight, id)| (std::cmp::Reverse(*weight), *id));
    order.truncate(MAX_PLACED_ACTORS);
    let rank: FxHashMap<usize, ActorId> = order.into_iter().map(|(_, id)| (id.index(), id)).collect();
    let mut list: Vec<_> = collector
        .places
        .iter()
        .filter(|(_, _, place)| place.runs + place.waits > 0)
        .filter_map(|(actor, cpu, place)| Some((*rank.get(&actor)?, cpu, *place)))
        .collect();
    list.sort_unstable_by_key(|(id, cpu, place)| (std::cmp::Reverse(place.ran + place.waited), *id, *cpu));
    list.truncate(PLACES);
    PlacesData {
        actor: columns.u16(list.iter().map(|(id, ..)| actors.index(*id))),
        cpu: columns.u16(list.iter().map(|(_, cpu, _)| cpu.0 as u16)),
        ran: columns.f64(list.iter().map(|(.., place)| place.ran.0)),
        runs: columns.f64(list.iter().map(|(.., place)| place.runs)),
        waited: columns.f64(list.iter().map(|(.., place)| place.waited.0)),
        waits: columns.f64(list.iter().map(|(.., place)| place.waits)),
        longest: columns.f64(list.iter().map(|(.., place)| place.longest.0)),
    }
}

pub(crate) fn interrupts(
    collector: &Collector,
    world: &World,
    actors: &mut ActorTable<'_>,
    columns: &mut Columns,
) -> InterruptsData {
    let ids: Vec<ActorId> = world.actors.iter().map(|(id, _)| id).collect();
    let mut list: Vec<_> = collector
        .interrupts
        .iter()
        .filter(|(_, _, stays)| stays.count > 0)
        .filter_map(|(actor, cpu, stays)| Some((*ids.get(actor)?, cpu, *stays)))
        .collect();
    list.sort_unstable_by_key(|(id, cpu, stays)| (std::cmp::Reverse(stays.total), *id, *cpu));
    list.truncate(PLACES);
    InterruptsData {
        actor: columns.u16(list.iter().map(|(id, ..)| actors.index(*id))),
        cpu: columns.u16(list.iter().map(|(_, cpu, _)| cpu.0 as u16)),
        count: columns.f64(list.iter().map(|(.., stays)| stays.count)),
        ns: columns.f64(list.iter().map(|(.., stays)| stays.total.0)),
        longest: columns.f64(list.iter().map(|(.., stays)| stays.longest.0)),
    }
}
