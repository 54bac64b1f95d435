//! A windowed maximum over rounds that keeps three samples (Linux `lib/win_minmax.c`).

/// The largest sample in the window, the largest sample after it, and the largest sample after that one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowedMax<V> {
    samples: [(u64, V); 3],
}

impl<V: Copy + Ord> WindowedMax<V> {
    /// The maximum.
    pub(crate) fn get(&self) -> V {
        self.samples[0].1
    }

    /// Adds the value of a round. Values older than `window` rounds are removed.
    pub(crate) fn update(&mut self, window: u64, round: u64, value: V) {
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

    /// `minmax_running_max` and `minmax_subwin_update` by hand, for a window of 8 rounds. The second sample
    /// is replaced after a quarter of the window, and the third after half of it.
    #[test]
    fn later_samples_wait_in_line() {
        let steps = [
            (1, 100, [(1, 100), (1, 100), (1, 100)]),
            (3, 50, [(1, 100), (1, 100), (1, 100)]),
            (4, 40, [(1, 100), (4, 40), (4, 40)]),
            (5, 30, [(1, 100), (4, 40), (4, 40)]),
            (6, 20, [(1, 100), (4, 40), (6, 20)]),
            (7, 25, [(1, 100), (4, 40), (7, 25)]),
            (8, 40, [(1, 100), (8, 40), (8, 40)]),
            (9, 10, [(1, 100), (8, 40), (9, 10)]),
            (10, 5, [(8, 40), (9, 10), (10, 5)]),
        ];
        let mut filter = WindowedMax::<u64>::default();
        for (round, value, samples) in steps {
            filter.update(8, round, value);
            assert_eq!(filter.samples, samples, "round {round}");
        }
        // The filter starts with samples of rounds 1, 4 and 6. The cases: one sample expires, two expire, all
        // expire, and an equal value replaces all three.
        for (round, value, samples) in [
            (12, 1, [(4, 40), (6, 20), (12, 1)]),
            (13, 1, [(6, 20), (13, 1), (13, 1)]),
            (14, 1, [(6, 20), (14, 1), (14, 1)]),
            (15, 1, [(15, 1), (15, 1), (15, 1)]),
            (7, 100, [(7, 100), (7, 100), (7, 100)]),
            (7, 20, [(1, 100), (4, 40), (7, 20)]),
        ] {
            let mut filter = WindowedMax { samples: [(1, 100), (4, 40), (6, 20)] };
            filter.update(8, round, value);
            assert_eq!(filter.samples, samples, "{value} in round {round}");
        }
    }
}
