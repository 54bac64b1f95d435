//! The progress of a host's data in time, and its pauses.

/// The length of a time slice in nanoseconds.
pub(crate) const SLICE_NS: i64 = 100_000_000;
/// The shortest pause that is recorded in nanoseconds. Shorter pauses are normal on a slow path.
const PAUSE_NS: i64 = 100_000_000;
/// The most pauses that are recorded.
const MOST_PAUSES: usize = 100_000;

/// A course of bytes that only grows: those in order, or those acknowledged. Times are nanoseconds since the first frame
/// of the file.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Bytes in all.
    pub bytes: u64,
    /// Time of the first and of the last progress.
    pub first_ns: Option<i64>,
    /// The last.
    pub last_ns: Option<i64>,
    /// The longest time between two steps.
    pub longest_pause_ns: i64,
    /// Pauses of at least 100 ms: the time of the step before, and the length.
    pub pauses: Vec<(i64, i64)>,
    /// The sum after each tenth of a second with progress, by the tenth's number.
    pub marks: Vec<(i64, u64)>,
}

impl Course {
    /// Counts `added` bytes at a time.
    pub(crate) fn on_progress(&mut self, now: i64, added: u64) {
        if added == 0 {
            return;
        }
        self.bytes += added;
        self.first_ns.get_or_insert(now);
        if let Some(last) = self.last_ns {
            let pause = now - last;
            self.longest_pause_ns = self.longest_pause_ns.max(pause);
            if pause >= PAUSE_NS && self.pauses.len() < MOST_PAUSES {
                self.pauses.push((last, pause));
            }
        }
        self.last_ns = self.last_ns.max(Some(now));
        let number = now.div_euclid(SLICE_NS);
        match self.marks.last_mut() {
            // A step that is older than the last mark counts in that.
            Some((last, sum)) if *last >= number => *sum = self.bytes,
            _ => self.marks.push((number, self.bytes)),
        }
    }
}
