//! Loads, attaches and queries the BPF programs. Only this file, `counted.rs` and `oldest.rs` touch libbpf.

use std::cell::OnceCell;
use std::fs;
use std::io::{self, BufRead, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, MapFlags};
use unstarve_model::{Nanos, Tid};

use super::counted::{Counted, Cpu};
use crate::engine::place_table::PlaceChanges;
use crate::engine::reading::{RoleId, RoleKind};
use crate::engine::{EngineError, TaskMemory, clocks, lockdown};

#[allow(clippy::all, missing_docs, unused, unreachable_pub, clippy::undocumented_unsafe_blocks)]
mod watch {
    include!(concat!(env!("OUT_DIR"), "/watch.skel.rs"));
}

pub(super) use watch::types::{cpu as RawCpu, oldest as RawOldest, queue as RawQueue, row as RawRow};
use watch::{WatchSkel, WatchSkelBuilder};

/// For so many CPUs, the mapped sums take 1.6 MiB.
const SMALL_HOST_CPUS: usize = 16;

/// Replaces task storage where the kernel has none: enough for the threads of most machines, in 10 MB.
const TABLE: TaskMemory = TaskMemory::Table { entries: 65_536 };

/// One number per role.
pub(super) type ByRole = [u64; RoleId::LIMIT];

/// What the programs cost, from the kernel's statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spent {
    pub ns: u64,
    pub runs: u64,
    /// Runs left out because the same program was running on the CPU.
    pub missed: u64,
}

pub(super) struct Programs {
    /// Declared before the skeleton, so that the links are dropped before the programs that they attach.
    links: Vec<Link>,
    cpus: usize,
    /// On hosts with few CPUs, the sums stay mapped.
    mapped: Vec<OnceCell<Cpu>>,
    /// Iterator that lists waits each time it is read.
    list: OnceCell<Link>,
    skeleton: WatchSkel<'static>,
}

impl Programs {
    pub fn load(unified: bool, tasks: TaskMemory) -> Result<Programs, EngineError> {
        libbpf_rs::set_print(None);
        let skeleton = match load(unified, tasks) {
            Ok(loaded) => loaded,
            // Before 5.12, programs of these types have no task storage.
            Err(first) if tasks == TaskMemory::Kernel => match load(unified, TABLE) {
                Ok(skeleton) => skeleton,
                Err(_) => return Err(unavailable(&first)),
            },
            Err(error) => return Err(unavailable(&error)),
        };
        let cpus = possible_cpus()?;
        let mapped = (0..if cpus <= SMALL_HOST_CPUS { cpus } else { 0 }).map(|_| OnceCell::new()).collect();
        Ok(Programs { links: Vec::new(), list: OnceCell::new(), mapped, cpus, skeleton })
    }

