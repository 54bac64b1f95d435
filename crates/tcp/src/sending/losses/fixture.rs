//! Views of loss detection for unit tests of other parts.

use super::Losses;

impl Losses {
    pub(crate) fn saw_reordering(&self) -> bool {
        self.reordering_seen
    }

    pub(crate) fn has_advanced(&self) -> bool {
        self.advanced
    }
}
