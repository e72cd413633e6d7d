//! Loads the BPF programs of `src/bpf/births.bpf.c` and decodes their events. The only user of libbpf in task events.

use std::cell::{Cell, RefCell};
use std::fs;
use std::io::{self, BufRead};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use rustc_hash::FxHashMap;
use unstarve_model::{Comm, Tid};

use super::{Born, Follower, Interest, Programs, Registry, Signal, Source, SourceName, WorkDetail};
use crate::task::Work;
use unstarve_facts::flag;

#[allow(clippy::all, missing_docs, unused, unreachable_pub, clippy::undocumented_unsafe_blocks)]
mod task_events {
    include!(concat!(env!("OUT_DIR"), "/births.skel.rs"));
}

use task_events::types::event as RawEvent;
use task_events::{BirthsSkel, BirthsSkelBuilder};

/// `enum kind` of births.bpf.c; BTF has no type with its values.
mod kind {
    pub const BORN: u32 = 1;
    pub const RENAMED: u32 = 2;
    pub const EXECUTED: u32 = 3;
    pub const WORKED: u32 = 4;
    pub const CHANGED: u32 = 5;
    pub const ENDED: u32 = 6;
    pub const REOWNED: u32 = 7;
    pub const MOVED: u32 = 8;
}

/// As in births.bpf.c.
const MOST_NAMES: usize = 32;
/// A task's name has 15 bytes.
const LONGEST_NAME: usize = 15;
/// Priorities below are real-time (`MAX_RT_PRIO`, include/linux/sched/prio.h).
const FIRST_FAIR: i32 = 100;

pub(super) struct Ebpf {
    /// Declared before the skeleton that owns the programs, so that it is dropped first.
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    skeleton: BirthsSkel<'static>,
    events: Rc<RefCell<Vec<RawEvent>>>,
    lost: u64,
    throttled: u64,
    /// Set when the map of followed tasks is full.
    full: Rc<Cell<bool>>,
    symbols: Symbols,
    gaps: Vec<String>,
}

impl Ebpf {
    pub(super) fn open(interest: &Interest) -> Result<Ebpf, String> {
        // libbpf would print its errors on stderr; they are reported here instead.
        libbpf_rs::set_print(None);
        // With the error's source, which has the errno.
        let fail = |what: &'static str| move |error: libbpf_rs::Error| format!("{what}: {error:#}");
        let programs = interest.programs != Programs::None;
        // Lives until the process exits: a guard opens its event source once.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = BirthsSkelBuilder::default().open(storage).map_err(fail("the programs cannot be read"))?;
        if let Some(data) = open.maps.rodata_data.as_deref_mut() {
            data.own_tgid = std::process::id();
            data.own_namespace = super::pid_namespace().unwrap_or(0);
            data.programs = programs;
            if let Programs::Named(names) = &interest.programs
                && names.len() <= MOST_NAMES
            {
                for (slot, name) in data.names.iter_mut().zip(names) {
                    let bytes = &name.as_bytes()[..name.len().min(LONGEST_NAME)];
                    slot.length = bytes.len() as u32;
                    for (into, byte) in slot.text.iter_mut().zip(bytes) {
                        *into = *byte as i8;
                    }
                }
                data.name_count = names.len() as u32;
            }
        }
        open.progs.executed.set_autoload(programs);
        open.progs.worked.set_autoload(interest.work != WorkDetail::None);
        open.progs.moved.set_autoload(interest.groups);
        for program in [&mut open.progs.exit_setuid, &mut open.progs.exit_setreuid, &mut open.progs.exit_setresuid] {
            program.set_autoload(interest.owners);
        }
        let skeleton = open.load().map_err(fail("the kernel does not take the programs (CAP_BPF, CAP_PERFMON)"))?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let sink = events.clone();
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.events, move |bytes| {
                if bytes.len() >= size_of::<RawEvent>() {
                    // SAFETY: plain integers and arrays, any bits are valid; the length is checked.
                    let event = unsafe { bytes.as_ptr().cast::<RawEvent>().read_unaligned() };
                    sink.borrow_mut().push(event);
                }
                0
            })
            .map_err(fail("no ring buffer"))?;
        let ring = builder.build().map_err(fail("no ring buffer"))?;
        let mut gaps = Vec::new();
        let links = attach(&skeleton, interest, &mut gaps)?;
        let symbols = Symbols { names: FxHashMap::default(), wanted: interest.work == WorkDetail::Function };
        let full = Rc::new(Cell::new(false));
        Ok(Ebpf { links, ring, skeleton, events, lost: 0, throttled: 0, full, symbols, gaps })
    }
}

