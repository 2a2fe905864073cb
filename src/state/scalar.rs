//! The types of one value in a key or of a value that is not composite, and their bytes.

use std::fmt;

use serde_json::Value as Json;

/// What a key is made of, and most values too.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ScalarType {
    /// UTF-8 text: its bytes.
    Text,
    /// Bytes: as they are.
    Bytes,
    /// A signed whole number: 8 bytes, big-endian, the sign bit flipped, so that bytes sort as numbers.
    Int,
    /// An unsigned whole number: 8 bytes, big-endian.
    Uint,
    /// A floating-point number: its IEEE 754 bits as 8 bytes, big-endian; the sign bit flipped, and of a negative number
    /// all bits. Bytes then sort as IEEE 754's totalOrder.
    Float,
    /// A truth value: one byte, 0 or 1.
    Bool,
}

/// Encoded bytes are not what their type writes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The wrong number of bytes.
    #[error("{bytes} bytes are no {kind}")]
    Length {
        /// The type's name.
        kind: &'static str,
        /// How many bytes there are.
        bytes: usize,
    },
    /// Bytes that are not UTF-8.
    #[error("not UTF-8 from byte {valid} on")]
    NotUtf8 {
        /// Bytes that are.
        valid: usize,
    },
    /// A byte that is neither 0 nor 1 where a truth value or the mark of an optional part stands.
    #[error("{byte} stands where 0 or 1 belongs")]
    NotBool {
        /// The byte.
        byte: u8,
    },
    /// A part of a composite key has no end, or an escape that does not exist.
    #[error("a part of a composite key has no end")]
    NoEnd,
    /// Text that is not JSON.
    #[error("not JSON: {0}")]
    NotJson(String),
}

/// Text that a person typed is not of the type that it should be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{text}\" is no {kind}{hint}")]
pub struct NotOfType {
    /// What was typed.
    pub text: String,
    /// The type.
    pub kind: String,
    /// How the type is written, after a colon; empty if there is nothing to say.
    pub hint: &'static str,
}

/// A Rust type whose values are scalars: `String`, `Vec<u8>`, `i64`, `u64`, `f64`, `bool`.
pub trait Scalar: 'static {
    /// A value as it is given and taken: `&str` for `String`, the number itself for numbers.
    type Ref<'a>: Copy;
    /// The type.
    const TYPE: ScalarType;

    /// Appends the bytes of a value.
    fn write(value: Self::Ref<'_>, out: &mut Vec<u8>);

    /// The bytes of a value, in `scratch` only if the value is not its own bytes.
    #[inline]
    fn bytes<'s, 'k: 's>(value: Self::Ref<'k>, scratch: &'s mut Vec<u8>) -> &'s [u8] {
        scratch.clear();
        Self::write(value, scratch);
        scratch
    }

    /// Reads a value.
    ///
    /// # Errors
    /// The bytes are not what [`Scalar::write`] writes.
    fn read(bytes: &[u8]) -> Result<Self::Ref<'_>, DecodeError>;
}

impl Scalar for String {
    type Ref<'a> = &'a str;
    const TYPE: ScalarType = ScalarType::Text;

    fn write(value: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(value.as_bytes());
    }

    #[inline]
    fn bytes<'s, 'k: 's>(value: &'k str, _: &'s mut Vec<u8>) -> &'s [u8] {
        value.as_bytes()
    }

    fn read(bytes: &[u8]) -> Result<&str, DecodeError> {
        std::str::from_utf8(bytes).map_err(|error| DecodeError::NotUtf8 { valid: error.valid_up_to() })
    }
}

impl Scalar for Vec<u8> {
    type Ref<'a> = &'a [u8];
    const TYPE: ScalarType = ScalarType::Bytes;

    fn write(value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(value);
    }

    #[inline]
    fn bytes<'s, 'k: 's>(value: &'k [u8], _: &'s mut Vec<u8>) -> &'s [u8] {
        value
    }

