//! Values of metrics, and their means over clients.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::arithmetic::sum;

/// Metrics by name, in the order in which they are printed.
pub type Object = Vec<(String, Value)>;

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not available.
    Null,
    /// A flag.
    Flag(bool),
    /// A count.
    Whole(i64),
    /// A number.
    Number(f64),
    /// A name.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Metrics by name.
    Object(Object),
}

impl Value {
    /// Converts a count that was computed as a double. The result is a number if it is not whole, and null if
    /// it is NaN.
    pub fn whole(number: f64) -> Self {
        if number.fract() == 0.0 { Self::Whole(number as i64) } else { Self::number(number) }
    }

    /// Converts a number; NaN becomes null.
    pub fn number(number: f64) -> Self {
        if number.is_nan() { Self::Null } else { Self::Number(number) }
    }

    /// Returns the value as a number; `None` if it is not a number.
    fn as_number(&self) -> Option<f64> {
        match self {
            Self::Whole(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::number)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Whole(count) => serializer.serialize_i64(*count),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => values.serialize(serializer),
            Self::Object(object) => {
                let mut map = serializer.serialize_map(Some(object.len()))?;
                for (key, value) in object {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// Creates an object of these metrics.
pub(crate) fn object<const N: usize>(metrics: [(&str, Value); N]) -> Object {
    metrics.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns a metric of an object.
pub(crate) fn get<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.iter().find(|(known, _)| known == key).map(|(_, value)| value)
}

/// Returns the mean of objects with equal keys, for each key. A single object is returned unchanged.
pub fn mean(each: &[&Object]) -> Object {
    match each {
        [] => Object::new(),
        [one] => (*one).clone(),
        [first, ..] => first
            .iter()
            .map(|(key, _)| {
                let values: Vec<_> = each.iter().filter_map(|one| get(one, key)).collect();
                (key.clone(), mean_value(&values))
            })
            .collect(),
    }
}

/// Returns the mean of one metric over the clients in which it is not null.
fn mean_value(values: &[&Value]) -> Value {
    let known: Vec<_> = values.iter().copied().filter(|value| **value != Value::Null).collect();
    let Some(first) = known.first() else { return Value::Null };
    match first {
        Value::Flag(_) => Value::Flag(known.iter().all(|value| **value == Value::Flag(true))),
        Value::Whole(_) | Value::Number(_) => {
            let sum = sum(known.iter().filter_map(|value| value.as_number()));
            Value::Number(sum / known.len() as f64)
        }
        Value::Object(_) => Value::Object(mean(&objects(known.iter().copied()))),
        Value::List(_) => by_path(&known),
        Value::Null | Value::Text(_) => (*first).clone(),
    }
}

fn objects<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<&'a Object> {
    let object = |value: &'a Value| match value {
        Value::Object(object) => Some(object),
        _ => None,
    };
    values.filter_map(object).collect()
}

/// Returns the mean of lists that have one object for each path.
fn by_path(lists: &[&Value]) -> Value {
    let items = lists.iter().flat_map(|list| match list {
        Value::List(items) => &items[..],
        _ => &[],
    });
    let items = objects(items);
    let mut paths: Vec<&Value> = Vec::new();
    for path in items.iter().filter_map(|item| get(item, "path")) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let of = |path: &Value| {
        let own: Vec<_> =
            items.iter().copied().filter(|item| get(item, "path") == Some(path)).collect();
        Value::Object(mean(&own))
    };
    Value::List(paths.into_iter().map(of).collect())
}
