//! Columns, which are sequences of values of one type.

use std::collections::BTreeMap;

/// A column. Missing numbers are NaN.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Booleans.
    Bool(Vec<bool>),
    /// Floating-point numbers.
    Float(Vec<f64>),
    /// Integers.
    Int(Vec<i64>),
    /// Strings.
    Text(Words),
}

impl Column {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Bool(v) => v.len(),
            Self::Float(v) => v.len(),
            Self::Int(v) => v.len(),
            Self::Text(v) => v.len(),
        }
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the row numbers of each integer, in one pass. Integers and row numbers are in ascending order.
    /// The result is empty for a column of another type.
    pub fn group(&self) -> Vec<(i64, Vec<usize>)> {
        let Self::Int(values) = self else {
            return Vec::new();
        };
        let mut groups = BTreeMap::<i64, Vec<usize>>::new();
        for (row, value) in values.iter().enumerate() {
            groups.entry(*value).or_default().push(row);
        }
        groups.into_iter().collect()
    }

    /// Returns the values of these rows, in the order of `rows`.
    ///
    /// # Panics
    /// Panics if a row does not exist.
    #[must_use]
    pub fn take(&self, rows: &[usize]) -> Self {
        match self {
            Self::Bool(v) => Self::Bool(rows.iter().map(|row| v[*row]).collect()),
            Self::Float(v) => Self::Float(rows.iter().map(|row| v[*row]).collect()),
            Self::Int(v) => Self::Int(rows.iter().map(|row| v[*row]).collect()),
            Self::Text(v) => Self::Text(v.take(rows)),
        }
    }
}

/// Strings, many of which are equal. Each distinct string is stored once, and a row contains its number.
#[derive(Clone, Default)]
pub struct Words {
    known: Vec<String>,
    numbers: BTreeMap<String, u32>,
    rows: Vec<u32>,
}

impl Words {
    /// Adds a row.
    pub fn push(&mut self, word: &str) {
        // Sequences of words repeat, so one of the last rows usually has the same word.
        let last = self.rows.iter().rev().take(RECENT);
        let recent = last.copied().find(|number| self.known[*number as usize] == word);
        let number = recent.or_else(|| self.numbers.get(word).copied()).unwrap_or_else(|| {
            let number = self.known.len() as u32;
            self.known.push(word.to_owned());
            self.numbers.insert(word.to_owned(), number);
            number
        });
        self.rows.push(number);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the word of a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.rows.get(row).map(|number| self.known[*number as usize].as_str())
    }

    /// Returns the words of all rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        self.rows.iter().map(|number| self.known[*number as usize].as_str())
    }

    /// Returns the distinct words.
    pub fn known(&self) -> &[String] {
        &self.known
    }

    /// Returns the index in [`known`](Self::known) for the word of each row.
    pub fn numbers(&self) -> &[u32] {
        &self.rows
    }

    fn take(&self, rows: &[usize]) -> Self {
        Self { rows: rows.iter().map(|row| self.rows[*row]).collect(), ..self.without_rows() }
    }

    fn without_rows(&self) -> Self {
        Self { known: self.known.clone(), numbers: self.numbers.clone(), rows: Vec::new() }
    }
}

/// The search for an equal word covers this many of the latest rows. Two are enough for the states
/// of two subflows.
const RECENT: usize = 2;

impl std::fmt::Debug for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Words {
    /// Compares word by word. The order in [`Words::known`] does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a> FromIterator<&'a str> for Words {
    fn from_iter<I: IntoIterator<Item = &'a str>>(words: I) -> Self {
        let mut result = Self::default();
        words.into_iter().for_each(|word| result.push(word));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_stored_once_and_returned_in_every_row() {
        let text = ["wifi", "lte", "wifi", "", "lte", "starlink", "wifi"];
        let words: Words = text.into_iter().collect();
        assert_eq!(words.iter().collect::<Vec<_>>(), text);
        assert_eq!(words.known(), ["wifi", "lte", "", "starlink"]);
        assert_eq!(words.numbers(), [0, 1, 0, 2, 1, 3, 0]);
        assert_eq!((words.get(5), words.get(7)), (Some("starlink"), None));
    }

    #[test]
    fn words_are_equal_whatever_their_numbers() {
        let words: Words = ["a", "b", "a"].into_iter().collect();
        let taken = words.take(&[1, 0]);
        assert_eq!(taken, ["b", "a"].into_iter().collect());
        assert_ne!(taken, ["b"].into_iter().collect());
        assert_ne!(taken, ["a", "b"].into_iter().collect());
    }

    #[test]
    fn rows_are_grouped_in_their_order() {
        let groups = Column::Int(vec![3, 0, 3]).group();
        assert_eq!(groups, [(0, vec![1]), (3, vec![0, 2])]);
        assert_eq!(Column::Float(vec![1.0]).group(), []);
    }

    #[test]
    fn rows_are_taken_from_every_column_type() {
        let rows = [2, 0];
        assert_eq!(
            Column::Bool(vec![true, true, false]).take(&rows),
            Column::Bool(vec![false, true])
        );
        assert_eq!(Column::Int(vec![5, 6, 7]).take(&rows), Column::Int(vec![7, 5]));
        assert_eq!(Column::Float(vec![5.0, 6.0, 7.0]).take(&rows), Column::Float(vec![7.0, 5.0]));
        let text = Column::Text(["x", "y", "z"].into_iter().collect());
        assert_eq!(text.take(&rows), Column::Text(["z", "x"].into_iter().collect()));
        assert_eq!(text.take(&[]).len(), 0);
    }
}