    fn read(bytes: &[u8]) -> Result<&[u8], DecodeError> {
        Ok(bytes)
    }
}

const SIGN: u64 = 1 << 63;

macro_rules! number {
    ($rust:ty, $kind:ident, $to_bits:expr, $from_bits:expr) => {
        impl Scalar for $rust {
            type Ref<'a> = $rust;
            const TYPE: ScalarType = ScalarType::$kind;

            #[inline]
            fn write(value: $rust, out: &mut Vec<u8>) {
                let to_bits: fn($rust) -> u64 = $to_bits;
                out.extend_from_slice(&to_bits(value).to_be_bytes());
            }

            #[inline]
            fn read(bytes: &[u8]) -> Result<$rust, DecodeError> {
                let from_bits: fn(u64) -> $rust = $from_bits;
                let wrong = |_| DecodeError::Length { kind: Self::TYPE.name(), bytes: bytes.len() };
                Ok(from_bits(u64::from_be_bytes(bytes.try_into().map_err(wrong)?)))
            }
        }
    };
}

number!(i64, Int, |i| i.cast_unsigned() ^ SIGN, |bits| (bits ^ SIGN).cast_signed());
number!(u64, Uint, |u| u, |bits| bits);
number!(
    f64,
    Float,
    |x| {
        let bits = x.to_bits();
        if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
    },
    |bits| f64::from_bits(if bits & SIGN == 0 { !bits } else { bits ^ SIGN })
);

impl Scalar for bool {
    type Ref<'a> = bool;
    const TYPE: ScalarType = ScalarType::Bool;

    fn write(value: bool, out: &mut Vec<u8>) {
        out.push(value.into());
    }

    fn read(bytes: &[u8]) -> Result<bool, DecodeError> {
        match *bytes {
            [0] => Ok(false),
            [1] => Ok(true),
            [byte] => Err(DecodeError::NotBool { byte }),
            _ => Err(DecodeError::Length { kind: Self::TYPE.name(), bytes: bytes.len() }),
        }
    }
}

impl ScalarType {
    /// Every scalar type.
    pub const ALL: [Self; 6] = [Self::Text, Self::Bytes, Self::Int, Self::Uint, Self::Float, Self::Bool];

    /// The type's name in the changelog's format record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Float => "float",
            Self::Bool => "bool",
        }
    }

    /// The type of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Encoded bytes as JSON: bytes as hexadecimal text, numbers that JSON lacks (`inf`, `-inf`, `NaN`) as text.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn to_json(self, bytes: &[u8]) -> Result<Json, DecodeError> {
        Ok(match self {
            Self::Text => String::read(bytes)?.into(),
            Self::Bytes => Json::String(hex(bytes)),
            Self::Int => i64::read(bytes)?.into(),
            Self::Uint => u64::read(bytes)?.into(),
            Self::Float => {
                let x = f64::read(bytes)?;
                serde_json::Number::from_f64(x).map_or_else(|| Json::String(x.to_string()), Json::Number)
            }
            Self::Bool => bool::read(bytes)?.into(),
        })
    }

    /// Appends the bytes of what a person typed.
    ///
    /// # Errors
    /// It is not of the type.
    pub fn parse(self, text: &str, out: &mut Vec<u8>) -> Result<(), NotOfType> {
        let wrong = |hint| NotOfType { text: text.to_owned(), kind: self.name().to_owned(), hint };
        match self {
            Self::Text => String::write(text, out),
            Self::Bytes => out.extend(unhex(text).ok_or_else(|| wrong(": write two hexadecimal digits a byte"))?),
            Self::Int => i64::write(text.parse().map_err(|_| wrong(""))?, out),
            Self::Uint => u64::write(text.parse().map_err(|_| wrong(": write a whole number from 0 on"))?, out),
            Self::Float => f64::write(text.parse().map_err(|_| wrong(""))?, out),
            Self::Bool => bool::write(text.parse().map_err(|_| wrong(": write true or false"))?, out),
        }
        Ok(())
    }
}

impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let pairs = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(pairs.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
