//! Who is connected. Until a connection has shown the token it is a stranger's: there are only so many of these, and only for so long. Who has shown it is not limited.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tonic::transport::server::Connected;

/// So many connections may be strangers' at once. One more ends one of whom has the most, so that a flood from one machine mostly ends its own.
const MOST: usize = 64;
/// For so long a connection may be a stranger's: TLS and the first request take a few milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// So often a stranger is told that his token is none, before his connection ends.
const ANSWERS: u32 = 16;
/// How long is waited after a connection could not be accepted, at first and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The strangers at a port.
#[derive(Debug, Default)]
pub struct Hall {
    strangers: Mutex<Strangers>,
}

#[derive(Debug, Default)]
struct Strangers {
    next: u64,
    /// In the order in which they came. What is dropped here ends a connection.
    open: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
}

impl Hall {
    fn strangers(&self) -> MutexGuard<'_, Strangers> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets somebody in, as a stranger.
    fn enter(self: &Arc<Self>, peer: IpAddr) -> (Pass, oneshot::Receiver<()>) {
        let mut strangers = self.strangers();
        if strangers.open.len() >= MOST {
            strangers.end_one();
        }
        let (sender, ended) = oneshot::channel();
        let number = strangers.next;
        strangers.next += 1;
        strangers.open.insert(number, (machine(peer), sender));
        let known =
            Known { hall: Arc::clone(self), number, is_known: AtomicBool::new(false), refused: AtomicU32::new(0) };
        (Pass(Arc::new(known)), ended)
    }
}

impl Strangers {
    /// Ends a connection of whom has the most, whichever: who connects without a pause could foresee the oldest to be somebody's who is about to show the token.
    fn end_one(&mut self) {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (peer, _) in self.open.values() {
            *counts.entry(*peer).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let has_most = |peer: &IpAddr| counts.get(peer).copied() == most;
        let candidates: Vec<u64> =
            self.open.iter().filter(|(_, (peer, _))| has_most(peer)).map(|(number, _)| *number).collect();
        let any = RandomState::new().hash_one(self.next);
        let chosen = any.checked_rem(candidates.len() as u64).and_then(|at| candidates.get(at as usize));
        chosen.and_then(|number| self.open.remove(number));
    }
}

/// Whose an address is: a machine has as many of IPv6 as it likes.
fn machine(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// Whose a connection is. Each request that comes by it has it.
#[derive(Clone, Debug)]
pub struct Pass(Arc<Known>);

#[derive(Debug)]
struct Known {
    hall: Arc<Hall>,
    number: u64,
    is_known: AtomicBool,
    refused: AtomicU32,
}

impl Pass {
    /// He has shown the token.
    pub fn know(&self) {
        if !self.0.is_known.swap(true, Ordering::AcqRel) {
            self.0.hall.strangers().open.remove(&self.0.number);
        }
    }

    /// He was refused.
    pub fn refuse(&self) {
        if !self.is_known() && self.0.refused.fetch_add(1, Ordering::AcqRel) + 1 >= ANSWERS {
            self.0.hall.strangers().open.remove(&self.0.number);
        }
    }

    fn is_known(&self) -> bool {
        self.0.is_known.load(Ordering::Acquire)
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        self.hall.strangers().open.remove(&self.number);
    }
}

/// A connection.
pub struct Guest {
    stream: TcpStream,
    pass: Pass,
    /// The end of a stranger; `None` once it has come.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Guest {
    fn new(stream: TcpStream, peer: IpAddr, hall: &Arc<Hall>, patience: Duration) -> Guest {
        let (pass, ended) = hall.enter(peer);
        let end = async move {
            let _ = tokio::time::timeout(patience, ended).await;
        };
        Guest { stream, pass, end: Some(Box::pin(end)) }
    }

    /// An error once a stranger has to go.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.pass.is_known() || self.end.as_mut().is_some_and(|end| end.as_mut().poll(context).is_pending()) {
            return Ok(());
        }
        self.end = None;
        // Who becomes known leaves the strangers just then.
        if self.pass.is_known() { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
    }
}

impl Connected for Guest {
    type ConnectInfo = Pass;

