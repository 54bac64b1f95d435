//! A server of files over HTTP/1.1.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use anabranch_media::http::{Answer, ClientData, RequestReader};
use anabranch_scheduler::Hint;
use anabranch_units::Instant;
use bytes::Bytes;

use super::writing::{take_news, write_piece};
use super::{Application, Next, WrongBytes};
use crate::stream::Stream;

/// The files of a server: path and size in bytes. Their content is the pattern.
pub type Files = BTreeMap<String, u64>;

/// Answers requests for files or ranges of files, in order.
#[derive(Debug)]
pub struct HttpServer {
    reader: RequestReader,
    files: Arc<Files>,
    /// The responses to write: the head, and the range of the file.
    answers: VecDeque<(Bytes, Range<u64>)>,
    blocked: bool,
}

impl HttpServer {
    /// Creates a server of these files.
    pub fn new(files: Arc<Files>) -> Self {
        Self { reader: RequestReader::new(), files, answers: VecDeque::new(), blocked: false }
    }

    /// Writes responses, each head together with the first part of its body. Returns the event after which to
    /// continue.
    fn write_answers(&mut self, now: Instant, connection: &mut dyn Stream) -> Next {
        let blocked = &mut self.blocked;
        while let Some((head, body)) = self.answers.front_mut() {
            while !head.is_empty() && !*blocked {
                match connection.write(now, head.clone()) {
                    Ok(taken) => drop(head.split_to(taken)),
                    Err(_) => *blocked = true,
                }
            }
            let next = write_piece(now, connection, false, blocked, &mut body.start, body.end);
            if *blocked || body.start < body.end {
                return next;
            }
            self.answers.pop_front();
        }
        Next::AtNews
    }
}

/// Returns the scheduler hint of a request that has just arrived.
fn hint(now: Instant, data: ClientData) -> Hint {
    if data == ClientData::default() {
        return Hint::default();
    }
    Hint::new(now, data.buffered, data.deadline)
}

impl Application for HttpServer {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        self.blocked &= !take_news(connection);
        if connection.connected_at().is_none() {
            return Ok(Next::AtNews);
        }
        while let Some(bytes) = connection.read(now, usize::MAX) {
            self.reader.handle_bytes(&bytes);
        }
        while let Ok(Some(request)) = self.reader.poll_request() {
            let path = request.target.trim_start_matches('/');
            connection.set_hint(hint(now, request.client_data));
            let answer = Answer::new(&request, self.files.get(path).copied());
            self.answers.push_back((answer.head, answer.body));
        }
        Ok(self.write_answers(now, connection))
    }
}
