//! Names for what was done to a run, so that a shorter list of it can be asked for.

use std::fmt;

/// One thing that was done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The mediator changed the segment with this number, counted over all that were sent.
    Segment(u64),
    /// The action of the case with this number took place.
    Action(u64),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Segment(number) => write!(f, "s{number}"),
            Self::Action(number) => write!(f, "a{number}"),
        }
    }
}

/// Reads a list such as `s12,s40,a1`; `none` is the empty one. `None` for anything else.
pub fn parse_marks(text: &str) -> Option<Vec<Mark>> {
    if text == "none" {
        return Some(Vec::new());
    }
    let one = |word: &str| {
        let (kind, number) = word.split_at_checked(1)?;
        let number = number.parse().ok()?;
        match kind {
            "s" => Some(Mark::Segment(number)),
            "a" => Some(Mark::Action(number)),
            _ => None,
        }
    };
    text.split(',').map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        let marks = [Mark::Segment(12), Mark::Action(0), Mark::Segment(7)];
        let text = marks.map(|mark| mark.to_string()).join(",");
        assert_eq!(text, "s12,a0,s7");
        assert_eq!(parse_marks(&text).as_deref(), Some(marks.as_slice()));
        assert_eq!(parse_marks("none"), Some(Vec::new()));
        assert_eq!(parse_marks("s1,x2"), None);
        assert_eq!(parse_marks(""), None);
    }
}
