//! The kind of data that a connection sends next.

/// A segment that is sent independent of the congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgent {
    /// The oldest lost segment, after a retransmission timeout.
    Head,
    /// A tail loss probe.
    Probe,
    /// New data in a window with space for less than a segment, because no larger window came in time (RFC
    /// 9293 section 3.8.6.2.1, the override timeout).
    SmallWindow,
}

/// The kind of data to send next. Acknowledgements and timers set it, and [`Transmission::poll_departure`]
/// reads it.
///
/// [`Transmission::poll_departure`]: super::transmit::Transmission::poll_departure
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Intent {
    /// New data within the windows.
    #[default]
    New,
    /// Lost segments within the congestion window, then new data.
    Repair,
    /// One segment, then lost segments if `repairs`, then new data.
    Urgent { first: Urgent, repairs: bool },
}

impl Intent {
    /// Returns whether a segment is sent independent of the congestion window.
    #[inline]
    pub(crate) fn is_urgent(self) -> bool {
        matches!(self, Self::Urgent { .. })
    }

    /// Returns whether new data is sent first.
    #[inline]
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Self::New)
    }

    /// Returns whether lost segments are sent before new data.
    #[inline]
    pub(crate) fn repairs(self) -> bool {
        matches!(self, Self::Repair | Self::Urgent { repairs: true, .. })
    }

    /// Makes one segment the first to send.
    pub(crate) fn set_urgent(&mut self, first: Urgent) {
        *self = Self::Urgent { first, repairs: self.repairs() };
    }

    /// Sets whether lost segments are sent before new data. An urgent segment is still sent first.
    pub(crate) fn set_repairs(&mut self, repairs: bool) {
        *self = match *self {
            Self::Urgent { first, .. } => Self::Urgent { first, repairs },
            _ if repairs => Self::Repair,
            _ => Self::New,
        };
    }

    /// Removes the urgent segment if it is `wanted`. Returns whether there was such a segment.
    #[inline]
    pub(crate) fn take(&mut self, wanted: Urgent) -> bool {
        let Self::Urgent { first, repairs } = *self else { return false };
        let taken = first == wanted;
        if taken {
            *self = if repairs { Self::Repair } else { Self::New };
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_urgent_segment_goes_once_and_the_repair_goes_on_after_it() {
        let mut intent = Intent::default();
        intent.set_repairs(true);
        intent.set_urgent(Urgent::Head);
        assert!(intent.is_urgent() && intent.repairs() && !intent.take(Urgent::Probe));
        assert!(intent.take(Urgent::Head) && !intent.take(Urgent::Head));
        assert_eq!(intent, Intent::Repair);
        // An acknowledgement may end the repair before the urgent segment was sent.
        intent.set_urgent(Urgent::Probe);
        intent.set_repairs(false);
        assert!(intent.take(Urgent::Probe) && intent == Intent::New);
        // A later timer replaces the urgent segment of an earlier one.
        intent.set_urgent(Urgent::SmallWindow);
        intent.set_urgent(Urgent::Head);
        assert!(!intent.take(Urgent::SmallWindow) && intent.take(Urgent::Head));
    }
}
