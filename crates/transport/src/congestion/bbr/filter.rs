//! A windowed maximum over rounds, kept in three samples (Linux `lib/win_minmax.c`).

/// The best sample of the window, the best after it, and the best after that.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::congestion) struct WindowedMax<V> {
    samples: [(u64, V); 3],
}

impl<V: Copy + Ord> WindowedMax<V> {
    /// The maximum.
    pub(in crate::congestion) fn get(&self) -> V {
        self.samples[0].1
    }

    /// Takes the value of a round; older ones leave after `window` rounds.
    pub(in crate::congestion) fn update(&mut self, window: u64, round: u64, value: V) {
        let new = (round, value);
        let s = &mut self.samples;
        if value >= s[0].1 || round - s[2].0 > window {
            *s = [new; 3];
            return;
        }
        if value >= s[1].1 {
            s[1] = new;
            s[2] = new;
        } else if value >= s[2].1 {
            s[2] = new;
        }
        let age = round - s[0].0;
        if age > window {
            *s = [s[1], s[2], new];
            if round - s[0].0 > window {
                *s = [s[1], s[2], new];
            }
        } else if s[1].0 == s[0].0 && age > window / 4 {
            s[1] = new;
            s[2] = new;
        } else if s[2].0 == s[1].0 && age > window / 2 {
            s[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_leaves_with_its_window() {
        let mut filter = WindowedMax::<u64>::default();
        filter.update(10, 1, 100);
        for round in 2..=11 {
            filter.update(10, round, 50 + round);
            assert_eq!(filter.get(), 100, "round {round}");
        }
        filter.update(10, 12, 40);
        assert!(filter.get() < 100, "the best of round 1 is eleven rounds old");
        assert!(filter.get() >= 57, "a later good sample takes its place");
    }
}
