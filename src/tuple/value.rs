//! What a field can hold.

use std::fmt;

/// The value of one field, borrowed from the batch (or from the caller, when it is emitted).
#[derive(Copy, Clone, PartialEq, Debug)]
pub enum Value<'a> {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Str(&'a str),
    /// Bytes that need not be text.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The text, if it is text.
    #[must_use]
    #[inline]
    pub const fn as_str(self) -> Option<&'a str> {
        if let Self::Str(s) = self { Some(s) } else { None }
    }

    /// The whole number, if it is one.
    #[must_use]
    #[inline]
    pub const fn as_int(self) -> Option<i64> {
        if let Self::Int(i) = self { Some(i) } else { None }
    }

    /// The bytes of text or bytes.
    #[must_use]
    #[inline]
    pub const fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Str(s) => Some(s.as_bytes()),
            Self::Bytes(b) => Some(b),
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => None,
        }
    }

    /// True for [`Value::Null`].
    #[must_use]
    pub const fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// The kind's name, for messages.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "text",
            Self::Bytes(_) => "bytes",
        }
    }
}

/// Text as it is, numbers in decimal, null as nothing: the form in which a sink writes a value. Bytes that are not
/// UTF-8 are shown with replacement characters.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => Ok(()),
            Self::Bool(b) => b.fmt(f),
            Self::Int(i) => i.fmt(f),
            Self::Float(x) => x.fmt(f),
            Self::Str(s) => f.write_str(s),
            Self::Bytes(b) => f.write_str(&String::from_utf8_lossy(b)),
        }
    }
}

macro_rules! from {
    ($($t:ty => $make:expr),* $(,)?) => {$(
        impl<'a> From<$t> for Value<'a> {
            #[inline]
            fn from(value: $t) -> Self {
                let make: fn($t) -> Self = $make;
                make(value)
            }
        }
    )*};
}

from! {
    bool => |b| Self::Bool(b),
    i64 => |i| Self::Int(i),
    i32 => |i| Self::Int(i.into()),
    u32 => |i| Self::Int(i.into()),
    f64 => |x| Self::Float(x),
    &'a str => |s| Self::Str(s),
    &'a String => |s| Self::Str(s),
    &'a [u8] => |b| Self::Bytes(b),
}

impl<'a, T: Into<Self>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
