//! Who wakes next: a binary heap of nodes by time, each node once, ties broken by node number.

use anabranch_units::Instant;

/// The heap. Nodes are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// Node numbers in heap order.
    heap: Vec<u32>,
    /// When each node wakes.
    at: Vec<Instant>,
    /// Where each node stands in the heap.
    place: Vec<u32>,
}

impl Schedule {
    /// Adds a node that sleeps; returns its number.
    pub(crate) fn add(&mut self) -> usize {
        let node = self.at.len();
        self.at.push(Instant::FAR_FUTURE);
        self.place.push(self.heap.len() as u32);
        self.heap.push(node as u32);
        node
    }

    /// The node that wakes first.
    pub(crate) fn next(&self) -> (Instant, usize) {
        let node = self.heap[0] as usize;
        (self.at[node], node)
    }

    /// Sets when a node wakes; `None` puts it to sleep.
    pub(crate) fn set(&mut self, node: usize, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::FAR_FUTURE);
        let before = std::mem::replace(&mut self.at[node], at);
        let place = self.place[node] as usize;
        if at < before {
            self.rise(place);
        } else if at > before {
            self.sink(place);
        }
    }

    /// The node will wake.
    pub(crate) fn is_set(&self, node: usize) -> bool {
        self.at[node] != Instant::FAR_FUTURE
    }

    fn key(&self, place: usize) -> (Instant, u32) {
        let node = self.heap[place];
        (self.at[node as usize], node)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.place[self.heap[a] as usize] = a as u32;
        self.place[self.heap[b] as usize] = b as u32;
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.key(parent) <= self.key(place) {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
    }

    fn sink(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.key(child) < self.key(least) {
                    least = child;
                }
            }
            if least == place {
                break;
            }
            self.swap(place, least);
            place = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_node_is_always_next(sets in proptest::collection::vec((0usize..20, 0u64..50), 1..200)) {
            let mut schedule = Schedule::default();
            for _ in 0..20 {
                schedule.add();
            }
            let mut times = [Instant::FAR_FUTURE; 20];
            for (node, at) in sets {
                let at = (at > 0).then(|| Instant::from_nanos(at));
                schedule.set(node, at);
                times[node] = at.unwrap_or(Instant::FAR_FUTURE);
                let expected = (0..20).min_by_key(|n| (times[*n], *n)).unwrap();
                prop_assert_eq!(schedule.next(), (times[expected], expected));
            }
        }
    }
}
