//! A stream of small packets over one TCP connection, as `netperf -t TCP_STREAM -- -m 64 -D` sends it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::pacing::sleep_until;
use super::{Doing, LoadError, switches};
use crate::metric::{self, Better};

/// The counts of one side.
struct Side {
    operations: u64,
    involuntary: Option<u64>,
}

/// `netperf` writes packets of `bytes` to `netserver`, which reads whatever has arrived.
pub(super) fn stream(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (port, bytes) = (arguments.port(7100)?, arguments.number("bytes", 64, 1..=65_536)?);
    let (length, seed) = arguments.done()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).doing("listen")?;
    let near = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).doing("connect")?;
    let (far, _) = listener.accept().doing("accept")?;
    near.set_nodelay(true).doing("turn Nagle's algorithm off")?;
    // Neither side may hang if the other one ends early.
    near.set_write_timeout(Some(Duration::from_millis(500))).doing("limit writes")?;
    far.set_read_timeout(Some(Duration::from_millis(500))).doing("limit reads")?;
    sleep_until(Instant::now() + Duration::from_micros(crate::seed::mix(seed) % 1_000));
    let end = Instant::now() + length;
    let (sender, receiver) = thread::scope(|scope| {
        let start = |name: &str| thread::Builder::new().name(name.to_owned());
        let receiver = start("netserver").spawn_scoped(scope, move || receive(far, end)).doing("start a thread")?;
        let sender =
            start("netperf").spawn_scoped(scope, move || send(near, bytes as usize, end)).doing("start a thread")?;
        let panicked = |_| std::io::Error::other("a thread panicked");
        let sender = sender.join().map_err(panicked).doing("send")?;
        Ok::<_, LoadError>((sender, receiver.join().map_err(panicked).doing("receive")?))
    })?;
    let seconds = length.as_secs_f64();
    let rate =
        |name, count: u64, better| metric::line(name, format_args!("{:.1}", count as f64 / seconds), "1/s", better);
    writeln!(out, "{}", rate("packets", sender.operations, Better::Higher)).doing("write")?;
    writeln!(out, "{}", rate("reads", receiver.operations, Better::Neither)).doing("write")?;
    if let (Some(sender), Some(receiver)) = (sender.involuntary, receiver.involuntary) {
        writeln!(out, "{}", rate("involuntary", sender + receiver, Better::Lower)).doing("write")?;
    }
    Ok(())
}

fn send(mut stream: TcpStream, bytes: usize, end: Instant) -> Side {
    let packet = vec![0u8; bytes];
    let mut operations = 0;
    while Instant::now() < end && stream.write_all(&packet).is_ok() {
        operations += 1;
    }
    Side { operations, involuntary: switches::involuntary() }
}

fn receive(mut stream: TcpStream, end: Instant) -> Side {
    let mut buffer = [0u8; 65_536];
    let mut operations = 0;
    while Instant::now() < end {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(_) => operations += 1,
        }
    }
    Side { operations, involuntary: switches::involuntary() }
}
