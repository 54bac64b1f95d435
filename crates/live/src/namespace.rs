//! Opens devices and sockets in network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The network namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Runs `what` like [`within`]. If `namespace` is `None`, the namespace of the thread is used.
pub(crate) fn within_any<T>(
    namespace: Option<&Path>,
    what: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match namespace {
        Some(namespace) => within(namespace, what),
        None => what(),
    }
}

/// Runs `what` inside a network namespace, given by a file such as `/run/netns/client`. Afterwards, the
/// thread returns to its own namespace.
///
/// # Errors
/// Returns an error if the namespace does not exist or the process may not enter it (`CAP_SYS_ADMIN`). An
/// error of `what` is returned unchanged.
pub fn within<T>(namespace: &Path, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = File::open(OWN)?;
    let there = File::open(namespace)?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network)?;
    let outcome = what();
    // If the return failed without an error, all later work of the thread would use the wrong namespace.
    move_into_link_name_space(own.as_fd(), network)?;
    outcome
}
