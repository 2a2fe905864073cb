//! Values of a store: Rust types and their bytes, and the type as a value.

use std::{fmt, str::FromStr};

use serde_json::Value as Json;

use super::scalar::{DecodeError, Scalar, ScalarType};

/// The type of a store's values. `docs/state-format.md` has the bytes.
pub trait StateValue: Sized + 'static {
    /// The type as a value.
    const TYPE: ValueType;

    /// The value's bytes: its own if it is text or bytes, else written to `scratch`.
    fn encode<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8];

    /// Reads a value.
    ///
    /// # Errors
    /// The bytes are not what [`StateValue::encode`] makes.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError>;
}

/// The type of a store's values: `text`, `uint`, `json`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ValueType {
    /// A scalar, written as in a key.
    Scalar(ScalarType),
    /// Nothing: no byte. For a store that is a set of keys.
    Unit,
    /// JSON text.
    Json,
}

/// A name that is no type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{0}\" is no type of a value: a value is text, bytes, int, uint, float, bool, unit or json")]
pub struct NoValueType(pub String);

macro_rules! value {
    ($($scalar:ty, $given:expr, $taken:expr);* $(;)?) => {$(
        impl StateValue for $scalar {
            const TYPE: ValueType = ValueType::Scalar(<$scalar as Scalar>::TYPE);

            #[inline]
            fn encode<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
                let given: fn(&$scalar) -> <$scalar as Scalar>::Ref<'_> = $given;
                <$scalar as Scalar>::bytes(given(self), scratch)
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
                <$scalar as Scalar>::read(bytes).map($taken)
            }
        }
    )*};
}

value! {
    String, |text| text.as_str(), str::to_owned;
    Vec<u8>, |bytes| bytes.as_slice(), <[u8]>::to_vec;
    i64, |i| *i, |i| i;
    u64, |u| *u, |u| u;
    f64, |x| *x, |x| x;
    bool, |b| *b, |b| b;
}

impl StateValue for () {
    const TYPE: ValueType = ValueType::Unit;

    fn encode<'s>(&'s self, _: &'s mut Vec<u8>) -> &'s [u8] {
        &[]
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.is_empty() { Ok(()) } else { Err(DecodeError::Length { kind: "unit", bytes: bytes.len() }) }
    }
}

impl StateValue for Json {
    const TYPE: ValueType = ValueType::Json;

    fn encode<'s>(&'s self, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        scratch.clear();
        // A JSON value has string keys only, and a vector takes everything.
        let written = serde_json::to_writer(&mut *scratch, self);
        debug_assert!(written.is_ok(), "a JSON value can be written");
        scratch
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        serde_json::from_slice(bytes).map_err(|error| DecodeError::NotJson(error.to_string()))
    }
}

impl ValueType {
    /// Whether every value has 8 bytes.
    #[must_use]
    pub const fn has_eight_bytes(self) -> bool {
        matches!(self, Self::Scalar(ScalarType::Int | ScalarType::Uint | ScalarType::Float))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Scalar(scalar) => scalar.name(),
            Self::Unit => "unit",
            Self::Json => "json",
        }
    }

    /// An encoded value for a person: text as it is, everything else as JSON.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn print(self, value: &[u8]) -> Result<String, DecodeError> {
        Ok(match (self, self.to_json(value)?) {
            (Self::Scalar(_), Json::String(text)) => text,
            (_, json) => json.to_string(),
        })
    }

    /// An encoded value as JSON. Bytes are hexadecimal text, the unit is null.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn to_json(self, value: &[u8]) -> Result<Json, DecodeError> {
        match self {
            Self::Scalar(scalar) => scalar.to_json(value),
            Self::Unit => <()>::decode(value).map(|()| Json::Null),
            Self::Json => Json::decode(value),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ValueType {
    type Err = NoValueType;

    fn from_str(name: &str) -> Result<Self, NoValueType> {
        match name {
            "unit" => Ok(Self::Unit),
            "json" => Ok(Self::Json),
            _ => ScalarType::named(name).map(Self::Scalar).ok_or_else(|| NoValueType(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check<V: StateValue + PartialEq + Debug>(value: &V, json: &Json) {
        let bytes = value.encode(&mut Vec::new()).to_vec();
        assert_eq!(V::decode(&bytes).as_ref(), Ok(value));
        assert_eq!(V::TYPE.to_json(&bytes).as_ref(), Ok(json));
        assert_eq!(V::TYPE.to_string().parse(), Ok(V::TYPE));
    }

    proptest! {
        #[test]
        fn values_come_back_as_they_were((i, u, b) in any::<(i64, u64, bool)>(), x in prop::num::f64::NORMAL, text in ".*", bytes: Vec<u8>) {
            check(&i, &json!(i));
            check(&u, &json!(u));
            check(&b, &json!(b));
            check(&x, &json!(x));
            check(&text, &json!(text));
            prop_assert_eq!(Vec::<u8>::decode(bytes.encode(&mut Vec::new())), Ok(bytes.clone()));
            check(&json!({ "a": [i, text] }), &json!({ "a": [i, text] }));
        }
    }

    #[test]
    fn the_bytes_of_values_are_pinned() {
        assert_eq!(7_u64.encode(&mut Vec::new()), [0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!((-0.0_f64).encode(&mut Vec::new()), [0x7f, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!("ü".to_owned().encode(&mut Vec::new()), "ü".as_bytes());
        check(&(), &Json::Null);
        check(&vec![0, 0xab], &json!("00ab"));
        assert_eq!(<()>::decode(b"x"), Err(DecodeError::Length { kind: "unit", bytes: 1 }));
        assert_eq!(<u64 as StateValue>::TYPE.print(&[0; 8]).unwrap(), "0");
        assert_eq!(Json::TYPE.print(b"\"a\"").unwrap(), "\"a\"");
        assert_eq!("integer".parse::<ValueType>(), Err(NoValueType("integer".to_owned())));
    }
}
