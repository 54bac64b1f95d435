//! Common Media Client Data (CTA-5004): a request carries the state of the player in the header
//! field `CMCD-Request`.
//!
//! The keys `bl` (buffer length) and `dl` (deadline) are implemented, both in milliseconds rounded
//! to 100. Other keys are ignored. The other three header fields and the query argument `CMCD` are
//! not implemented.

use std::fmt::Write;

use anabranch_units::Duration;

/// The name of the header field.
pub(super) const FIELD: &str = "CMCD-Request";

/// The CMCD values in a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientData {
    /// Buffer length of the requested object's track (`bl`).
    pub buffered: Option<Duration>,
    /// Time from the request until the player needs the first sample (`dl`).
    pub deadline: Option<Duration>,
}

/// Returns milliseconds rounded to the nearest 100 ms, as the standard recommends.
fn hundreds(time: Duration) -> u64 {
    (time.as_nanos() + 50_000_000) / 100_000_000 * 100
}

impl ClientData {
    /// Returns the values for this amount of buffered media. If playback has not started or has
    /// stalled, the deadline is zero.
    pub(crate) fn of_buffer(buffered: Duration, plays: bool) -> Self {
        let deadline = if plays { buffered } else { Duration::ZERO };
        Self { buffered: Some(buffered), deadline: Some(deadline) }
    }

    /// Writes the header field, if at least one value is set.
    pub(super) fn push_field(&self, head: &mut String) {
        let values = [("bl", self.buffered), ("dl", self.deadline)];
        let mut separator = ": ";
        for (key, time) in values.into_iter().filter_map(|(key, time)| Some((key, time?))) {
            let name = if separator == ": " { FIELD } else { "" };
            let _ = write!(head, "{name}{separator}{key}={}", hundreds(time));
            separator = ",";
        }
        if separator == "," {
            head.push_str("\r\n");
        }
    }

    /// Parses the value of the header field. A key is ignored if its value is not a whole number.
    pub(super) fn parse(value: &str) -> Self {
        let mut quoted = false;
        let pairs = value.split(|letter| {
            quoted ^= letter == '"';
            letter == ',' && !quoted
        });
        let mut data = Self::default();
        for (key, value) in pairs.filter_map(|pair| pair.split_once('=')) {
            let time =
                || value.trim().parse::<u32>().ok().map(u64::from).map(Duration::from_millis);
            match key.trim() {
                "bl" => data.buffered = time(),
                "dl" => data.deadline = time(),
                _ => {}
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_has_the_format_of_the_standard() {
        let field = |buffered: Option<u64>, deadline: Option<u64>| {
            let (buffered, deadline) =
                (buffered.map(Duration::from_millis), deadline.map(Duration::from_millis));
            let mut head = String::new();
            ClientData { buffered, deadline }.push_field(&mut head);
            head
        };
        // CTA-5004, examples: `CMCD-Request: bl=21300,...`. Values are rounded to the nearest 100
        // ms.
        assert_eq!(field(Some(21_349), Some(18_450)), "CMCD-Request: bl=21300,dl=18500\r\n");
        assert_eq!(field(None, Some(0)), "CMCD-Request: dl=0\r\n");
        assert_eq!(field(Some(49), None), "CMCD-Request: bl=0\r\n");
        assert_eq!(field(None, None), "");
    }

    #[test]
    fn the_two_keys_are_found_among_others() {
        let data = |buffered: Option<u64>, deadline: Option<u64>| ClientData {
            buffered: buffered.map(Duration::from_millis),
            deadline: deadline.map(Duration::from_millis),
        };
        let read = ClientData::parse;
        // CTA-5004 section 3.3: keys come in any order, and quoted strings may contain commas.
        assert_eq!(read("bl=21300,dl=18500,mtp=48100,su"), data(Some(21_300), Some(18_500)));
        assert_eq!(read(r#"nor="..%2F3.m4v,bl=1",dl=700"#), data(None, Some(700)));
        assert_eq!(read(" dl=5 , bl=6"), data(Some(6), Some(5)));
        assert_eq!(read("bl,dl=-5"), data(None, None));
        assert_eq!(read("bl=99999999999999999999,dl=1.5"), data(None, None));
        assert_eq!(read(""), data(None, None));
    }
}
