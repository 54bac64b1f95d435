//! Names of system errors, for logs and metrics.

use std::fmt;

use rustix::io::Errno;

/// An error that is printed with its name from errno(3). If the name is not in [`NAMES`], the number is
/// printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named(pub(crate) Errno);

/// The errors that sockets return.
const NAMES: [(Errno, &str); 24] = [
    (Errno::ACCESS, "EACCES"),
    (Errno::ADDRINUSE, "EADDRINUSE"),
    (Errno::ADDRNOTAVAIL, "EADDRNOTAVAIL"),
    (Errno::AFNOSUPPORT, "EAFNOSUPPORT"),
    (Errno::AGAIN, "EAGAIN"),
    (Errno::BADF, "EBADF"),
    (Errno::CONNABORTED, "ECONNABORTED"),
    (Errno::CONNREFUSED, "ECONNREFUSED"),
    (Errno::CONNRESET, "ECONNRESET"),
    (Errno::HOSTUNREACH, "EHOSTUNREACH"),
    (Errno::INVAL, "EINVAL"),
    (Errno::IO, "EIO"),
    (Errno::MFILE, "EMFILE"),
    (Errno::NETDOWN, "ENETDOWN"),
    (Errno::NETUNREACH, "ENETUNREACH"),
    (Errno::NFILE, "ENFILE"),
    (Errno::NOBUFS, "ENOBUFS"),
    (Errno::NOMEM, "ENOMEM"),
    (Errno::NOPROTOOPT, "ENOPROTOOPT"),
    (Errno::NOSPC, "ENOSPC"),
    (Errno::PERM, "EPERM"),
    (Errno::PIPE, "EPIPE"),
    (Errno::PROTO, "EPROTO"),
    (Errno::TIMEDOUT, "ETIMEDOUT"),
];

/// Returns whether the host has no port, descriptor or memory left for a socket. This may change soon.
pub(crate) fn is_exhausted(error: Errno) -> bool {
    use Errno as E;
    matches!(
        error,
        E::ADDRNOTAVAIL
            | E::ADDRINUSE
            | E::AGAIN
            | E::MFILE
            | E::NFILE
            | E::NOBUFS
            | E::NOMEM
            | E::NOSPC
    )
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(error, _)| *error == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0.raw_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those of Linux on x86 and Arm (`asm-generic/errno.h`).
    #[test]
    fn errors_have_their_names() {
        for (number, name) in [
            (111, "ECONNREFUSED"),
            (104, "ECONNRESET"),
            (32, "EPIPE"),
            (110, "ETIMEDOUT"),
            (99, "EADDRNOTAVAIL"),
        ] {
            assert_eq!(Named(Errno::from_raw_os_error(number)).to_string(), name);
        }
        assert_eq!(Named(Errno::from_raw_os_error(133)).to_string(), "133");
    }

    #[test]
    fn only_a_shortage_of_the_host_is_exhaustion() {
        for number in [99, 24, 23, 105, 12] {
            assert!(is_exhausted(Errno::from_raw_os_error(number)), "{number}");
        }
        for number in [111, 110, 113, 101, 104, 13, 1] {
            assert!(!is_exhausted(Errno::from_raw_os_error(number)), "{number}");
        }
    }
}
