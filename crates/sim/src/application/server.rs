//! The server's side of a connection: bulk, paced, or a film over HTTP.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use anabranch_media::Timeline;
use anabranch_media::http::{Answer, RequestReader};
use anabranch_transport::Connection;
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use crate::pattern;
use crate::plan::{ApplicationKind, Plan};

/// A paced application writes what is due every so often.
const PACE: Duration = Duration::from_millis(10);
/// It waits until so much is due (one segment of plain TCP).
const PACE_LEAST: u64 = 1448;

/// The film all sessions share.
pub(crate) type Film = Option<Arc<Timeline>>;

/// The server's side of one connection.
pub(crate) enum Serving {
    Bulk { written: u64, limit: u64 },
    Paced { written: u64, limit: u64, rate_bps: u64, since: Option<Instant>, next: Instant },
    Http { reader: RequestReader, film: Film, heads: VecDeque<(Bytes, Range<u64>)> },
}

impl Serving {
    pub(crate) fn new(plan: &Plan, film: &Film) -> Self {
        let limit = plan.application.bytes.unwrap_or(u64::MAX);
        match plan.application.kind {
            ApplicationKind::Bulk => Self::Bulk { written: 0, limit },
            ApplicationKind::Paced => Self::Paced {
                written: 0,
                limit,
                rate_bps: plan.application.rate_bps.unwrap_or(0),
                since: None,
                next: Instant::ZERO,
            },
            ApplicationKind::Progressive => Self::Http {
                reader: RequestReader::new(),
                film: film.clone(),
                heads: VecDeque::new(),
            },
        }
    }

    /// When the application itself wants to be woken.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Paced { since: Some(_), written, limit, next, .. } if written < limit => Some(*next),
            _ => None,
        }
    }

    /// Reads and writes whatever is possible now.
    pub(crate) fn drive(&mut self, now: Instant, connection: &mut Connection) {
        if connection.connected_at().is_none() {
            return;
        }
        match self {
            Self::Bulk { written, limit } => {
                if *written < *limit && write_pattern(now, connection, written, *limit) {
                    connection.shutdown(now);
                }
            }
            Self::Paced { written, limit, rate_bps, since, next } => {
                let since = *since.get_or_insert(now);
                let due = u128::from(now.since(since).as_nanos()) * u128::from(*rate_bps) / 8_000_000_000;
                let due = (due as u64).min(*limit);
                if due >= *written + PACE_LEAST || due == *limit {
                    let done = write_pattern(now, connection, written, due);
                    if done && due == *limit {
                        connection.shutdown(now);
                    }
                }
                if now >= *next {
                    *next = now + PACE;
                }
            }
            Self::Http { reader, film, heads } => {
                while let Some(bytes) = connection.read(now, usize::MAX) {
                    reader.handle_bytes(&bytes);
                }
                while let Ok(Some(request)) = reader.poll_request() {
                    let size = film
                        .as_ref()
                        .filter(|film| request.target.trim_start_matches('/') == film.name())
                        .map(|film| film.size_bytes());
                    let answer = Answer::new(&request, size);
                    heads.push_back((answer.head, answer.body));
                }
                write_answers(now, connection, heads);
            }
        }
    }
}

/// Writes the pattern up to `limit`; true when all is written.
fn write_pattern(now: Instant, connection: &mut Connection, written: &mut u64, limit: u64) -> bool {
    while *written < limit {
        match connection.write(now, pattern::piece(*written, limit - *written)) {
            Ok(taken) => *written += taken as u64,
            Err(_) => return false,
        }
    }
    true
}

fn write_answers(
    now: Instant,
    connection: &mut Connection,
    answers: &mut VecDeque<(Bytes, Range<u64>)>,
) {
    while let Some((head, body)) = answers.front_mut() {
        while !head.is_empty() {
            match connection.write(now, head.clone()) {
                Ok(taken) => drop(head.split_to(taken)),
                Err(_) => return,
            }
        }
        if !write_pattern(now, connection, &mut body.start, body.end) {
            return;
        }
        answers.pop_front();
    }
}
