//! Tests of the log: the bounded queue, and outputs that fail or block.

use std::fs;
use std::io::{BufRead, BufReader};

use rustix::pipe::{PipeFlags, pipe_with};

use super::*;

/// A time limit that these tests do not reach.
const LONG: Duration = Duration::from_secs(60);

/// Creates a log that writes to a descriptor.
fn log_to(output: OwnedFd, notes: Option<Log>) -> Log {
    let log = Log(Arc::default());
    let shared = Arc::clone(&log.0);
    let output = Some(output);
    let mut writer = Writer { sink: Sink::Stdout, output, notes, faulty: false, cut: false };
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    Builder::new().spawn(move || writer.run(&shared)).unwrap();
    log
}

fn counts(written: u64, dropped: u64) -> LogCounts {
    LogCounts { written, dropped }
}

/// Returns the lines without their timestamps.
fn without_times(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(' ').expect("a time and a text").1).collect()
}

#[test]
fn a_queue_limits_lines_and_bytes() {
    let mut queue = Queue::default();
    for _ in 0..=MOST_LINES {
        queue.push("x".into());
    }
    assert_eq!((queue.entries.len(), queue.counts.dropped), (MOST_LINES, 1));
    assert_eq!(queue.pop(), Some(Entry::Line("x".into(), 1)));
    assert_eq!(queue.pop(), Some(Entry::Line("x".into(), 0)));
    let mut queue = Queue::default();
    let long = "x".repeat(MOST_BYTES / 2);
    for _ in 0..3 {
        queue.push(long.clone());
    }
    assert_eq!((queue.entries.len(), queue.counts.dropped), (2, 1));
    queue.pop();
    queue.push(long);
    assert_eq!((queue.entries.len(), queue.counts.dropped), (2, 1));
}

#[test]
fn times_are_in_utc_to_the_millisecond() {
    // Checked with date(1): `date -u -d @1774569600.007 +%FT%T.%3NZ`.
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_774_569_600_007);
    assert_eq!(rfc3339(time), "2026-03-27T00:00:00.007Z");
}

#[test]
fn a_blocked_pipe_drops_lines_and_reports_their_number() {
    let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let log = log_to(output, None);
    // The pipe can hold 64 KiB, and the queue 8,192 lines.
    let lines = 20_000;
    for _ in 0..lines {
        log.record(&"x".repeat(40));
    }
    let dropped = log.counts().dropped;
    assert!(dropped >= lines - MOST_LINES as u64 - 2000, "{dropped} lines dropped");
    assert!(dropped < lines - MOST_LINES as u64, "{dropped} lines dropped");
    let mut reader = BufReader::new(File::from(reader));
    let mut mentioned = 0;
    // The queue may have been full several times. Each report contains the number of lines that are missing
    // before it.
    while mentioned < dropped {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some((_, number)) = line.trim_end().split_once(" lines_dropped=") {
            mentioned += number.parse::<u64>().unwrap();
        }
    }
    assert_eq!(mentioned, dropped);
}

