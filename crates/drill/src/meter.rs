//! Measures the memory of an endpoint by reading the allocator around every call.

/// A function that returns the number of bytes that the process has allocated and not freed. Without a
/// counting allocator, memory is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter(Option<fn() -> usize>);

impl Meter {
    /// Returns a meter for a counting allocator.
    pub const fn new(read: fn() -> usize) -> Self {
        Self(Some(read))
    }

    /// A meter that does not measure.
    pub const NONE: Self = Self(None);

    /// Runs `call` and adds the change of allocated bytes to `held`.
    pub(crate) fn around<T>(self, held: &mut i64, call: impl FnOnce() -> T) -> T {
        let Some(read) = self.0 else { return call() };
        let before = read();
        let out = call();
        *held += read() as i64 - before as i64;
        out
    }
}
