//! How much memory an endpoint holds, read off the allocator around every call into it.

/// Reads how many bytes the process has allocated and not freed. Without a counting allocator there
/// is no such reading, and memory is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter(Option<fn() -> usize>);

impl Meter {
    /// A meter over an allocator that counts.
    pub const fn new(read: fn() -> usize) -> Self {
        Self(Some(read))
    }

    /// Nothing is measured.
    pub const NONE: Self = Self(None);

    /// Runs `call` and adds to `held` what it allocated and kept, or takes away what it freed.
    pub(crate) fn around<T>(self, held: &mut i64, call: impl FnOnce() -> T) -> T {
        let Some(read) = self.0 else { return call() };
        let before = read();
        let out = call();
        *held += read() as i64 - before as i64;
        out
    }
}
