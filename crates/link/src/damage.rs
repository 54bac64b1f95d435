//! The change of a corrupted packet that no checksum detects.

use std::num::NonZeroU32;

use anabranch_units::RandomStream;

/// A change of one byte of a payload. The link draws the change but does not have the payload, so the caller
/// [applies](Self::apply) it.
///
/// The lowest eight bits are the mask of inverted bits, which is not zero. The other bits determine the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(NonZeroU32);

impl Damage {
    pub(crate) fn draw(luck: &mut RandomStream) -> Self {
        let (place, bits) = (luck.below(1 << 24) as u32, 1 + luck.below(255) as u32);
        Self(NonZeroU32::MIN.saturating_add((place << 8 | bits) - 1))
    }

    /// Inverts bits of one byte of `payload`. The byte depends only on this value and the length. Returns false if
    /// `payload` is empty.
    pub fn apply(self, payload: &mut [u8]) -> bool {
        let word = self.0.get();
        let Some(place) = ((word >> 8) as usize).checked_rem(payload.len()) else { return false };
        payload[place] ^= word as u8;
        true
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;

    #[test]
    fn damage_changes_one_byte_anywhere() {
        let mut luck = Seed { seed: 1, run: 0 }.stream("damage");
        let mut places = [0; 8];
        for _ in 0..8000 {
            let damage = Damage::draw(&mut luck);
            let (mut payload, mut again) = ([7; 8], [7; 8]);
            assert!(damage.apply(&mut payload) && damage.apply(&mut again));
            assert_eq!(payload, again);
            let changed: Vec<usize> = (0..8).filter(|&place| payload[place] != 7).collect();
            assert_eq!(changed.len(), 1);
            places[changed[0]] += 1;
            assert!(!damage.apply(&mut []), "there is nothing to change");
        }
        // 1,000 changes are expected for each byte, with a standard deviation of 30.
        assert!(places.iter().all(|&count| (880..1120).contains(&count)), "{places:?}");
    }
}
