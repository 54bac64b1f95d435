//! The local addresses that received SYNs. Many records share one address, so each record stores only its
//! number.

use slab::Slab;

use super::ends::Own;
use crate::endpoint::lookup::Lookup;
use crate::secrets::Keyed;

/// A local address.
#[derive(Clone, Copy, Debug)]
struct Known {
    own: Own,
    /// The number of the listener.
    listener: u32,
    /// The number of records with this address.
    records: u32,
}

/// The local addresses by number. An address is removed with its last record.
#[derive(Debug)]
pub(super) struct Locals {
    known: Slab<Known>,
    numbers: Lookup<(Own, u32), u32>,
}

impl Locals {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { known: Slab::new(), numbers: Lookup::new(keyed) }
    }

    /// Returns the number of an address and counts one more record.
    pub(super) fn add(&mut self, own: Own, listener: u32) -> u32 {
        let known = self.numbers.get(&(own, listener));
        let number = known.unwrap_or_else(|| {
            let number = self.known.insert(Known { own, listener, records: 0 }) as u32;
            self.numbers.insert((own, listener), number);
            number
        });
        if let Some(known) = self.known.get_mut(number as usize) {
            known.records += 1;
        }
        number
    }

    /// Counts one record less. Removes the address with its last record.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(known) = self.known.get_mut(number as usize) else { return };
        known.records -= 1;
        if known.records == 0 {
            let Known { own, listener, .. } = self.known.remove(number as usize);
            self.numbers.remove(&(own, listener), |_| true);
        }
    }

    /// Returns an address and its listener.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<(Own, u32)> {
        self.known.get(number as usize).map(|known| (known.own, known.listener))
    }

    /// Frees unused memory.
    pub(super) fn shrink(&mut self) {
        self.known.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use anabranch_units::Seed;

    use super::*;
    use crate::secrets::Secrets;

    #[test]
    fn an_address_is_known_as_long_as_a_record_came_to_it() {
        let secrets = Secrets::draw(&mut Seed { seed: 1, run: 0 }.stream("secrets"));
        let mut locals = Locals::new(secrets.tables);
        let own = |port| Own { ip: [0, 0xffff_0a00_0001], zone: 0, port };
        let (first, second) = (locals.add(own(80), 3), locals.add(own(443), 3));
        assert_ne!(first, second);
        assert_eq!(locals.add(own(80), 3), first, "it is kept once");
        assert_ne!(locals.add(own(80), 4), first, "another listener's is another");
        locals.remove(first);
        assert_eq!(locals.get(first), Some((own(80), 3)), "one record is left");
        locals.remove(first);
        assert_eq!(locals.get(first), None);
        assert_eq!(locals.get(second), Some((own(443), 3)));
    }
}
