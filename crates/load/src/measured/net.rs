//! UDP over the loopback device: causes the softirq work of a network interrupt without a network.

use std::io::{ErrorKind, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::latency::Latencies;
use super::pacing::{compute_for, sleep_until};
use super::{Doing, LoadError};
use crate::metric::{self, Better};

/// How long a lost packet may delay a load.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(500);

fn connected(port: u16) -> Result<UdpSocket, LoadError> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).doing("bind a UDP socket")?;
    socket.connect((Ipv4Addr::LOCALHOST, port)).doing("connect a UDP socket")?;
    Ok(socket)
}

/// Whether an error of a UDP call only means that nothing came, or that the other side is not there (yet).
fn is_silence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused | ErrorKind::Interrupted)
}

/// Round trips to an echo, one at a time, `gap_us` apart.
pub(super) fn ping(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (port, gap) = (arguments.port(7000)?, arguments.micros("gap_us", 500)?);
    let (length, seed) = arguments.done()?;
    let socket = connected(port)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).doing("limit the wait for packets")?;
    let mut latencies = Latencies::with_room((length.as_micros() / gap.as_micros().max(1)) as usize + 1024);
    let mut lost = 0u64;
    let mut packet = [0u8; 64];
    let end = Instant::now() + length;
    sleep_until(Instant::now() + Duration::from_micros(crate::seed::mix(seed) % 1_000));
    let mut number = 0u64;
    while Instant::now() < end {
        number += 1;
        packet[..8].copy_from_slice(&number.to_le_bytes());
        let sent = Instant::now();
        match round_trip(&socket, &mut packet, number) {
            Ok(()) => latencies.record(sent.elapsed()),
            Err(error) if is_silence(error.kind()) => {
                lost += 1;
                sleep_until(Instant::now() + Duration::from_millis(1));
            }
            Err(error) => return Err(error).doing("ping"),
        }
        sleep_until(Instant::now() + gap);
    }
    latencies.write(out).doing("write")?;
    writeln!(out, "{}", metric::line("lost", lost, "1", Better::Lower)).doing("write")
}

/// Sends a packet and waits for the reply with its number, so that a late reply is not taken for the next.
fn round_trip(socket: &UdpSocket, packet: &mut [u8; 64], number: u64) -> std::io::Result<()> {
    socket.send(packet)?;
    loop {
        socket.recv(packet)?;
        if packet[..8] == number.to_le_bytes() {
            return Ok(());
        }
    }
}

/// Sends every packet back to its sender, after `work_us` of computing.
pub(super) fn echo(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (port, work) = (arguments.port(7000)?, arguments.micros("work_us", 0)?);
    let (length, _) = arguments.done()?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).doing("bind a UDP socket")?;
    socket.set_read_timeout(Some(Duration::from_millis(100))).doing("limit the wait for packets")?;
    let end = Instant::now() + length;
    let mut packet = [0u8; 2048];
    let mut packets = 0u64;
    while Instant::now() < end {
        match socket.recv_from(&mut packet) {
            Ok((length, from)) => {
                packets += 1;
                if !work.is_zero() {
                    compute_for(work);
                }
                // The sender may be gone, or its buffer full: packets may be lost.
                let _ = socket.send_to(&packet[..length], from);
            }
            Err(error) if is_silence(error.kind()) => {}
            Err(error) => return Err(error).doing("echo"),
        }
    }
    writeln!(out, "{}", metric::line("packets", packets, "1", Better::Neither)).doing("write")
}

/// Sends bursts of packets that nobody waits for.
pub(super) fn flood(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let (port, burst) = (arguments.port(7001)?, arguments.number("burst", 64, 1..=100_000)?);
    let (gap, bytes) = (arguments.micros("gap_us", 200)?, arguments.number("bytes", 512, 1..=1_400)?);
    let (length, seed) = arguments.done()?;
    let socket = connected(port)?;
    socket.set_nonblocking(true).doing("make a socket non-blocking")?;
    let packet = [0u8; 1_400];
    let packet = &packet[..bytes as usize];
    let end = Instant::now() + length;
    sleep_until(Instant::now() + Duration::from_micros(crate::seed::mix(seed) % 1_000));
    let mut sent = 0u64;
    while Instant::now() < end {
        for _ in 0..burst {
            match socket.send(packet) {
                Ok(_) => sent += 1,
                Err(error) if is_silence(error.kind()) => {}
                Err(error) => return Err(error).doing("flood"),
            }
        }
        sleep_until(Instant::now() + gap);
    }
    writeln!(out, "{}", metric::line("sent", sent, "1", Better::Neither)).doing("write")
}
