//! Network namespaces: where devices and sockets are opened.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespace of the calling thread.
const OWN: &str = "/proc/thread-self/ns/net";

/// As [`within`]; in the thread's own namespace where none is named.
pub(crate) fn within_any<T>(
    namespace: Option<&Path>,
    what: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    match namespace {
        Some(namespace) => within(namespace, what),
        None => what(),
    }
}

/// Does something inside a network namespace, named by a file such as `/run/netns/client`; the thread is back
/// where it was afterwards.
///
/// # Errors
/// There is no such namespace, or it may not be entered (`CAP_SYS_ADMIN`).
pub fn within<T>(namespace: &Path, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let own = File::open(OWN)?;
    let there = File::open(namespace)?;
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(there.as_fd(), network)?;
    let outcome = what();
    // Elsewhere than at home everything to come would go wrong without a word.
    move_into_link_name_space(own.as_fd(), network)?;
    outcome
}
