//! The header of the PROXY protocol, version 2, which passes the client's address to the origin.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

/// The signature at the start of every header (section 2.2 of the specification).
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, with the command PROXY.
const COMMAND: u8 = 0x21;
/// The address families: TCP over IPv4, and TCP over IPv6.
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;

/// Returns the header for a connection from `client` to `local`. Both addresses have the same family.
pub(super) fn header(client: SocketAddr, local: SocketAddr) -> Bytes {
    let mut addresses = Vec::with_capacity(36);
    let mut family = TCP4;
    for end in [client, local] {
        match end.ip() {
            IpAddr::V4(ip) => addresses.extend(ip.octets()),
            IpAddr::V6(ip) => {
                family = TCP6;
                addresses.extend(ip.octets());
            }
        }
    }
    for end in [client, local] {
        addresses.extend(end.port().to_be_bytes());
    }
    let mut header = SIGNATURE.to_vec();
    header.extend([COMMAND, family]);
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_match_the_specification() {
        let header = |client: &str, local: &str| {
            header(client.parse().expect("an address"), local.parse().expect("an address"))
        };
        let v4 = header("192.0.2.7:4660", "198.51.100.1:443");
        assert_eq!(&v4[..12], b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a");
        assert_eq!(&v4[12..16], &[0x21, 0x11, 0, 12]);
        assert_eq!(&v4[16..], &[192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x34, 0x01, 0xbb]);
        let v6 = header("[2001:db8::1]:1", "[2001:db8::2]:2");
        assert_eq!((v6.len(), &v6[12..16]), (52, &[0x21, 0x21, 0, 36][..]));
        assert_eq!((v6[31], v6[47], &v6[48..]), (1, 2, &[0, 1, 0, 2][..]));
    }
}
