//! The bytes delivered between losses, as in OLIA (`mptcp_olia.c` of the out-of-tree kernel;
//! draft-khalili-mptcp-congestion-control section 2).

/// The positions of the last two losses, in payload bytes cumulatively acknowledged. OLIA's third value is
/// the current position.
#[derive(Debug, Default)]
pub(crate) struct LossInterval {
    /// The position of the second to last loss.
    previous: u64,
    /// The position of the last loss.
    last: u64,
}

impl LossInterval {
    /// Handles a window reduction after `acked` acknowledged bytes. Without progress since the last one, it
    /// belongs to the same loss.
    pub(crate) fn on_loss(&mut self, acked: u64) {
        if acked != self.last {
            self.previous = self.last;
            self.last = acked;
        }
    }

    /// Returns the bytes acknowledged since the last loss, or since the beginning if there was none.
    pub(crate) fn since(&self, acked: u64) -> u64 {
        acked - self.last
    }

    /// Returns the bytes acknowledged between the last two losses. With one loss only, those before it.
    pub(crate) fn between(&self) -> u64 {
        self.last - self.previous
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_losses() {
        let mut interval = LossInterval::default();
        assert_eq!((interval.since(500), interval.between()), (500, 0));
        interval.on_loss(1000);
        assert_eq!((interval.since(1000), interval.between()), (0, 1000));
        interval.on_loss(1000);
        assert_eq!((interval.since(1700), interval.between()), (700, 1000), "the same loss");
        interval.on_loss(1700);
        assert_eq!((interval.since(1700), interval.between()), (0, 700));
    }
}