#[test]
fn a_pipe_whose_reader_is_gone_costs_lines_and_one_note() {
    let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let (told, notes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    drop(reader);
    let notes = log_to(notes, None);
    let log = log_to(output, Some(notes.clone()));
    for _ in 0..3 {
        log.record("lost");
    }
    log.finish(LONG);
    notes.finish(LONG);
    assert_eq!((log.counts(), notes.counts()), (counts(0, 3), counts(1, 0)));
    let mut piece = [0; 4096];
    let length = rustix::io::read(&told, &mut piece).unwrap();
    let text = std::str::from_utf8(&piece[..length]).unwrap();
    assert!(without_times(text)[0].starts_with("the log cannot be written"), "{text}");
}

#[test]
fn a_full_disk_costs_lines() {
    let log = log_to(OpenOptions::new().write(true).open("/dev/full").unwrap().into(), None);
    log.record("lost");
    log.finish(LONG);
    assert_eq!(log.counts(), counts(0, 1));
}

/// A log to a file with its folder, a log for its notes, and the reading end of that log.
struct Reopened {
    folder: PathBuf,
    log: Log,
    notes: Log,
    told: OwnedFd,
}

impl Reopened {
    fn new(name: &str) -> Self {
        let folder = format!("anabranch-log-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let (told, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let notes = log_to(output, None);
        let log = Log::start(Sink::File(folder.join("log")), Some(notes.clone())).unwrap();
        Self { folder, log, notes, told }
    }

    /// Closes both logs. Returns the lines of the old file, those of the new file, and the notes.
    fn end(self) -> [Vec<String>; 3] {
        self.log.finish(LONG);
        self.notes.finish(LONG);
        let mut piece = [0; 4096];
        let length = rustix::io::read(&self.told, &mut piece).unwrap();
        let notes = String::from_utf8(piece[..length].to_vec()).unwrap();
        let [old, new] = ["log.1", "log"]
            .map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default());
        fs::remove_dir_all(&self.folder).unwrap();
        [old, new, notes].map(|text| without_times(&text).into_iter().map(str::to_owned).collect())
    }
}

#[test]
fn lines_before_a_request_to_reopen_go_to_the_old_file_and_later_ones_to_the_new_one() {
    let it = Reopened::new("both");
    fs::rename(it.folder.join("log"), it.folder.join("log.1")).unwrap();
    {
        // The thread cannot remove a task while this lock is held.
        let mut queue = it.log.0.lock();
        for number in 1..=100 {
            queue.push(format!("t n={number}\n"));
        }
        queue.push_reopen();
        queue.push_reopen();
        queue.push("t n=101\n".into());
        assert_eq!(queue.entries.len(), 102);
    }
    it.log.0.changed.notify_all();
    let [old, new, notes] = it.end();
    assert_eq!((old.len(), old[99].as_str()), (100, "n=100"));
    assert_eq!((new, notes), (vec!["n=101".to_owned()], vec!["the log is open again".to_owned()]));
}

#[test]
fn a_log_that_cannot_be_opened_again_goes_on_in_the_old_file_and_is_reported() {
    let it = Reopened::new("neither");
    fs::rename(it.folder.join("log"), it.folder.join("log.1")).unwrap();
    // A folder has the path of the log now.
    fs::create_dir(it.folder.join("log")).unwrap();
    it.log.reopen();
    it.log.line("n=1");
    let [old, _, notes] = it.end();
    assert_eq!(old, ["n=1"]);
    // open(2): EISDIR.
    assert_eq!(notes, ["the log cannot be opened again: Is a directory (os error 21)"]);
}

#[test]
fn a_new_file_that_fails_at_once_is_reported_again() {
    let (told, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let notes = log_to(output, None);
    let sink = Sink::File("/dev/full".into());
    let output = Some(sink.open().unwrap());
    let (faulty, cut) = (false, false);
    let mut writer = Writer { sink, output, notes: Some(notes.clone()), faulty, cut };
    for _ in 0..2 {
        assert!(!writer.write("lost\n") && !writer.write("lost\n"));
        writer.reopen();
    }
    notes.finish(LONG);
    let mut piece = [0; 4096];
    let length = rustix::io::read(&told, &mut piece).unwrap();
    let text = std::str::from_utf8(&piece[..length]).unwrap();
    // write(2): ENOSPC, once for each file.
    let fails =
        "the log cannot be written, lines are dropped: No space left on device (os error 28)";
    let opened = "the log is open again";
    assert_eq!(without_times(text), [fails, opened, fails, opened]);
}

#[test]
fn a_full_queue_takes_a_request_to_reopen() {
    let mut queue = Queue::default();
    for _ in 0..=MOST_LINES {
        queue.push("x".into());
    }
    queue.push_reopen();
    assert_eq!(queue.entries.len(), MOST_LINES + 1);
}

#[test]
fn a_line_after_a_cut_one_begins_a_new_line() {
    let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut writer =
        Writer { sink: Sink::Stdout, output: Some(output), notes: None, faulty: true, cut: true };
    assert!(writer.write("whole\n") && writer.write("next\n"));
    let mut piece = [0; 64];
    let length = rustix::io::read(&reader, &mut piece).unwrap();
    assert_eq!(&piece[..length], b"\nwhole\nnext\n");
}
