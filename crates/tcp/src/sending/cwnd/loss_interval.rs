//! How much a subflow delivers between losses, as OLIA reckons it (`mptcp_olia.c` of the out-of-tree
//! kernel; draft-khalili-mptcp-congestion-control section 2).

/// Two of OLIA's three marks, in payload bytes cumulatively acknowledged; the third is where the
/// acknowledgements stand now.
#[derive(Debug, Default)]
pub(crate) struct LossInterval {
    /// The last loss but one.
    previous: u64,
    /// The last loss.
    last: u64,
}

impl LossInterval {
    /// A reduction begins with `acked` bytes acknowledged. Without progress since the last one it
    /// is the same loss.
    pub(crate) fn on_loss(&mut self, acked: u64) {
        if acked != self.last {
            self.previous = self.last;
            self.last = acked;
        }
    }

    /// Bytes acknowledged since the last loss; since the beginning while there was none.
    pub(crate) fn since(&self, acked: u64) -> u64 {
        acked - self.last
    }

    /// Bytes acknowledged between the last two losses; up to the first one while there was one only.
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
