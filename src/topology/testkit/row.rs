//! Tuples that a test owns and compares.

use std::fmt;

use crate::tuple::{Tuple, Value};

/// The value of one field, owned and ordered, so that tuples can be sorted and compared as multisets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnedValue {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// The bits of a floating-point number.
    Float(u64),
    /// Text.
    Str(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The values of one tuple, owned.
pub type Row = Vec<OwnedValue>;

/// A row of these values: `row(&["storm".into(), 1.into()])`.
#[must_use]
pub fn row(values: &[Value<'_>]) -> Row {
    values.iter().map(|value| OwnedValue::from(*value)).collect()
}

/// Rows of one text each: lines or words.
pub fn rows<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Vec<Row> {
    texts.into_iter().map(|text| row(&[Value::Str(text.as_ref())])).collect()
}

pub(crate) fn of_tuple(tuple: &Tuple<'_>) -> Row {
    tuple.values().map(OwnedValue::from).collect()
}

impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(b),
            Value::Int(i) => Self::Int(i),
            Value::Float(x) => Self::Float(x.to_bits()),
            Value::Str(s) => Self::Str(s.to_owned()),
            Value::Bytes(b) => Self::Bytes(b.to_owned()),
        }
    }
}

impl OwnedValue {
    /// The value, borrowed.
    #[must_use]
    pub fn as_value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(i) => Value::Int(*i),
            Self::Float(bits) => Value::Float(f64::from_bits(*bits)),
            Self::Str(s) => Value::Str(s),
            Self::Bytes(b) => Value::Bytes(b),
        }
    }
}

impl fmt::Debug for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(s) => write!(f, "{s:?}"),
            _ => self.as_value().fmt(f),
        }
    }
}
