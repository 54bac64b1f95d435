//! The log. A separate thread writes its lines, so a full disk or a stalled reader delays no connection.
//!
//! Lines wait in a bounded queue. A line is dropped and counted if the queue is full or if the write fails. A request to
//! open the file again waits in the same queue, so earlier lines go to the old file. The number of dropped lines is
//! written before the next line that succeeds.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, SecondsFormat, Utc};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// The largest number of waiting lines, and of their bytes.
const MOST_LINES: usize = 8192;
const MOST_BYTES: usize = 2 << 20;
/// The permissions of a new file: its owner and group may read it.
const MODE: u32 = 0o640;

/// Where a log is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, which is created if necessary. Lines are appended.
    File(PathBuf),
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
            Self::File(path) => write!(f, "`{}`", path.display()),
        }
    }
}

impl Sink {
    fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Stdout => io::stdout().as_fd().try_clone_to_owned(),
            Self::Stderr => io::stderr().as_fd().try_clone_to_owned(),
            Self::File(path) => {
                let opened: File =
                    OpenOptions::new().append(true).create(true).mode(MODE).open(path)?;
                Ok(opened.into())
            }
        }
    }
}

/// Counts of written and dropped lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that were written.
    pub written: u64,
    /// Lines for which the queue had no room, or whose write failed.
    pub dropped: u64,
}

/// Work of the thread that writes a log.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// Write a line, and before it the number of dropped lines.
    Line(String, u64),
    /// Open the file again.
    Reopen,
}

/// The waiting entries.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
    counts: LogCounts,
    /// Dropped lines that are not reported in the log yet.
    unmentioned: u64,
    /// No further entries will be added.
    closed: bool,
    /// An entry is being processed.
    busy: bool,
}

impl Queue {
    /// Adds a line, or drops it if the queue is full.
    fn push(&mut self, line: String) {
        if self.entries.len() >= MOST_LINES || self.bytes + line.len() > MOST_BYTES {
            self.note_dropped(1);
            return;
        }
        self.bytes += line.len();
        self.entries.push_back(Entry::Line(line, 0));
    }

    /// Adds a request to open the file again, even if the queue is full. Requests without a line between them are
    /// merged.
    fn push_reopen(&mut self) {
        if self.entries.back() != Some(&Entry::Reopen) {
            self.entries.push_back(Entry::Reopen);
        }
    }

    /// Takes the oldest entry. A line gets the number of dropped lines to report before it.
    fn pop(&mut self) -> Option<Entry> {
        let mut entry = self.entries.pop_front()?;
        if let Entry::Line(line, missing) = &mut entry {
            self.bytes -= line.len();
            *missing = std::mem::take(&mut self.unmentioned);
        }
        self.busy = true;
        Some(entry)
    }

    fn note_dropped(&mut self, lines: u64) {
        self.counts.dropped += lines;
        self.unmentioned += lines;
    }
}

/// A handle to a log; clones share the same log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock, so the data is valid.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Starts a log. Later errors of the log are written to `notes`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or no thread can be started.
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    pub fn start(sink: Sink, notes: Option<Log>) -> io::Result<Self> {
        let output = match sink.open() {
            // If the standard stream is closed, every line is dropped.
            Err(_) if !matches!(sink, Sink::File(_)) => None,
            opened => Some(opened?),
        };
        let log = Self(Arc::default());
        let shared = Arc::clone(&log.0);
        let mut writer = Writer { sink, output, notes, faulty: false, cut: false };
        Builder::new().name("log".into()).spawn(move || writer.run(&shared))?;
        Ok(log)
    }

    /// Adds a line that begins with the time. Does not block.
    pub fn line(&self, text: &str) {
        self.0.lock().push(format!("{} {text}\n", timestamp()));
        self.0.changed.notify_all();
    }

    /// Adds a line whose first key is `time`. Does not block.
    pub fn record(&self, text: &str) {
        self.0.lock().push(format!("time={} {text}\n", timestamp()));
        self.0.changed.notify_all();
    }

    /// Requests that the file is opened again, for example after it was renamed. Lines that were added before go to the
    /// old file. The outcome is written to `notes`.
    pub fn reopen(&self) {
        self.0.lock().push_reopen();
        self.0.changed.notify_all();
    }

    /// Returns the counts of written and dropped lines.
    pub fn counts(&self) -> LogCounts {
        self.0.lock().counts
    }

    /// Closes the log, and waits up to `patience` until all lines are written.
    pub fn finish(&self, patience: Duration) {
        let mut queue = self.0.lock();
        queue.closed = true;
        self.0.changed.notify_all();
        let waits = |queue: &mut Queue| queue.busy || !queue.entries.is_empty();
        let _ = self.0.changed.wait_timeout_while(queue, patience, waits);
    }
}

