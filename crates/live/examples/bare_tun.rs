//! Measures a TUN device without an endpoint: packets written to the device and replies read from it.
//!
//! `bare_tun DEVICE CLIENT FROM TO PACKETS SIZE` writes PACKETS UDP datagrams of SIZE bytes, including
//! headers, to the device. They go from the address FROM to a socket at TO in the network namespace CLIENT.
//! The socket replies to every second datagram with a datagram of the size of an acknowledgement. The program
//! reads these replies. At most 256 datagrams are in flight. The output is the time until the last datagram
//! was written in seconds, and the number of datagrams that the socket received.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_live::namespace::within;
use anabranch_live::{Clock, Tun};
use anabranch_units::{Duration, Instant};

/// The UDP port of both ends.
const PORT: u16 = 5000;
/// The lengths of an IPv4 and a UDP header, bytes.
const IP: usize = 20;
const UDP: usize = 8;
/// The length of a reply in bytes: an IPv4 packet with a `DATA_ACK` and timestamps.
const ANSWER: usize = 64;
/// The largest number of datagrams in flight. It is smaller than the device's queue.
const ON_THE_WAY: u64 = 256;
/// The client stops after this time without a datagram.
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);
/// After this time without a reply, the datagrams in flight count as lost.
const LOST: Duration = Duration::from_millis(5);

/// Returns the Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// Returns a datagram of `size` bytes without a UDP checksum, which is optional over IPv4.
fn datagram(from: Ipv4Addr, to: Ipv4Addr, size: usize) -> Vec<u8> {
    let mut packet = vec![0; size];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..16].copy_from_slice(&from.octets());
    packet[16..20].copy_from_slice(&to.octets());
    let sum = checksum(&packet[..IP]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    let words = [PORT, PORT, (size - IP) as u16, 0];
    for (word, into) in words.into_iter().zip(packet[IP..IP + UDP].chunks_exact_mut(2)) {
        into.copy_from_slice(&word.to_be_bytes());
    }
    packet
}

/// Receives datagrams and replies to every second one, until none arrives for [`PATIENCE`]. Counts them in
/// `came`.
fn answer(socket: &UdpSocket, came: &AtomicU64) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; 65_536];
    while let Ok((_, from)) = socket.recv_from(&mut buffer) {
        if came.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            socket.send_to(&buffer[..ANSWER - IP - UDP], from)?;
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the client is a program of its own")]
fn run(words: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let [device, client, from, to, packets, size] = words else {
        return Err("usage: bare_tun DEVICE CLIENT FROM TO PACKETS SIZE".into());
    };
    let (from, to): (Ipv4Addr, Ipv4Addr) = (from.parse()?, to.parse()?);
    let (packets, size): (u64, usize) = (packets.parse()?, size.parse()?);
    let packet = datagram(from, to, size.max(IP + UDP));
    let mut tun = Tun::open(device, None)?;
    let namespace = PathBuf::from("/run/netns").join(client);
    let socket = within(&namespace, || UdpSocket::bind((to, PORT)))?;
    let came = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&came);
    let answering = std::thread::spawn(move || answer(&socket, &counted));

    let mut buffer = vec![0; 65_536];
    let (mut sent, mut answers) = (0, 0);
    let clock = Clock::start();
    while sent < packets {
        // Each reply acknowledges two datagrams.
        let until = clock.now() + LOST;
        while sent - answers * 2 >= ON_THE_WAY {
            answers += u64::from(tun.read(&mut buffer)?.is_some());
            if clock.now() > until {
                answers = sent / 2;
            }
        }
        tun.write(&packet)?;
        sent += 1;
    }
    let took = clock.now().since(Instant::ZERO);
    answering.join().map_err(|_| "the client failed")??;
    let came = came.load(Ordering::Relaxed);
    println!("{:.6} {came}", took.as_secs_f64());
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bare_tun: {error}");
            ExitCode::FAILURE
        }
    }
}
