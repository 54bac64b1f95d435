//! Our own addresses that SYNs came to, each once: of many records that came to one, each keeps its number.

use slab::Slab;

use super::ends::Own;
use crate::endpoint::lookup::Lookup;
use crate::secrets::Keyed;

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Known {
    own: Own,
    /// Who listens there.
    listener: u32,
    /// Records that came to it.
    records: u32,
}

/// The addresses, by number. One that has no record any more is forgotten.
#[derive(Debug)]
pub(super) struct Locals {
    known: Slab<Known>,
    numbers: Lookup<(Own, u32), u32>,
}

impl Locals {
    pub(super) fn new(keyed: Keyed) -> Self {
        Self { known: Slab::new(), numbers: Lookup::new(keyed) }
    }

    /// The number of an address, which one record more came to.
    pub(super) fn enter(&mut self, own: Own, listener: u32) -> u32 {
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

    /// A record that came to it has gone.
    pub(super) fn leave(&mut self, number: u32) {
        let Some(known) = self.known.get_mut(number as usize) else { return };
        known.records -= 1;
        if known.records == 0 {
            let Known { own, listener, .. } = self.known.remove(number as usize);
            self.numbers.remove(&(own, listener), |_| true);
        }
    }

    /// The address, and who listens there.
    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<(Own, u32)> {
        self.known.get(number as usize).map(|known| (known.own, known.listener))
    }

    /// Gives back the memory behind the last of them.
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
        let (first, second) = (locals.enter(own(80), 3), locals.enter(own(443), 3));
        assert_ne!(first, second);
        assert_eq!(locals.enter(own(80), 3), first, "it is kept once");
        assert_ne!(locals.enter(own(80), 4), first, "another listener's is another");
        locals.leave(first);
        assert_eq!(locals.get(first), Some((own(80), 3)), "one record is left");
        locals.leave(first);
        assert_eq!(locals.get(first), None);
        assert_eq!(locals.get(second), Some((own(443), 3)));
    }
}
