//! Tests of the log: its bounded queue, and outputs that fail or block.

use std::fs;
use std::io::Read;

use rustix::pipe::{PipeFlags, pipe_with};

use super::*;

/// Longer than any wait in these tests.
const LONG: Duration = Duration::from_secs(60);

/// A log that writes to a descriptor.
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

/// The lines without their timestamps.
fn without_times(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once(' ').expect("a time and a text").1).collect()
}

#[test]
fn a_queue_has_room_for_so_many_lines_and_bytes() {
    let mut queue = Queue::default();
    for _ in 0..=MOST_LINES {
        queue.push("x".into());
    }
    assert_eq!((queue.lines.len(), queue.counts.dropped), (MOST_LINES, 1));
    assert_eq!(queue.pop(), Some(("x".into(), 1)));
    assert_eq!(queue.pop(), Some(("x".into(), 0)));
    let mut queue = Queue::default();
    let long = "x".repeat(MOST_BYTES / 2);
    for _ in 0..3 {
        queue.push(long.clone());
    }
    assert_eq!((queue.lines.len(), queue.counts.dropped), (2, 1));
    queue.pop();
    queue.push(long);
    assert_eq!((queue.lines.len(), queue.counts.dropped), (2, 1));
}

#[test]
fn times_are_in_utc_to_the_millisecond() {
    // date -u -d @1774569600.007 +%FT%T.%3NZ
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_774_569_600_007);
    assert_eq!(rfc3339(time), "2026-03-27T00:00:00.007Z");
}

#[test]
fn a_pipe_that_nobody_reads_holds_up_nobody_and_missing_lines_are_mentioned() {
    let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let log = log_to(output, None);
    // A pipe has room for 64 KiB, and the queue for 8,192 lines.
    let lines = 20_000;
    for _ in 0..lines {
        log.record(&"x".repeat(40));
    }
    let dropped = log.counts().dropped;
    assert!(dropped >= lines - MOST_LINES as u64 - 2000, "{dropped} lines dropped");
    assert!(dropped < lines - MOST_LINES as u64, "{dropped} lines dropped");
    let mut reader = File::from(reader);
    let mut text = String::new();
    let mut piece = [0; 8192];
    while !text.contains("lines_dropped=") {
        let length = reader.read(&mut piece).unwrap();
        text.push_str(std::str::from_utf8(&piece[..length]).unwrap());
    }
    assert!(text.contains(&format!(" lines_dropped={dropped}\n")));
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

#[test]
fn a_file_is_opened_again_behind_the_lines_that_wait() {
    let folder = std::env::temp_dir().join(format!("anabranch-log-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (path, old) = (folder.join("log"), folder.join("log.1"));
    let log = Log::start(Sink::File(path.clone()), None).unwrap();
    log.record("n=1");
    while log.counts().written < 1 {
        #[expect(clippy::disallowed_methods, reason = "another thread writes")]
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::rename(&path, &old).unwrap();
    log.record("n=2");
    log.reopen();
    while !path.exists() {
        #[expect(clippy::disallowed_methods, reason = "another thread writes")]
        std::thread::sleep(Duration::from_millis(1));
    }
    log.line("n=3");
    log.finish(LONG);
    let text = |path| fs::read_to_string(path).unwrap();
    assert_eq!(without_times(&text(&old)), ["n=1", "n=2"]);
    assert_eq!(without_times(&text(&path)), ["n=3"]);
    assert!(text(&old).starts_with("time=2"));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_line_behind_one_that_was_cut_begins_a_line() {
    let (reader, output) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let mut writer =
        Writer { sink: Sink::Stdout, output: Some(output), notes: None, faulty: true, cut: true };
    assert!(writer.write("whole\n") && writer.write("next\n"));
    let mut piece = [0; 64];
    let length = rustix::io::read(&reader, &mut piece).unwrap();
    assert_eq!(&piece[..length], b"\nwhole\nnext\n");
}