/// The state of the thread that writes a log.
struct Writer {
    sink: Sink,
    output: Option<OwnedFd>,
    notes: Option<Log>,
    /// The last write failed.
    faulty: bool,
    /// The last line was written only in part.
    cut: bool,
}

impl Writer {
    /// Processes entries until the log is closed.
    fn run(&mut self, shared: &Shared) {
        let mut queue = shared.lock();
        loop {
            let idle = |queue: &mut Queue| queue.entries.is_empty() && !queue.closed;
            queue = shared.changed.wait_while(queue, idle).unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = queue.pop() else { return };
            drop(queue);
            queue = match entry {
                Entry::Reopen => {
                    self.reopen();
                    shared.lock()
                }
                Entry::Line(line, missing) => {
                    let told = missing == 0 || self.write(&missing_line(missing));
                    let written = told && self.write(&line);
                    let mut queue = shared.lock();
                    queue.unmentioned += if told { 0 } else { missing };
                    if written {
                        queue.counts.written += 1;
                    } else {
                        queue.note_dropped(1);
                    }
                    queue
                }
            };
            queue.busy = false;
            shared.changed.notify_all();
        }
    }

    /// Opens the file again. If that fails, lines still go to the old file.
    fn reopen(&mut self) {
        match self.sink.open() {
            Ok(output) => {
                (self.output, self.cut, self.faulty) = (Some(output), false, false);
                self.note("the log is open again");
            }
            Err(error) => self.note(&format!("the log cannot be opened again: {error}")),
        }
    }

    /// Writes a line. Returns whether all of it was written.
    fn write(&mut self, line: &str) -> bool {
        let outcome = match &self.output {
            Some(output) if self.cut => {
                write_all(output, b"\n").and_then(|()| write_all(output, line.as_bytes()))
            }
            Some(output) => write_all(output, line.as_bytes()),
            None => Err((Errno::BADF, 0)),
        };
        let was_faulty = std::mem::replace(&mut self.faulty, outcome.is_err());
        match outcome {
            Ok(()) => self.cut = false,
            Err((error, written)) => {
                self.cut |= written > 0;
                if !was_faulty {
                    self.note(&format!("the log cannot be written, lines are dropped: {error}"));
                }
            }
        }
        outcome.is_ok()
    }

    fn note(&self, text: &str) {
        if let Some(notes) = &self.notes {
            notes.line(text);
        }
    }
}

/// The line that reports dropped lines.
fn missing_line(lines: u64) -> String {
    format!("time={} lines_dropped={lines}\n", timestamp())
}

/// Writes all bytes, and blocks if necessary. An error contains the number of bytes that were written.
fn write_all(output: &OwnedFd, bytes: &[u8]) -> Result<(), (Errno, usize)> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(output, &bytes[written..]) {
            Ok(taken) => written += taken,
            Err(Errno::INTR) => {}
            // Another program may have set the stream to non-blocking.
            Err(Errno::AGAIN) => {
                let mut waits = [PollFd::new(output, PollFlags::OUT)];
                let _ = poll(&mut waits, None);
            }
            Err(error) => return Err((error, written)),
        }
    }
    Ok(())
}

/// The time of day in UTC, to the millisecond (RFC 3339).
#[expect(clippy::disallowed_methods, reason = "the real world is where time comes from")]
fn timestamp() -> String {
    rfc3339(SystemTime::now())
}

fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests;
