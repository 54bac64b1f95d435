//! Compares keys and HMACs with an independent implementation (Python's hashlib and hmac).

use std::net::IpAddr;

use anabranch_units::DataSeq;
use anabranch_wire::crypto::{Key, add_addr_hmac, join_hmac, leftmost_64, leftmost_160, mac_eq};

#[test]
fn token_and_idsn() {
    // hashlib.sha256(key.to_bytes(8, "big")).digest(): bytes 0 to 4 and 24 to 32.
    let cases = [
        (0x0102_0304_0506_0708, 0x6684_0dda, 0xf5a1_01d3_d29d_6f72),
        (0x6b3f_9d2c_81e4_507a, 0x3234_a00a, 0xe82d_d887_5454_60d2),
    ];
    for (value, token, idsn) in cases {
        assert_eq!(Key::new(value), Key { value, token, idsn: DataSeq(idsn) });
    }
}

/// The keys and nonces are those of Linux's `net/mptcp/crypto_test.c`: the bytes are ASCII digits.
#[test]
fn join() {
    let cases: [(&[u8; 16], &[u8; 8], &str); 3] = [
        (
            b"0b0b0b0b0b0b0b0b",
            b"48692054",
            "8385e24fb4235ac37556b6b886db106284a1da671699f46db1f235ec622dcafa",
        ),
        (
            b"aaaaaaaaaaaaaaaa",
            b"dddddddd",
            "2c5e219164ff1dca1c4a92318d847bb6b9d44492984e1eb71aff9022f71046e9",
        ),
        (
            b"0102030405060708",
            b"cdcdcdcd",
            "e73b9ba9969969cefb04aa0d6df18ec2fcc075b6f23b4d8c4da736a5dbbc6e7d",
        ),
    ];
    for (keys, nonces, expected) in cases {
        let key = |at: usize| u64::from_be_bytes(keys[at..at + 8].try_into().unwrap());
        let nonce = |at: usize| u32::from_be_bytes(nonces[at..at + 4].try_into().unwrap());
        let mac = join_hmac(key(0), key(8), nonce(0), nonce(4));
        let hex = mac.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        assert_eq!(hex, expected);
        assert_eq!(format!("{:016x}", leftmost_64(&mac)), expected[..16]);
        assert_eq!(leftmost_160(&mac), mac[..20]);
        assert!(mac_eq(&mac, &mac));
        assert!(!mac_eq(&mac, &[0; 32]));
        assert!(!mac_eq(&mac, &mac[..20]));
    }
}

/// Expected values: `hmac.new(key_a + key_b, identifier + address + port, "sha256").digest()[-8:]`.
#[test]
fn add_addr() {
    let of = |address, port| {
        add_addr_hmac(0x0102_0304_0506_0708, 0x1112_1314_1516_1718, 3, address, port)
    };
    let v4 = IpAddr::from([10, 0, 2, 1]);
    let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 2]);
    assert_eq!(of(v4, None), 0x275e_0f23_1bd5_a1c0);
    assert_eq!(of(v4, Some(8080)), 0xa0ff_967d_5579_b06c);
    assert_eq!(of(v6, Some(443)), 0xe95b_6c12_d640_16c7);
}
