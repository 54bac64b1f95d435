//! A schedule of nodes, which finds the node with the earliest wake-up time. Nodes with equal times are
//! ordered by number.
//!
//! Up to eight nodes are searched linearly. More nodes form a winner tree. If a time is set, the comparisons
//! are repeated from the node's leaf towards the root, up to the first one whose result does not change.

use crate::Instant;

/// The largest number of nodes that are searched linearly. Times are set more often than the first one is
/// read. For so few nodes, a search is therefore cheaper than updating a tree.
const FEW: usize = 8;

/// The nodes and their wake-up times. Nodes are numbered from 0.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The wake-up time of each node. It is padded with `FAR_FUTURE` to the number of leaves, or to `FEW`
    /// without a tree.
    at: Vec<Instant>,
    /// The winner of each comparison. The root is at index 1, and the second half contains the leaves, one
    /// per node. Empty without a tree.
    winner: Vec<u32>,
    nodes: usize,
}

impl Schedule {
    /// Adds a node without a wake-up time and returns its number.
    pub fn add(&mut self) -> usize {
        let node = self.nodes;
        self.nodes += 1;
        if self.nodes > self.at.len() {
            let leaves = self.nodes.next_power_of_two().max(FEW);
            self.at.resize(leaves, Instant::FAR_FUTURE);
            if leaves == FEW {
                return node;
            }
            self.winner = vec![0; leaves];
            self.winner.extend(0..leaves as u32);
            for place in (1..leaves).rev() {
                self.winner[place] = self.play(place);
            }
        }
        node
    }

    /// Returns the earliest wake-up time and its node. The time is `FAR_FUTURE` if no node has one.
    ///
    /// # Panics
    /// Panics if there is no node.
    #[inline]
    pub fn first(&self) -> (Instant, usize) {
        if let Some(champion) = self.winner.get(1) {
            let node = *champion as usize;
            return (self.at[node], node);
        }
        // The length is fixed, so the compiler can unroll the loops: first the minimum, then its index.
        let few: &[Instant; FEW] = self.at.first_chunk().expect("a node");
        let first = few.iter().fold(few[0], |first, at| first.min(*at));
        (first, few.iter().position(|at| *at == first).unwrap_or(0))
    }

    /// Sets a node's wake-up time; `None` removes it.
    // A run of 20 MB calls it 92,503 times.
    #[inline(always)]
    pub fn set(&mut self, node: usize, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::FAR_FUTURE);
        if std::mem::replace(&mut self.at[node], at) == at || self.winner.is_empty() {
            return;
        }
        self.replay(node, at);
    }

    /// Repeats the comparisons from a node's leaf to the root.
    fn replay(&mut self, node: usize, at: Instant) {
        let mut place = self.at.len() + node;
        let (mut champion, mut champion_at) = (node as u32, at);
        while place > 1 {
            let rival = self.winner[place ^ 1];
            let rival_at = self.at[rival as usize];
            if rival_at < champion_at || (rival_at == champion_at && rival < champion) {
                (champion, champion_at) = (rival, rival_at);
            }
            place /= 2;
            let before = std::mem::replace(&mut self.winner[place], champion);
            // If the winner here is still the same other node, the comparisons above it do not
            // change either.
            if before == champion && champion != node as u32 {
                break;
            }
        }
    }

    /// Returns a node's wake-up time; `FAR_FUTURE` if it has none.
    pub fn at(&self, node: usize) -> Instant {
        self.at[node]
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Returns whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Removes the nodes with this number and higher numbers, and frees their memory.
    pub fn truncate(&mut self, nodes: usize) {
        if nodes >= self.nodes {
            return;
        }
        let mut smaller = Self::default();
        for node in 0..nodes {
            smaller.add();
            smaller.set(node, Some(self.at[node]));
        }
        *self = smaller;
    }

    /// Returns whether the node has a wake-up time.
    pub fn is_set(&self, node: usize) -> bool {
        self.at[node] != Instant::FAR_FUTURE
    }

    /// Returns the winner of the comparison at an index. If both times are equal, the left node wins, which
    /// has the lower number.
    fn play(&self, place: usize) -> u32 {
        let (left, right) = (self.winner[2 * place], self.winner[2 * place + 1]);
        if self.at[right as usize] < self.at[left as usize] { right } else { left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_node_is_always_first(
            nodes in 10usize..40,
            sets in proptest::collection::vec((0usize..40, 0u64..50), 1..200),
        ) {
            let mut schedule = Schedule::default();
            let mut times = Vec::new();
            for (node, at) in sets {
                // Nodes are added while others are set, so that both search methods are tested.
                if times.len() < nodes {
                    prop_assert_eq!(schedule.add(), times.len());
                    times.push(Instant::FAR_FUTURE);
                }
                let node = node % times.len();
                let at = (at > 0).then(|| Instant::from_nanos(at));
                schedule.set(node, at);
                times[node] = at.unwrap_or(Instant::FAR_FUTURE);
                let expected = (0..times.len()).min_by_key(|n| (times[*n], *n)).unwrap();
                prop_assert_eq!(schedule.first(), (times[expected], expected));
            }
            // After the nodes from number 10 on are removed, the earliest of the other nodes is first.
            schedule.truncate(10);
            let left = times.len().min(10);
            let expected = (0..left).min_by_key(|n| (times[*n], *n)).unwrap();
            prop_assert_eq!(schedule.first(), (times[expected], expected));
            prop_assert_eq!(schedule.len(), left);
        }
    }
}
