//! The address ranges to which limits apply: a *source* and a *site*.
//!
//! A source is an IPv4 address or an IPv6 /64, which is the smallest range that a subscriber gets (RFC 6177).
//! A site is an IPv4 address or an IPv6 /48. A /48 contains 65,536 sources. Together they count as
//! [`SITE_SHARES`] sources.

use std::net::{IpAddr, Ipv6Addr};

/// The prefix length of a source in IPv6.
const SOURCE_BITS: u32 = 64;
/// The prefix length of a site in IPv6.
const SITE_BITS: u32 = 48;
/// An IPv6 site counts as this number of sources.
pub(super) const SITE_SHARES: u32 = 4;

/// Returns the source of an address.
pub(super) fn source(ip: IpAddr) -> IpAddr {
    prefix(ip, SOURCE_BITS)
}

/// Returns the site of an address, or of a source.
pub(super) fn site(ip: IpAddr) -> IpAddr {
    prefix(ip, SITE_BITS)
}

/// Clears all bits of an IPv6 address after the prefix. An IPv4 address is returned unchanged, and an
/// IPv4-mapped address is returned as IPv4.
fn prefix(ip: IpAddr, bits: u32) -> IpAddr {
    let IpAddr::V6(v6) = ip else { return ip };
    match v6.to_ipv4_mapped() {
        Some(v4) => v4.into(),
        None => Ipv6Addr::from_bits(v6.to_bits() >> (128 - bits) << (128 - bits)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_ipv6_address_has_a_source_of_64_bits_and_a_site_of_48() {
        let address = ip("2001:db8:1:2:3:4:5:6");
        assert_eq!(source(address), ip("2001:db8:1:2::"));
        assert_eq!(site(address), ip("2001:db8:1::"));
        assert_eq!(site(source(address)), site(address));
    }

    #[test]
    fn an_ipv4_address_is_its_own_source_and_site_in_either_spelling() {
        for spelling in ["192.0.2.1", "::ffff:192.0.2.1"] {
            assert_eq!(source(ip(spelling)), ip("192.0.2.1"));
            assert_eq!(site(ip(spelling)), ip("192.0.2.1"));
        }
    }
}
