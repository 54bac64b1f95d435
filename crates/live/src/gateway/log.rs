//! The log. A separate thread writes the lines, so that a full disk or a slow reader does not delay any
//! connection.
//!
//! Lines wait in a bounded queue. If the queue is full or a write fails, lines are dropped and counted. The
//! next line that can be written is preceded by the number of dropped lines. A request to open the file again
//! waits in the same queue, so earlier lines are written to the old file.

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

/// The largest number of lines in the queue, and of their bytes.
const MOST_LINES: usize = 8192;
const MOST_BYTES: usize = 2 << 20;
/// The permissions of a new file: the owner and the group may read it.
const MODE: u32 = 0o640;

/// The destination of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sink {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, to which lines are appended. It is created if necessary.
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

/// The numbers of written and dropped lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogCounts {
    /// Lines that were written.
    pub written: u64,
    /// Lines that were dropped because the queue was full or the write failed.
    pub dropped: u64,
}

/// A task for the thread that writes a log.
#[derive(Debug, PartialEq, Eq)]
enum Entry {
    /// Write the number of dropped lines, and then a line.
    Line(String, u64),
    /// Open the file again.
    Reopen,
}

/// The queue of tasks.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    bytes: usize,
    counts: LogCounts,
    /// The number of dropped lines that the log does not report yet.
    unmentioned: u64,
    /// Whether the log was closed, so that no task is added.
    closed: bool,
    /// Whether a task is in progress.
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

    /// Adds a request to open the file again, even if the queue is full. Consecutive requests are merged.
    fn push_reopen(&mut self) {
        if self.entries.back() != Some(&Entry::Reopen) {
            self.entries.push_back(Entry::Reopen);
        }
    }

    /// Removes the oldest task. A line is returned with the number of dropped lines to report before it.
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

/// A handle to a log. Clones share the log.
#[derive(Clone, Debug)]
pub struct Log(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // No code panics while it holds the lock, so the data is valid even if the lock is poisoned.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Starts a log. Errors of the log are written to `notes`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or no thread can be started.
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    pub fn start(sink: Sink, notes: Option<Log>) -> io::Result<Self> {
        let output = match sink.open() {
            // All lines are dropped if the standard stream is closed.
            Err(_) if !matches!(sink, Sink::File(_)) => None,
            opened => Some(opened?),
        };
        let log = Self(Arc::default());
        let shared = Arc::clone(&log.0);
        let mut writer = Writer { sink, output, notes, faulty: false, cut: false };
        Builder::new().name("log".into()).spawn(move || writer.run(&shared))?;
        Ok(log)
    }

    /// Adds a line, which begins with the time. Does not block.
    pub fn line(&self, text: &str) {
        self.0.lock().push(format!("{} {text}\n", timestamp()));
        self.0.changed.notify_all();
    }

    /// Adds a record, whose first key is `time`. Does not block.
    pub fn record(&self, text: &str) {
        self.0.lock().push(format!("time={} {text}\n", timestamp()));
        self.0.changed.notify_all();
    }

    /// Requests to open the file again, for example after it was renamed. Earlier lines are written to the
    /// old file. The result is written to `notes`.
    pub fn reopen(&self) {
        self.0.lock().push_reopen();
        self.0.changed.notify_all();
    }

    /// Returns the numbers of written and dropped lines.
    pub fn counts(&self) -> LogCounts {
        self.0.lock().counts
    }

    /// Closes the log, and waits up to `patience` for all lines to be written.
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
    /// Whether the last write failed.
    faulty: bool,
    /// Whether the last line was written only in part.
    cut: bool,
}

impl Writer {
    /// Performs tasks until the log is closed.
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

    /// Opens the file again. If that fails, lines are still written to the old file.
    fn reopen(&mut self) {
        match self.sink.open() {
            Ok(output) => {
                (self.output, self.cut, self.faulty) = (Some(output), false, false);
                self.note("the log is open again");
            }
            Err(error) => self.note(&format!("the log cannot be opened again: {error}")),
        }
    }

    /// Writes a line. Returns whether the whole line was written.
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

/// Returns a line that reports the number of dropped lines.
fn missing_line(lines: u64) -> String {
    format!("time={} lines_dropped={lines}\n", timestamp())
}

/// Writes all bytes, and blocks if necessary. On error, returns the number of bytes written so far.
fn write_all(output: &OwnedFd, bytes: &[u8]) -> Result<(), (Errno, usize)> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(output, &bytes[written..]) {
            Ok(taken) => written += taken,
            Err(Errno::INTR) => {}
            // The stream may be non-blocking, because another program may have set this mode.
            Err(Errno::AGAIN) => {
                let mut waits = [PollFd::new(output, PollFlags::OUT)];
                let _ = poll(&mut waits, None);
            }
            Err(error) => return Err((error, written)),
        }
    }
    Ok(())
}

/// Returns the current time in UTC with milliseconds (RFC 3339).
#[expect(clippy::disallowed_methods, reason = "the real world is where time comes from")]
fn timestamp() -> String {
    rfc3339(SystemTime::now())
}

fn rfc3339(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests;
