//! What passes between threads without a wakeup: work items, and requests to block devices.
//!
//! A worker that has work does not sleep, so items that are queued meanwhile show in no wakeup. And the interrupt in which a
//! device completes a request shows who is woken, not who had issued it. Each item, and each request, is a token: who gave it, who
//! took it, how long it was under way.

use std::collections::HashMap;

use unstarve_model::{BlockRequest, CpuId, Nanos, Time};

use super::thread::Queued;
use super::{MAX_OPERATIONS, ThreadId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TokenId(u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RequestId(u32);

/// What a completion gives is given within this time in the same interrupt.
const FOLLOWS_WITHIN: Nanos = Nanos(50_000);

/// Items and requests, from who gave them to who took them.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Whether any work item was seen.
    pub has_items: bool,
    items: Vec<Token>,
    queued: HashMap<u64, Queued>,
    requests: Vec<Request>,
    under_way: HashMap<(u64, u64), RequestId>,
    completed: HashMap<CpuId, (Time, RequestId)>,
}

/// A work item that a thread queued.
#[derive(Clone, Copy, Debug)]
struct Token {
    giver: ThreadId,
    taker: Option<ThreadId>,
}

/// A request to a block device.
#[derive(Clone, Copy, Debug)]
struct Request {
    issuer: ThreadId,
    issued: Time,
    /// How long the device took; `None` while it is under way.
    delay: Option<Nanos>,
    taker: Option<ThreadId>,
    is_given: bool,
}

impl Tokens {
    /// An item is queued by a thread.
    pub fn queue(&mut self, work: u64, giver: ThreadId) -> TokenId {
        self.has_items = true;
        self.items.push(Token { giver, taker: None });
        let id = TokenId(self.items.len() as u32 - 1);
        self.queued.insert(work, Queued::ByThread(id));
        id
    }

    /// An item is queued by an interrupt on this CPU.
    pub fn queue_by_interrupt(&mut self, work: u64, cpu: CpuId, now: Time) {
        self.has_items = true;
        let how = self.completion(cpu, now).map_or(Queued::At(now), Queued::ByDevice);
        self.queued.insert(work, how);
    }

    /// A worker begins an item: how it was queued, if that was seen.
    pub fn start(&mut self, work: u64, taker: ThreadId) -> Option<Queued> {
        self.has_items = true;
        let how = self.queued.remove(&work)?;
        match how {
            Queued::ByThread(id) => self.items[id.0 as usize].taker = Some(taker),
            Queued::ByDevice(id) => self.requests[id.0 as usize].taker = Some(taker),
            Queued::At(_) => {}
        }
        Some(how)
    }

    /// A thread passes a request to a device. Requests without a sector are all alike, and are not followed.
    pub fn issue(&mut self, request: &BlockRequest, issuer: ThreadId, now: Time) -> Option<RequestId> {
        if request.sectors == 0 || self.requests.len() >= MAX_OPERATIONS {
            return None;
        }
        self.requests.push(Request { issuer, issued: now, delay: None, taker: None, is_given: false });
        let id = RequestId(self.requests.len() as u32 - 1);
        self.under_way.insert((request.device, request.sector), id);
        Some(id)
    }

    /// A device completes a request in an interrupt on this CPU.
    pub fn complete(&mut self, request: &BlockRequest, cpu: CpuId, now: Time) {
        self.completed.remove(&cpu);
        if let Some(id) = self.under_way.remove(&(request.device, request.sector)) {
            let of = &mut self.requests[id.0 as usize];
            of.delay = Some(now.since(of.issued));
            self.completed.insert(cpu, (now, id));
        }
    }

    /// A thread is woken by an interrupt on this CPU: the request that it waited for, if one was completed just before.
    pub fn wake_by_interrupt(&mut self, cpu: CpuId, now: Time, woken: ThreadId) -> Option<RequestId> {
        let id = self.completion(cpu, now)?;
        self.requests[id.0 as usize].taker = Some(woken);
        Some(id)
    }

    /// The request that was completed just before on this CPU, and has given nothing yet.
    fn completion(&mut self, cpu: CpuId, now: Time) -> Option<RequestId> {
        let (at, id) = *self.completed.get(&cpu)?;
        let of = &mut self.requests[id.0 as usize];
        let is_its = now.since(at) <= FOLLOWS_WITHIN && !of.is_given;
        of.is_given |= is_its;
        is_its.then_some(id)
    }

    /// Who takes a queued item.
    pub fn taker_of_item(&self, id: TokenId) -> Option<ThreadId> {
        self.items[id.0 as usize].taker
    }

    pub fn giver_of_item(&self, id: TokenId) -> ThreadId {
        self.items[id.0 as usize].giver
    }

    /// Who takes what a request gives, and after how long.
    pub fn taker_of_request(&self, id: RequestId) -> Option<(ThreadId, Nanos)> {
        let of = &self.requests[id.0 as usize];
        Some((of.taker?, of.delay?))
    }

    pub fn issuer_of(&self, id: RequestId) -> ThreadId {
        self.requests[id.0 as usize].issuer
    }

    /// Requests that gave something, and all that were seen.
    pub fn requests(&self) -> (usize, usize) {
        (self.requests.iter().filter(|request| request.is_given).count(), self.requests.len())
    }

    /// Items that threads queued and workers began, and all that threads queued.
    pub fn items(&self) -> (usize, usize) {
        (self.items.iter().filter(|item| item.taker.is_some()).count(), self.items.len())
    }
}