    /// Attaches the programs and registers the tasks that exist already.
    pub fn start(&mut self) -> Result<(), EngineError> {
        let programs = &self.skeleton.progs;
        // `born` before the iterator over existing tasks, so that tasks created during it are not missed. `freed` before `born`, so that the slots
        // it takes are returned.
        let order = [
            &programs.freed,
            &programs.born,
            &programs.renamed,
            &programs.works,
            &programs.migrated,
            &programs.woken,
            &programs.woken_first,
            &programs.switched,
        ];
        for program in order {
            self.links.push(program.attach().map_err(|error| unavailable(&error))?);
        }
        let link = programs.seed.attach().map_err(|error| unavailable(&error))?;
        let mut all = Vec::new();
        let read = Iter::new(&link).map_err(io::Error::other).and_then(|mut iter| iter.read_to_end(&mut all));
        read.map_err(|source| EngineError::Read { what: "the tasks", source })?;
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            data.seeded = clocks::now().trace.0;
        }
        (0..self.cpus).for_each(|cpu| self.poke(cpu));
        Ok(())
    }

    /// Sets the roles of workers by work function. Where addresses are hidden (`kptr_restrict`), all of them remain plain workers.
    pub fn name_functions(&self) {
        let Ok(symbols) = fs::File::open("/proc/kallsyms") else { return };
        for line in io::BufReader::with_capacity(1 << 16, symbols).split(b'\n').map_while(Result::ok) {
            let Some((address, kind)) = function(&line) else { continue };
            if let Some(role) = kind.fixed_id() {
                // Cannot fail for lack of room: the map is much larger than the number of functions.
                let _ = self.skeleton.maps.functions.update(
                    &address.to_ne_bytes(),
                    &u32::from(role.0).to_ne_bytes(),
                    MapFlags::ANY,
                );
            }
        }
    }

    pub fn set_least_age(&mut self, age: Nanos) {
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            data.least_age = age.0;
        }
    }

    pub fn add_group(&mut self, group: u64, role: RoleId, weight: Option<u32>) -> Result<(), EngineError> {
        let (key, value) = (group.to_ne_bytes(), u32::from(role.0).to_ne_bytes());
        let added = self.skeleton.maps.groups.update(&key, &value, MapFlags::ANY);
        added.map_err(|error| EngineError::Read { what: "the table of groups", source: io::Error::other(error) })?;
        self.weigh(role, weight);
        Ok(())
    }

    pub fn remove_group(&mut self, group: u64, role: RoleId) {
        // Fails only if the group is not in the map, which is the aim.
        let _ = self.skeleton.maps.groups.delete(&group.to_ne_bytes());
        self.weigh(role, None);
    }

    pub fn weigh(&mut self, role: RoleId, weight: Option<u32>) {
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            // The programs read 0 as: tasks compete by their own weights.
            data.group_weights[role.index()] = weight.map_or(0, |weight| weight);
        }
    }

    /// Cgroups without a number that tasks were seen in, each with one of these tasks; they are asked for only once.
    pub fn take_unplaced(&self, most: usize) -> Vec<(u64, Tid)> {
        let map = &self.skeleton.maps.unplaced;
        let keys: Vec<Vec<u8>> = map.keys().take(most).collect();
        let mut found = Vec::new();
        for key in keys {
            let tid = map.lookup(&key, MapFlags::ANY).ok().flatten();
            let _ = map.delete(&key);
            let number = <[u8; 8]>::try_from(key.as_slice()).map(u64::from_ne_bytes);
            let tid = tid.and_then(|tid| <[u8; 4]>::try_from(tid.as_slice()).ok()).map(u32::from_ne_bytes);
            if let (Ok(group), Some(tid)) = (number, tid) {
                found.push((group, Tid(tid)));
            }
        }
        found
    }

    /// Tasks of these cgroups have other numbers from now on.
    pub fn place(&mut self, changes: &PlaceChanges) -> Result<(), EngineError> {
        // First: what ran under such a number until now was another one's.
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            changes.given.iter().for_each(|number| data.place_since[usize::from(*number)] = clocks::now().trace.0);
        }
        let map = &self.skeleton.maps.places;
        for group in &changes.removed {
            // Fails only if the group is not in the map, which is the aim.
            let _ = map.delete(&group.to_ne_bytes());
        }
        for (group, number) in &changes.added {
            let added = map.update(&group.to_ne_bytes(), &u32::from(*number).to_ne_bytes(), MapFlags::ANY);
            added.map_err(|error| EngineError::Read { what: "the table of pods", source: io::Error::other(error) })?;
        }
        Ok(())
    }

    /// Each task's role is determined again when it next waits or runs.
    pub fn renew_roles(&mut self) {
        if let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() {
            // 0 is not used as a generation: it marks tasks whose role must be determined again.
            data.generation = data.generation.wrapping_add(1).max(1);
        }
    }

    /// Makes a CPU count up to now. Has no effect on an offline CPU, where no task waits.
    fn poke(&self, cpu: usize) {
        let mut options = libbpf_sys::bpf_test_run_opts {
            sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
            flags: libbpf_sys::BPF_F_TEST_RUN_ON_CPU,
            cpu: cpu as u32,
            ..Default::default()
        };
        let program = self.skeleton.progs.poke.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open as long as the skeleton exists, and `sz` is the size of the options.
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program, &raw mut options) };
    }

    /// The sums up to now. CPUs with waiting tasks are made to count first: on a CPU that one task never leaves, nothing else
    /// would trigger it.
    pub fn counted(&self) -> Result<Counted, EngineError> {
        let mut counted = Counted::default();
        for number in 0..self.cpus {
            match self.mapped.get(number) {
                Some(place) => {
                    if place.get().is_none() {
                        let _ = place.set(self.map(number)?);
                    }
                    if let Some(cpu) = place.get() {
                        self.add_cpu(cpu, number, &mut counted)?;
                    }
                }
                None => self.add_cpu(&self.map(number)?, number, &mut counted)?,
            }
        }
        Ok(counted)
    }

    fn map(&self, number: usize) -> Result<Cpu, EngineError> {
        let mapped = Cpu::map(self.skeleton.maps.cpus.as_fd(), number);
        mapped.map_err(|source| EngineError::Read { what: "the programs' memory", source })
    }

    fn add_cpu(&self, cpu: &Cpu, number: usize, counted: &mut Counted) -> Result<(), EngineError> {
        if cpu.has_waiting() {
            self.poke(number);
        }
        cpu.add_to(counted)
    }

    /// What each role has waited, by the notes of all CPUs. `None` if the memory is not mapped yet, or not permanently.
    pub fn noted(&self) -> Option<ByRole> {
        let mut waited = [0; RoleId::LIMIT];
        self.all_mapped()?.for_each(|cpu| cpu.add_noted(&mut waited));
        Some(waited)
    }

    /// For how long real-time tasks have had each CPU.
    pub fn real_time(&self) -> Option<Vec<Nanos>> {
        self.all_mapped()?.map(|cpu| cpu.real_time().ok().map(Nanos)).collect()
    }

    /// Whether a task waits behind another task.
    pub fn has_crowd(&self) -> bool {
        self.all_mapped().is_none_or(|mut cpus| cpus.any(Cpu::has_crowd))
    }

    fn all_mapped(&self) -> Option<impl Iterator<Item = &Cpu>> {
        let all = self.mapped.len() == self.cpus && self.mapped.iter().all(|cpu| cpu.get().is_some());
        all.then(|| self.mapped.iter().filter_map(OnceCell::get))
    }

    /// Runs the program that lists waits and returns its output.
    pub fn list(&self) -> io::Result<Vec<u8>> {
        let link = match self.list.get() {
            Some(link) => link,
            None => {
                let link = self.skeleton.progs.list.attach().map_err(io::Error::other)?;
                self.list.get_or_init(|| link)
            }
        };
        let mut written = Vec::new();
        Iter::new(link).map_err(io::Error::other)?.read_to_end(&mut written)?;
        Ok(written)
    }

    /// Tasks with a slot in the array.
    pub fn slots_taken(&self) -> usize {
        self.skeleton.maps.owners.keys().count()
    }

    pub fn untracked(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |data| data.untracked)
    }

    pub fn rewoken(&self) -> u64 {
        self.skeleton.maps.bss_data.as_deref().map_or(0, |data| data.rewoken)
    }

    pub fn spent(&self) -> Spent {
        let programs = &self.skeleton.progs;
        let all = [
            programs.born.as_fd(),
            programs.renamed.as_fd(),
            programs.freed.as_fd(),
            programs.works.as_fd(),
            programs.migrated.as_fd(),
            programs.woken.as_fd(),
            programs.woken_first.as_fd(),
            programs.switched.as_fd(),
        ];
        let mut spent = Spent::default();
        for program in all {
            let mut info = libbpf_sys::bpf_prog_info::default();
            let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
            // SAFETY: the kernel writes at most `length` bytes to a structure of plain integers.
            let failed = unsafe {
                libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &raw mut length)
            };
            if failed == 0 {
                spent.ns += info.run_time_ns;
                spent.runs += info.run_cnt;
                spent.missed += info.recursion_misses;
            }
        }
        spent
    }
}

