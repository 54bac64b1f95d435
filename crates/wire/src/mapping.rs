//! Arithmetic on mappings: the DSS checksum, and data sequence numbers from their low half.

use anabranch_units::DataSeq;

use crate::checksum::OnesComplement;

/// The folded sum of a mapping's data and pseudo-header.
fn mapping_sum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> OnesComplement {
    let mut pseudo_header = [0; 16];
    pseudo_header[..8].copy_from_slice(&dsn.0.to_be_bytes());
    pseudo_header[8..12].copy_from_slice(&ssn.to_be_bytes());
    pseudo_header[12..14].copy_from_slice(&length.to_be_bytes());

    // The pseudo-header is whole words, so that it can go before the data and not behind.
    let mut sum = OnesComplement::default();
    sum.add(&pseudo_header);
    for piece in payload {
        sum.add(piece);
    }
    sum
}

/// The DSS checksum of a mapping (RFC 8684 section 3.3.1): over the pseudo-header of 64-bit data
/// sequence number, relative subflow sequence number, length and two zero bytes, and the data,
/// which comes in any pieces and is padded to an even length.
///
/// `length` is the one in the mapping, with the `DATA_FIN`. Data that rides an `MP_CAPABLE` has the
/// data sequence number after the IDSN and subflow sequence number 1.
pub fn dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> u16 {
    !mapping_sum(dsn, ssn, length, payload).fold()
}

/// True when `checksum` fits the mapping that [`dss_checksum`] describes.
///
/// Both zeros of ones' complement are good, as in every Internet checksum.
pub fn verify_dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
    checksum: u16,
) -> bool {
    let mut sum = mapping_sum(dsn, ssn, length, payload);
    // Past any half word: the checksum is no part of the data that this would complete.
    sum.add_word(checksum);
    sum.fold() == 0xffff
}

/// The 64-bit data sequence number nearest to `reference` whose low half is `short` (RFC 8684
/// section 3.3.1): the upper half is the reference's, or one more or less where the low half
/// wrapped between the two.
pub fn promote(short: u32, reference: DataSeq) -> DataSeq {
    let offset = short.wrapping_sub(reference.0 as u32) as i32;
    DataSeq(reference.0.wrapping_add_signed(i64::from(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_by_hand() {
        // DSN 0102 + 0304 + 0506 + 0708 = 1014, SSN 0000 + 0001, length 0003, zero 0000, data
        // 616263 padded to 6162 + 6300 = c462: the sum is d47a, the complement 2b85.
        let dsn = DataSeq(0x0102_0304_0506_0708);
        assert_eq!(dss_checksum(dsn, 1, 3, [b"abc".as_slice()]), 0x2b85);
        assert!(verify_dss_checksum(dsn, 1, 3, [b"abc".as_slice()], 0x2b85));
        assert!(!verify_dss_checksum(dsn, 1, 3, [b"abd".as_slice()], 0x2b85));
    }

    #[test]
    fn checksum_carries_end_around() {
        // ffff + ffff + ... : dsn is four words of ffff, ssn two: six times minus zero is minus
        // zero; length 1 brings it to 1, whose complement is fffe.
        assert_eq!(dss_checksum(DataSeq(u64::MAX), u32::MAX, 1, []), 0xfffe);
    }

    #[test]
    fn pieces_do_not_matter() {
        let data: Vec<u8> = (0..=255).collect();
        let whole = dss_checksum(DataSeq(7), 9, 256, [data.as_slice()]);
        for size in 1..20 {
            assert_eq!(
                dss_checksum(DataSeq(7), 9, 256, data.chunks(size)),
                whole,
                "pieces of {size}"
            );
        }
        let empties = [&data[..1], &[], &data[1..2], &[], &data[2..]];
        assert_eq!(dss_checksum(DataSeq(7), 9, 256, empties), whole);
    }

    #[test]
    fn both_zeros_verify() {
        // The data brings the sum to ffff: the checksum is 0, and ffff says the same.
        let data = [0xff, 0xfd];
        assert_eq!(dss_checksum(DataSeq(0), 0, 2, [data.as_slice()]), 0);
        assert!(verify_dss_checksum(DataSeq(0), 0, 2, [data.as_slice()], 0));
        assert!(verify_dss_checksum(DataSeq(0), 0, 2, [data.as_slice()], 0xffff));
    }

    #[test]
    fn promotion_takes_the_nearest() {
        let cases = [
            (0x0000_0010, 0x5_0000_0000, 0x5_0000_0010),
            (0xffff_fff0, 0x5_0000_0000, 0x4_ffff_fff0),
            (0x0000_0010, 0x5_ffff_ff00, 0x6_0000_0010),
            (0xffff_ff00, 0x5_ffff_ff00, 0x5_ffff_ff00),
            (0x7fff_ffff, 0x5_0000_0000, 0x5_7fff_ffff),
            (0x8000_0001, 0x5_0000_0000, 0x4_8000_0001),
            // Data sequence numbers wrap too.
            (0xffff_ffff, 0, u64::MAX),
            (0, u64::MAX, 0),
        ];
        for (short, reference, expected) in cases {
            assert_eq!(
                promote(short, DataSeq(reference)),
                DataSeq(expected),
                "{short:x} {reference:x}"
            );
        }
    }
}
