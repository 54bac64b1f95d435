//! The addresses and ports of a plan's hosts. They are the same in simulation and with real packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::plan::{ApplicationKind, Family};

/// The server's port for HTTP.
pub const HTTP_PORT: u16 = 80;
/// The server's port for data without an application protocol.
pub const DATA_PORT: u16 = 9999;
/// The server's host number in every network.
const SERVER_HOST: u32 = 1;
/// The host number of a path's router, which sends ICMP for packets that are too large.
const ROUTER_HOST: u32 = 254;
/// The host number of client 0, so clients' addresses start at .1.1.
const FIRST_HOST: u32 = 257;
/// The port of each client's first connection.
const CLIENT_PORT: u16 = 40_000;
/// The network index of the hosts of cross traffic. All paths have smaller indexes.
const CROSS_NETWORK: usize = 99;

/// The unique local prefix of every IPv6 network (RFC 4193 section 3.1).
const IPV6_PREFIX: u16 = 0xfd00;

/// Returns the server's port for an application.
pub const fn served_at(kind: ApplicationKind) -> u16 {
    if kind.is_http() { HTTP_PORT } else { DATA_PORT }
}

/// Returns the address for listening at every address of a family.
pub fn anywhere(family: Family, port: u16) -> SocketAddr {
    match family {
        Family::Ipv4 => (Ipv4Addr::UNSPECIFIED, port).into(),
        Family::Ipv6 => (Ipv6Addr::UNSPECIFIED, port).into(),
    }
}

/// Returns the address of a host in a network: 10.1.0.1 or `fd00:0:0:1::1` for host 1 in network 0.
fn host_address(family: Family, network: usize, host: u32) -> IpAddr {
    let network = network as u8 + 1;
    match family {
        Family::Ipv4 => Ipv4Addr::new(10, network, (host >> 8) as u8, host as u8).into(),
        Family::Ipv6 => {
            let [high, low] = [(host >> 16) as u16, host as u16];
            Ipv6Addr::new(IPV6_PREFIX, 0, 0, network.into(), 0, 0, high, low).into()
        }
    }
}

/// Returns the server's address on a path.
pub fn server_address(family: Family, path: usize, port: u16) -> SocketAddr {
    SocketAddr::new(host_address(family, path, SERVER_HOST), port)
}

/// Returns the address of a path's router.
pub fn router_address(family: Family, path: usize) -> IpAddr {
    host_address(family, path, ROUTER_HOST)
}

/// Returns a client's address on a path for its connection number `connection`.
pub fn client_address(family: Family, path: usize, client: u32, connection: u16) -> SocketAddr {
    SocketAddr::new(host_address(family, path, client + FIRST_HOST), CLIENT_PORT + connection)
}

/// Returns the addresses of a cross-traffic flow: server and client. Each flow has its own client.
pub fn cross_addresses(family: Family, flow: u32) -> (SocketAddr, SocketAddr) {
    let server = server_address(family, CROSS_NETWORK, DATA_PORT);
    (server, client_address(family, CROSS_NETWORK, flow, 0))
}

/// Returns the path index and the client number of a client's address.
pub fn locate(address: SocketAddr) -> (u8, u32) {
    let (network, host) = match address.ip() {
        IpAddr::V4(ip) => {
            let [_, network, high, low] = ip.octets();
            (network, u32::from(high) << 8 | u32::from(low))
        }
        IpAddr::V6(ip) => {
            let [_, _, _, network, .., high, low] = ip.segments();
            (network as u8, u32::from(high) << 16 | u32::from(low))
        }
    };
    (network - 1, host - FIRST_HOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_contains_its_path_and_client_in_both_families() {
        for family in [Family::Ipv4, Family::Ipv6] {
            for (path, client) in [(0, 0), (7, 9999), (3, 254), (1, 255)] {
                let address = client_address(family, path, client, 5);
                assert_eq!(address.is_ipv6(), family == Family::Ipv6);
                assert_eq!((locate(address), address.port()), ((path as u8, client), 40_005));
                assert_ne!(address.ip(), server_address(family, path, 80).ip());
                assert_ne!(address.ip(), router_address(family, path));
            }
        }
        let text = |address: SocketAddr| address.to_string();
        assert_eq!(text(server_address(Family::Ipv4, 1, 80)), "10.2.0.1:80");
        assert_eq!(text(client_address(Family::Ipv4, 1, 0, 0)), "10.2.1.1:40000");
        assert_eq!(text(server_address(Family::Ipv6, 1, 80)), "[fd00:0:0:2::1]:80");
        assert_eq!(text(client_address(Family::Ipv6, 1, 0, 0)), "[fd00:0:0:2::101]:40000");
    }
}
