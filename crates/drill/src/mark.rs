//! Identifiers of the changes in a run. A list of them selects changes for a reduced case.

use std::fmt;

/// A change in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The change of a segment by the mediator. Segments are numbered in the order in which they are sent.
    Segment(u64),
    /// An action of the case, by its number.
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

/// Parses a list such as `s12,s40,a1`, or `none` for the empty list. Returns `None` for other text.
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
    fn a_formatted_list_is_parsed_back() {
        let marks = [Mark::Segment(12), Mark::Action(0), Mark::Segment(7)];
        let text = marks.map(|mark| mark.to_string()).join(",");
        assert_eq!(text, "s12,a0,s7");
        assert_eq!(parse_marks(&text).as_deref(), Some(marks.as_slice()));
        assert_eq!(parse_marks("none"), Some(Vec::new()));
        assert_eq!(parse_marks("s1,x2"), None);
        assert_eq!(parse_marks(""), None);
    }
}
