//! Network namespaces, in which devices and sockets are opened.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// Runs `what` in a namespace like [`within`], or in the current namespace if `namespace` is `None`.
pub(crate) fn within_any<T>(
    namespace: Option<&Path>,
    what: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match namespace {
        Some(namespace) => within(namespace, what),
        None => what(),
    }
}

/// Runs `what` inside a network namespace, which is named by a file such as `/run/netns/client`. The thread returns to
/// its own namespace afterwards.
///
/// # Errors
/// Returns an error if there is no such namespace, or if the process may not enter it (`CAP_SYS_ADMIN`). An error of
/// `what` is returned unchanged.
pub fn within<T>(namespace: &Path, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = File::open(OWN)?;
    let there = File::open(namespace)?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network)?;
    let outcome = what();
    // Without this step, all later work of the thread would silently use the wrong namespace.
    move_into_link_name_space(own.as_fd(), network)?;
    outcome
}