fn load(unified: bool, tasks: TaskMemory) -> Result<WatchSkel<'static>, libbpf_rs::Error> {
    // Leaked: lives until the process ends, and a process opens one engine.
    let place = Box::leak(Box::new(MaybeUninit::uninit()));
    let mut open = WatchSkelBuilder::default().open(place)?;
    if let Some(data) = open.maps.rodata_data.as_deref_mut() {
        data.has_storage = !matches!(tasks, TaskMemory::Table { .. });
        data.is_unified = unified;
    }
    open.maps.cpus.set_max_entries(libbpf_rs::num_possible_cpus()? as u32)?;
    match tasks {
        TaskMemory::Kernel => {
            // No memory for the unused map.
            open.maps.table.set_max_entries(1)?;
        }
        TaskMemory::Storage => {
            open.maps.table.set_max_entries(1)?;
            open.maps.slots.set_max_entries(1)?;
            open.maps.owners.set_max_entries(1)?;
        }
        TaskMemory::Table { entries } => {
            open.maps.table.set_max_entries(entries)?;
            open.maps.storage.set_autocreate(false)?;
            open.maps.slots.set_max_entries(1)?;
            open.maps.owners.set_max_entries(1)?;
        }
    }
    open.load()
}

fn possible_cpus() -> Result<usize, EngineError> {
    libbpf_rs::num_possible_cpus().map_err(|error| unavailable(&error))
}

fn unavailable(error: &libbpf_rs::Error) -> EngineError {
    let reason = format!(
        "the kernel does not take the programs ({error}). Linux 5.10 or later with BTF, CAP_BPF and CAP_PERFMON are needed{}",
        lockdown::words()
    );
    EngineError::Unavailable { engine: "eBPF", reason }
}

/// Parses a line of `/proc/kallsyms`: the address of a work function that has a role of its own.
fn function(line: &[u8]) -> Option<(u64, RoleKind)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace();
    let (address, name) = (fields.next()?, fields.nth(1)?);
    let kind = RoleKind::of_work(name)?;
    let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
    Some((address, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_functions_are_found_unless_their_address_is_hidden() {
        let line = b"ffffffff81234560 t iomap_dio_complete_work";
        assert_eq!(function(line), Some((0xffff_ffff_8123_4560, RoleKind::DirectIo)));
        assert_eq!(
            function(b"ffffffffc0123450 t wb_workfn\t[some_module]").map(|found| found.1),
            Some(RoleKind::Storage)
        );
        assert_eq!(function(b"0000000000000000 t iomap_dio_complete_work"), None);
        assert_eq!(function(b"ffffffff81234560 T schedule"), None);
        assert_eq!(function(b"\xff"), None);
    }
}