/// Attaches the programs. One that only adds precision may fail and becomes a gap.
fn attach(skeleton: &BirthsSkel, interest: &Interest, gaps: &mut Vec<String>) -> Result<Vec<Link>, String> {
    let programs = &skeleton.progs;
    let mut links = Vec::new();
    // The first two maintain the registry.
    let mut needed = vec![("task_newtask", &programs.born), ("sched_process_exit", &programs.ended)];
    needed.push(("task_rename", &programs.renamed));
    if interest.programs != Programs::None {
        needed.push(("sched_process_exec", &programs.executed));
    }
    if interest.work != WorkDetail::None {
        needed.push(("workqueue_execute_start", &programs.worked));
    }
    for (name, program) in needed {
        links.push(program.attach().map_err(|error| format!("{name}: {error:#}"))?);
    }
    if interest.owners {
        let of_owners = [&programs.exit_setuid, &programs.exit_setreuid, &programs.exit_setresuid];
        match of_owners.into_iter().map(|program| program.attach()).collect::<Result<Vec<_>, _>>() {
            Ok(of_owners) => links.extend(of_owners),
            Err(error) => gaps.push(format!("who changes its user without an exec is seen late: {error:#}")),
        }
    }
    if interest.groups {
        match programs.moved.attach() {
            Ok(link) => links.push(link),
            Err(error) => gaps.push(format!("who is moved to another cgroup is seen late: {error:#}")),
        }
    }
    let calls = [
        &programs.enter_sched_setattr,
        &programs.exit_sched_setattr,
        &programs.enter_sched_setscheduler,
        &programs.exit_sched_setscheduler,
        &programs.enter_sched_setparam,
        &programs.exit_sched_setparam,
        &programs.enter_sched_setaffinity,
        &programs.exit_sched_setaffinity,
        &programs.enter_setpriority,
        &programs.exit_setpriority,
    ];
    for program in calls {
        match program.attach() {
            Ok(link) => links.push(link),
            Err(error) => {
                gaps.push(format!(
                    "who changes what is not known, and seen late: no tracepoints of system calls: {error:#}"
                ));
                break;
            }
        }
    }
    Ok(links)
}

impl Source for Ebpf {
    fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring keeps the descriptor open while it lives, and the returned borrow does not outlive it.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    fn drain(&mut self, into: &mut Vec<Signal>) -> io::Result<()> {
        self.ring.consume().map_err(io::Error::other)?;
        for event in self.events.borrow_mut().drain(..) {
            into.extend(decode(&event, &mut self.symbols));
        }
        let Some(data) = self.skeleton.maps.bss_data.as_deref_mut() else { return Ok(()) };
        // The kernel writes them at any time; a missed update is read next time.
        // SAFETY: valid, aligned u64 in a map's memory.
        let (lost, throttled) =
            unsafe { ((&raw const data.lost).read_volatile(), (&raw const data.throttled).read_volatile()) };
        if self.full.get() {
            data.follow_all = true;
        }
        if lost > self.lost {
            into.push(Signal::Lost(lost - self.lost));
            self.lost = lost;
        }
        if throttled > self.throttled {
            into.push(Signal::Throttled(throttled - self.throttled));
            self.throttled = throttled;
        }
        Ok(())
    }

    fn follower(&self) -> Option<Follower> {
        let kept = MapHandle::try_from(&self.skeleton.maps.kept).ok()?;
        let full = self.full.clone();
        Some(Box::new(move |tid| {
            let tid = tid.0.to_ne_bytes();
            if kept.update(&tid, &tid, MapFlags::ANY).is_err() {
                full.set(true);
            }
        }))
    }

    fn registry(&self) -> Option<Registry> {
        let kept = self.skeleton.maps.kept.as_fd().try_clone_to_owned().ok()?;
        let links = self.links.iter().map(|link| link.as_fd().try_clone_to_owned()).collect::<io::Result<_>>().ok()?;
        Some(Registry::new(kept, links))
    }

    fn name(&self) -> SourceName {
        SourceName::Ebpf
    }

    fn gaps(&self) -> &[String] {
        &self.gaps
    }
}

fn text(field: &[i8]) -> String {
    let bytes: Vec<u8> = field.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn decode(event: &RawEvent, symbols: &mut Symbols) -> Option<Signal> {
    let tid = Tid(event.tid);
    Some(match event.kind {
        kind::BORN => {
            let kernel = u64::from(event.flags) & flag::KTHREAD != 0;
            let (tgid, creator) = (Tid(event.tgid), Some(Tid(event.by)));
            let will_execute = event.function & libc::CLONE_VFORK as u64 != 0;
            Signal::Born(Born { tid, tgid, time: event.time, kernel: Some(kernel), creator, will_execute })
        }
        kind::RENAMED => Signal::Renamed { tid, tgid: Tid(event.tgid) },
        kind::REOWNED => Signal::Reowned { tid, tgid: Tid(event.tgid) },
        kind::MOVED => Signal::Moved { tid, tgid: Tid(event.tgid) },
        kind::EXECUTED => Signal::Executed { tid, time: event.time },
        kind::WORKED => {
            let workqueue = Some(text(&event.workqueue)).filter(|name| !name.is_empty());
            Signal::Worked { tid, work: Work { workqueue, function: symbols.name(event.function) } }
        }
        kind::CHANGED => {
            let by_comm: [u8; 16] = event.by_comm.map(|c| c as u8);
            Signal::Changed { tid, by: Tid(event.by), by_comm: Comm::new(&by_comm).to_string() }
        }
        kind::ENDED => Signal::Ended { tid, ran: event.ran, cpu: event.cpu, realtime: event.prio < FIRST_FAIR },
        _ => return None,
    })
}

/// Names of kernel functions, cached.
struct Symbols {
    names: FxHashMap<u64, Option<String>>,
    wanted: bool,
}

impl Symbols {
    fn name(&mut self, address: u64) -> Option<String> {
        if !self.wanted {
            return None;
        }
        self.names.entry(address).or_insert_with(|| look_up(address)).clone()
    }
}

/// `None` also if addresses are hidden (kptr_restrict, no CAP_SYSLOG).
fn look_up(address: u64) -> Option<String> {
    let symbols = io::BufReader::with_capacity(1 << 16, fs::File::open("/proc/kallsyms").ok()?);
    let wanted = format!("{address:016x} ");
    for line in symbols.split(b'\n') {
        let line = line.ok()?;
        if line.starts_with(wanted.as_bytes()) {
            return Some(String::from_utf8_lossy(&line).split_whitespace().nth(2)?.to_owned());
        }
    }
    None
}