    fn connect_info(&self) -> Pass {
        self.pass.clone()
    }
}

impl AsyncRead for Guest {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Guest {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Who comes to a port, one after another. It does not end, and gives no error: what could not be accepted is tried again, at first soon and then each second.
pub struct Guests {
    listener: TcpListener,
    hall: Arc<Hall>,
    patience: Duration,
    pause: Duration,
    waiting: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Guests {
    /// Those of a port.
    pub fn at(listener: TcpListener) -> Guests {
        Guests { listener, hall: Arc::default(), patience: PATIENCE, pause: PAUSE.0, waiting: None }
    }
}

impl Stream for Guests {
    type Item = io::Result<Guest>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    self.pause = PAUSE.0;
                    // As other servers do: without it rows are only later.
                    let _ = stream.set_nodelay(true);
                    return Poll::Ready(Some(Ok(Guest::new(stream, peer.ip(), &self.hall, self.patience))));
                }
                // Mostly there are no descriptors: one that a stranger has is better used.
                Err(_) => {
                    self.hall.strangers().end_one();
                    self.waiting = Some(Box::pin(tokio::time::sleep(self.pause)));
                    self.pause = (self.pause * 2).min(PAUSE.1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(hall: &Hall) -> usize {
        hall.strangers().open.len()
    }

    #[test]
    fn a_flood_ends_its_own_connections_and_nobody_elses() {
        let hall = Arc::new(Hall::default());
        let enter = |peer: &str| hall.enter(peer.parse().expect("an address"));
        let (quiet, mut ended) = enter("10.0.0.1");
        let flood: Vec<_> = (0..1000).map(|at| enter(&format!("2001:db8::{at:x}"))).collect();
        assert_eq!(count(&hall), MOST);
        let latest = hall.strangers().next - MOST as u64;
        assert!(
            hall.strangers().open.keys().any(|number| (1..latest).contains(number)),
            "not the oldest goes each time"
        );
        assert!(ended.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty), "he is still there");
        // Who is known is not counted, and lets others in.
        let open: Vec<u64> = hall.strangers().open.keys().copied().collect();
        let there = flood.iter().filter(|(pass, _)| open.contains(&pass.0.number));
        there.take(10).for_each(|(pass, _)| pass.know());
        assert_eq!(count(&hall), MOST - 10);
        drop(flood);
        assert_eq!(count(&hall), 1);
        for _ in 0..ANSWERS {
            assert_eq!(count(&hall), 1);
            quiet.refuse();
        }
        assert_eq!(count(&hall), 0, "told often enough");
    }

    async fn read(guest: &mut Guest) -> io::Result<()> {
        let mut byte = [0];
        std::future::poll_fn(|context| Pin::new(&mut *guest).poll_read(context, &mut ReadBuf::new(&mut byte))).await
    }

    #[tokio::test]
    async fn a_stranger_goes_after_a_while_and_who_is_known_stays() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut guests = Guests { patience: Duration::from_millis(100), ..Guests::at(listener) };
        let mut come = async || {
            let far = TcpStream::connect(address).await.expect("it listens");
            let near = futures::StreamExt::next(&mut guests).await.expect("endless").expect("no error");
            (far, near)
        };
        let (_far, mut stranger) = come().await;
        let (_also, mut known) = come().await;
        known.pass.know();
        assert_eq!(read(&mut stranger).await.expect_err("he has to go").kind(), io::ErrorKind::TimedOut);
        let waited = tokio::time::timeout(Duration::from_millis(300), read(&mut known)).await;
        assert!(waited.is_err(), "nothing is said, nothing ends: {waited:?}");
    }
}
