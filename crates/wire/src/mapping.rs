//! Arithmetic of mappings: the DSS checksum, and 64-bit data sequence numbers from their low 32
//! bits.

use anabranch_units::DataSeq;

use crate::checksum::OnesComplement;

/// Returns the ones' complement sum over the pseudo-header and the data of a mapping.
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

    // The pseudo-header has an even length, so it may be added before the data.
    let mut sum = OnesComplement::default();
    sum.add(&pseudo_header);
    for piece in payload {
        sum.add(piece);
    }
    sum
}

/// Returns the DSS checksum of a mapping (RFC 8684 section 3.3.1).
///
/// The checksum covers a pseudo-header and the data. The pseudo-header consists of the 64-bit data
/// sequence number, the relative subflow sequence number, the length, and two zero bytes. The data
/// may be split in any way, and is padded to an even length.
///
/// `length` is the length of the mapping, including a `DATA_FIN`. Data in an `MP_CAPABLE` segment
/// has the data sequence number after the IDSN, and the subflow sequence number 1.
pub fn dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
) -> u16 {
    !mapping_sum(dsn, ssn, length, payload).fold()
}

/// Returns whether `checksum` is correct for the mapping (see [`dss_checksum`]).
///
/// Both representations of zero in ones' complement are correct, as in every Internet checksum.
pub fn verify_dss_checksum<'a>(
    dsn: DataSeq,
    ssn: u32,
    length: u16,
    payload: impl IntoIterator<Item = &'a [u8]>,
    checksum: u16,
) -> bool {
    let mut sum = mapping_sum(dsn, ssn, length, payload);
    // Added as a word, so that it does not complete a word of data with an odd length.
    sum.add_word(checksum);
    sum.fold() == 0xffff
}

/// Returns the 64-bit data sequence number nearest to `reference` whose low 32 bits are `short`
/// (RFC 8684 section 3.3.1).
///
/// The high 32 bits are those of `reference`. If the low 32 bits wrapped between the two numbers,
/// the high bits are one more or one less.
pub fn promote(short: u32, reference: DataSeq) -> DataSeq {
    let offset = short.wrapping_sub(reference.0 as u32) as i32;
    DataSeq(reference.0.wrapping_add_signed(i64::from(offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_by_hand() {
        // The words are: DSN 0102 + 0304 + 0506 + 0708 = 1014, SSN 0000 + 0001, length 0003, zeros
        // 0000, and the data 616263, padded to 6162 + 6300 = c462. The sum is d47a, and its
        // complement is 2b85.
        let dsn = DataSeq(0x0102_0304_0506_0708);
        assert_eq!(dss_checksum(dsn, 1, 3, [b"abc".as_slice()]), 0x2b85);
        assert!(verify_dss_checksum(dsn, 1, 3, [b"abc".as_slice()], 0x2b85));
        assert!(!verify_dss_checksum(dsn, 1, 3, [b"abd".as_slice()], 0x2b85));
    }

    #[test]
    fn checksum_carries_end_around() {
        // The DSN consists of four words of ffff and the SSN of two. In ones' complement, ffff is
        // minus zero, and so is the sum of the six words. The length adds 1, and the complement of
        // 1 is fffe.
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
        // With this data, the sum is ffff. The checksum is 0, and ffff is equivalent.
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
            // In these cases, the data sequence number itself wraps around.
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
