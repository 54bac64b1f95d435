//! A server for a Linux client over a TUN device. Each connection gets a number of bytes of the pattern, over MPTCP if
//! the client supports it. The example shows the duties of a world, as the documentation of the crates `host`,
//! `mptcp`, `wire` and `units` describes them. Run it as root:
//! ```sh
//! cargo build --release -p anabranch-live --example tun_driver
//! ip netns add client
//! ip -n client tuntap add dev tun0 mode tun
//! ip -n client address add 10.9.0.2/24 dev tun0
//! ip -n client address add 10.9.1.2/24 dev tun0
//! ip -n client link set tun0 up
//! ip -n client mptcp limits set subflows 4 add_addr_accepted 4
//! ip -n client mptcp endpoint add 10.9.1.2 dev tun0 subflow
//! ip netns exec client target/release/examples/tun_driver tun0 10.9.0.1:80 8000000 &
//! ip netns exec client mptcpize run curl --http0.9 -o /dev/null http://10.9.0.1/
//! ip netns exec client nstat -as 'MPTcpExt*'
//! kill %1; ip netns delete client
//! ```
//!
//! Only this program answers at 10.9.0.1. The client sees it as a host behind the device. Further
//! arguments are addresses that are announced to the client. It may open subflows to them.

#![expect(clippy::disallowed_methods, reason = "a real world reads a clock")]

use std::error::Error;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use anabranch_host::{Application, Bulk, Host, Next, Stream, WrongBytes};
use anabranch_mptcp::{Announcement, Config, Endpoint, FourTuple};
use anabranch_units::{Instant, Seed};
use anabranch_wire::{emit_packet, parse_packet};
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::rand::{GetRandomFlags, getrandom};
use tun_rs::{DeviceBuilder, SyncDevice};

const USAGE: &str = "usage: tun_driver DEVICE ADDRESS:PORT BYTES [ANNOUNCED ADDRESS]...";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (device, address, bytes) = (
        arguments.next().ok_or(USAGE)?,
        arguments.next().ok_or(USAGE)?.parse()?,
        arguments.next().ok_or(USAGE)?.parse()?,
    );
    let announced = arguments.map(|text| text.parse()).collect::<Result<Vec<IpAddr>, _>>()?;
    // IFF_TUN | IFF_NO_PI: packets begin with the IP header.
    let device = DeviceBuilder::new()
        .name(device)
        .with(|builder| {
            builder.packet_information(false).offload(false);
        })
        .build_sync()?;
    device.set_nonblocking(true)?;
    run(&device, server(address, bytes, &announced)?)
}

/// Sends a number of bytes and discards all data from the client, for example its request. `Bulk` does not
/// read, and a connection with unread data would never end.
struct Download(Bulk);

impl Application for Download {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while connection.read(now, usize::MAX).is_some() {}
        self.0.drive(now, connection)
    }
}

/// Returns a host that listens on an address and sends `bytes` bytes on each connection.
fn server(address: SocketAddr, bytes: u64, announced: &[IpAddr]) -> Result<Host, Box<dyn Error>> {
    // Keys and sequence numbers are derived from the seed. On a real network, it must not be predictable.
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())?;
    let mut endpoint = Endpoint::new("server", Seed { seed: u64::from_ne_bytes(random), run: 0 });
    let announcement = |(address_id, &address)| Announcement { address_id, address, port: None };
    let announce = (1..).zip(announced).map(announcement).collect();
    endpoint.listen(address, Config { announce, ..Config::default() })?;
    Ok(Host::server(endpoint, Box::new(move |_, _| Box::new(Download(Bulk::new(Some(bytes)))))))
}

/// Passes packets between the device and the host until an error occurs.
fn run(device: &SyncDevice, mut host: Host) -> Result<(), Box<dyn Error>> {
    let began = std::time::Instant::now();
    let clock = || Instant::from_nanos(began.elapsed().as_nanos() as u64);
    let (mut received, mut sent) = (vec![0; 65_536], Vec::new());
    loop {
        let now = clock();
        while host.handle_timeout(now) {}
        while let Some(transmit) = host.poll_transmit(now) {
            sent.clear();
            emit_packet(transmit.local.ip(), transmit.remote.ip(), &transmit.segment, &mut sent)?;
            // If the device does not accept the packet now, the packet is lost, as on any link.
            let _ = device.send(&sent);
        }
        free_ended(&mut host);
        wait(device, host.poll_timeout().map(|at| at.since(clock())))?;
        // Reads at most 64 packets at a time, so that timers and replies are not late.
        for _ in 0..64 {
            let length = match device.recv(&mut received) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            };
            // Packets of other protocols, such as the kernel's router solicitations, are ignored.
            if let Ok(packet) = parse_packet(&Bytes::copy_from_slice(&received[..length])) {
                let tuple = FourTuple::of_receiver(&packet);
                host.handle_segment(clock(), tuple, &packet.segment);
            }
        }
    }
}

/// Waits until a packet can be read, for at most `time`. With `None`, there is no time limit.
fn wait(device: &SyncDevice, time: Option<anabranch_units::Duration>) -> rustix::io::Result<()> {
    let time = time.map(|time| Timespec {
        tv_sec: (time.as_nanos() / 1_000_000_000) as i64,
        tv_nsec: (time.as_nanos() % 1_000_000_000) as i64,
    });
    poll(&mut [PollFd::new(device, PollFlags::IN)], time.as_ref()).map(drop)
}

/// Frees the connections that have ended. Prints the number of bytes delivered by each of their subflows.
fn free_ended(host: &mut Host) {
    let closed: Vec<_> = host
        .endpoint()
        .connections()
        .filter(|(_, connection)| connection.is_closed())
        .map(|(handle, connection)| {
            let multipath = connection.is_multipath();
            (handle, multipath, connection.view().summaries().collect::<Vec<_>>())
        })
        .collect();
    host.free_ended();
    for (handle, multipath, subflows) in closed {
        if host.endpoint().get(handle).is_some() {
            continue;
        }
        println!("over {}:", if multipath { "MPTCP" } else { "TCP" });
        for subflow in subflows {
            let (tuple, totals) = (subflow.tuple, subflow.totals);
            println!("  {} - {}: {} bytes", tuple.local, tuple.remote, totals.bytes_acked);
        }
    }
}
