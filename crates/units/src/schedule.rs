//! Who wakes next of some nodes, ties broken by node number: a few are looked through when that is asked, over
//! more there is a winner tree.
//!
//! Setting a time replays the matches from that leaf to the root and stops where nothing changes.

use crate::Instant;

/// The most nodes that are searched one by one; more get a tree. With so few a search takes less time than a tree's
/// upkeep, as times are set more often than the first is asked for.
const FEW: usize = 8;

/// The nodes. They are numbered from 0; without any, nobody wakes.
#[derive(Debug, Default)]
pub struct Schedule {
    /// When each node wakes, and behind them sleepers: as many as the tree has leaves, `FEW` without one.
    at: Vec<Instant>,
    /// The winner of each match; the root stands at 1. The second half are the leaves: the nodes. Empty while
    /// they are few.
    winner: Vec<u32>,
    nodes: usize,
}

impl Schedule {
    /// Adds a node that sleeps; returns its number.
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

    /// The node that wakes first; at `FAR_FUTURE` when all sleep.
    ///
    /// # Panics
    /// There is no node.
    #[inline]
    pub fn first(&self) -> (Instant, usize) {
        if let Some(champion) = self.winner.get(1) {
            let node = *champion as usize;
            return (self.at[node], node);
        }
        // Always as many, which needs no loop: the earliest, and then whose that is.
        let few: &[Instant; FEW] = self.at.first_chunk().expect("a node");
        let first = few.iter().fold(few[0], |first, at| first.min(*at));
        (first, few.iter().position(|at| *at == first).unwrap_or(0))
    }

    /// Sets when a node wakes; `None` puts it to sleep.
    #[inline(always)]
    pub fn set(&mut self, node: usize, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::FAR_FUTURE);
        if std::mem::replace(&mut self.at[node], at) == at || self.winner.is_empty() {
            return;
        }
        self.replay(node, at);
    }

    /// Plays the matches on a node's way to the root anew.
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
            // A match that neither involved the node nor changed settles all above it.
            if before == champion && champion != node as u32 {
                break;
            }
        }
    }

    /// When a node wakes; `FAR_FUTURE` while it sleeps.
    pub fn at(&self, node: usize) -> Instant {
        self.at[node]
    }

    /// Nodes there are.
    pub fn len(&self) -> usize {
        self.nodes
    }

    /// Whether it holds no node.
    pub fn is_empty(&self) -> bool {
        self.nodes == 0
    }

    /// Forgets the nodes from this number on, which sleep, and gives back what they took.
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

    /// The node will wake.
    pub fn is_set(&self, node: usize) -> bool {
        self.at[node] != Instant::FAR_FUTURE
    }

    /// Who wins the match at a place; of equals the lower number, which is always the left.
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
        fn the_earliest_node_is_always_next(
            nodes in 10usize..40,
            sets in proptest::collection::vec((0usize..40, 0u64..50), 1..200),
        ) {
            let mut schedule = Schedule::default();
            let mut times = Vec::new();
            for (node, at) in sets {
                // Nodes come while others are set, few and then many.
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
            // Without those behind the tenth the first of the others is next.
            schedule.truncate(10);
            let left = times.len().min(10);
            let expected = (0..left).min_by_key(|n| (times[*n], *n)).unwrap();
            prop_assert_eq!(schedule.first(), (times[expected], expected));
            prop_assert_eq!(schedule.len(), left);
        }
    }
}
