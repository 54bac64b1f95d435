//! Mapping arithmetic: the DSS checksum, and 64-bit data sequence numbers from their low half.

use anabranch_units::DataSeq;

use crate::checksum::OnesComplement;

/// Returns the sum over a mapping's pseudo-header and data.
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

    // The pseudo-header consists of whole words, so it may come first instead of last.
    let mut sum = OnesComplement::default();
    sum.add(&pseudo_header);
    for piece in payload {
        sum.add(piece);
    }
    sum
}

/// Returns the DSS checksum of a mapping (RFC 8684 section 3.3.1).
///
/// It covers a pseudo-header and the data. The pseudo-header consists of the 64-bit data sequence
/// number, the relative subflow sequence number, the length and two zero bytes. The data may be
/// split in any way and is padded to an even length.
///
/// `length` is that of the mapping, including the `DATA_FIN`. Data in an `MP_CAPABLE` segment has
/// the data sequence number after the IDSN, and subflow sequence number 1.
pub fn dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> u16 {
    !mapping_sum(dsn, ssn, length, payload).fold()
}

/// Returns true if `checksum` is correct for the mapping that [`dss_checksum`] describes.
///
/// Both zeros of ones' complement are correct, as in every Internet checksum.
pub fn verify_dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
    checksum: u16,
) -> bool {
    let mut sum = mapping_sum(dsn, ssn, length, payload);
    // As a separate word: the checksum must not complete half a word of the data.
    sum.add_word(checksum);
    sum.fold() == 0xffff
}

/// Returns the 64-bit data sequence number nearest to `reference` whose low half is `short` (RFC
/// 8684 section 3.3.1).
///
/// Its upper half is that of the reference. It is one more or one less if the low half wrapped
/// between the two.
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
        // 616263 padded to 6162 + 6300 = c462. The sum is d47a, its complement 2b85.
        let dsn = DataSeq(0x0102_0304_0506_0708);
        assert_eq!(dss_checksum(dsn, 1, 3, [b"abc".as_slice()]), 0x2b85);
        assert!(verify_dss_checksum(dsn, 1, 3, [b"abc".as_slice()], 0x2b85));
        assert!(!verify_dss_checksum(dsn, 1, 3, [b"abd".as_slice()], 0x2b85));
    }

    #[test]
    fn checksum_carries_end_around() {
        // ffff + ffff + ... : the DSN has four words of ffff, the SSN two. Six times minus zero is
        // minus zero. Length 1 makes it 1, whose complement is fffe.
        assert_eq!(dss_checksum(DataSeq(u64::MAX), u32::MAX, 1, []), 0xfffe);
    }

    #[test]
    fn the_checksum_does_not_depend_on_the_split() {
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
        // The data is chosen so that the sum is ffff. The checksum is 0, and ffff is equivalent.
        let data = [0xff, 0xfd];
        assert_eq!(dss_checksum(DataSeq(0), 0, 2, [data.as_slice()]), 0);
        assert!(verify_dss_checksum(DataSeq(0), 0, 2, [data.as_slice()], 0));
        assert!(verify_dss_checksum(DataSeq(0), 0, 2, [data.as_slice()], 0xffff));
    }

    #[test]
    fn promotion_chooses_the_nearest_number() {
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
