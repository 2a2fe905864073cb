//! The type of a store's keys as a value: what a format record names, and what reads keys without their Rust type.

use std::{fmt, str::FromStr};

use serde_json::Value as Json;

use super::scalar::{DecodeError, NotOfType, ScalarType};

/// The type of one part of a key.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PartType {
    /// Of what is there.
    pub scalar: ScalarType,
    /// Whether it may be absent: then one byte stands before it, 1, or 0 and nothing more if it is.
    pub optional: bool,
}

/// The type of a store's keys: `text`, `int?`, `(text, uint)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyType(Vec<PartType>);

/// A name that is no type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("\"{0}\" is no type of a key: a key is text, bytes, int, uint, float or bool, one of them with ? or (2, or 3)")]
pub struct NoKeyType(pub String);

/// Appends a part that others follow: 0 becomes 0 255, so that 0 1 can end it and sorts before all that may follow
/// (as CockroachDB encodes bytes in ascending order).
pub(super) fn escape(part: &[u8], out: &mut Vec<u8>) {
    for &byte in part {
        out.push(byte);
        if byte == 0 {
            out.push(255);
        }
    }
}

/// Ends a part that was escaped.
pub(super) fn end(out: &mut Vec<u8>) {
    out.extend([0, 1]);
}

/// Appends the first part of `bytes`, unescaped; what follows it.
pub(super) fn take_part<'a>(bytes: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], DecodeError> {
    let mut rest = bytes;
    loop {
        match *rest {
            [0, 1, ref after @ ..] => return Ok(after),
            [0, 255, ref after @ ..] => {
                out.push(0);
                rest = after;
            }
            [] | [0, ..] => return Err(DecodeError::NoEnd),
            [byte, ref after @ ..] => {
                out.push(byte);
                rest = after;
            }
        }
    }
}

impl PartType {
    /// What stands behind the first byte of an optional part.
    pub(super) fn unwrap(bytes: &[u8]) -> Result<Option<&[u8]>, DecodeError> {
        match *bytes {
            [0] => Ok(None),
            [1, ref value @ ..] => Ok(Some(value)),
            [0, ref more @ ..] => Err(DecodeError::Length { kind: "null", bytes: more.len() }),
            [byte, ..] => Err(DecodeError::NotBool { byte }),
            [] => Err(DecodeError::Length { kind: "optional", bytes: 0 }),
        }
    }

    fn to_json(self, bytes: &[u8]) -> Result<Json, DecodeError> {
        if !self.optional {
            return self.scalar.to_json(bytes);
        }
        Self::unwrap(bytes)?.map_or(Ok(Json::Null), |value| self.scalar.to_json(value))
    }

    fn parse_json(self, json: &Json, out: &mut Vec<u8>) -> Result<(), NotOfType> {
        if self.optional {
            out.push((!json.is_null()).into());
            if json.is_null() {
                return Ok(());
            }
        }
        match (json, self.scalar) {
            // Text is quoted, bytes are quoted, and so are numbers that JSON lacks.
            (Json::String(text), ScalarType::Text | ScalarType::Bytes | ScalarType::Float) => {
                self.scalar.parse(text, out)
            }
            (Json::Number(number), ScalarType::Int | ScalarType::Uint | ScalarType::Float) => {
                self.scalar.parse(&number.to_string(), out)
            }
            (Json::Bool(b), ScalarType::Bool) => self.scalar.parse(&b.to_string(), out),
            _ => Err(NotOfType { text: json.to_string(), kind: self.to_string(), hint: "" }),
        }
    }
}

impl KeyType {
    /// Most parts of a key.
    pub const MAX_PARTS: usize = 3;

    pub(super) const fn of(parts: Vec<PartType>) -> Self {
        Self(parts)
    }

    /// An encoded key for a person: one part that is always there as it is, everything else as JSON.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn print(&self, key: &[u8]) -> Result<String, DecodeError> {
        Ok(match (self.to_json(key)?, self.plain()) {
            (Json::String(text), Some(_)) => text,
            (json, _) => json.to_string(),
        })
    }

    /// The type, if it is one part that is always there.
    fn plain(&self) -> Option<ScalarType> {
        if let [PartType { scalar, optional: false }] = self.0.as_slice() { Some(*scalar) } else { None }
    }

    /// An encoded key as JSON: an array if it is composite. Bytes are hexadecimal text.
    ///
    /// # Errors
    /// The bytes are not of the type.
    pub fn to_json(&self, key: &[u8]) -> Result<Json, DecodeError> {
        let Some((last, parts)) = self.0.split_last() else { return Err(DecodeError::NoEnd) };
        if parts.is_empty() {
            return last.to_json(key);
        }
        let (mut array, mut rest) = (Vec::with_capacity(self.0.len()), key);
        for part in parts {
            let mut bytes = Vec::new();
            rest = take_part(rest, &mut bytes)?;
            array.push(part.to_json(&bytes)?);
        }
        array.push(last.to_json(rest)?);
        Ok(Json::Array(array))
    }

    /// The bytes of a key as [`KeyType::print`] prints it.
    ///
    /// # Errors
    /// The text is no key of this type.
    pub fn parse(&self, text: &str) -> Result<Vec<u8>, NotOfType> {
        let mut out = Vec::new();
        if let Some(scalar) = self.plain() {
            scalar.parse(text, &mut out)?;
            return Ok(out);
        }
        let wrong = |hint| NotOfType { text: text.to_owned(), kind: self.to_string(), hint };
        let json = serde_json::from_str(text).map_err(|_| wrong(": write it as JSON"))?;
        let array = match json {
            Json::Array(array) if self.0.len() > 1 => array,
            json if self.0.len() == 1 => vec![json],
            _ => return Err(wrong(": write an array in JSON")),
        };
        if array.len() != self.0.len() {
            return Err(wrong(": it has another number of parts"));
        }
        for (left, (part, json)) in (0..array.len()).rev().zip(self.0.iter().zip(&array)) {
            let mut bytes = Vec::new();
            part.parse_json(json, &mut bytes)?;
            if left == 0 {
                out.extend_from_slice(&bytes);
            } else {
                escape(&bytes, &mut out);
                end(&mut out);
            }
        }
        Ok(out)
    }
}

impl fmt::Display for PartType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.scalar, if self.optional { "?" } else { "" })
    }
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [part] => part.fmt(f),
            parts => {
                let names: Vec<_> = parts.iter().map(PartType::to_string).collect();
                write!(f, "({})", names.join(", "))
            }
        }
    }
}

impl FromStr for KeyType {
    type Err = NoKeyType;

    fn from_str(name: &str) -> Result<Self, NoKeyType> {
        let part = |name: &str| {
            let (scalar, optional) = name.strip_suffix('?').map_or((name, false), |scalar| (scalar, true));
            Some(PartType { scalar: ScalarType::named(scalar)?, optional })
        };
        let composite = name.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        let parts: Option<Vec<_>> = match composite {
            Some(parts) => parts.split(", ").map(part).collect(),
            None => part(name).map(|part| vec![part]),
        };
        parts
            .filter(|parts| composite.is_none() || (2..=Self::MAX_PARTS).contains(&parts.len()))
            .map(Self)
            .ok_or_else(|| NoKeyType(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_types_are_refused() {
        for name in ["", "texts", "text??", "(text)", "(text, int", "(text, int, int, int)", "((text, int), int)"] {
            assert_eq!(name.parse::<KeyType>(), Err(NoKeyType(name.to_owned())));
        }
    }

    #[test]
    fn a_key_that_a_person_types_is_read_or_refused_with_a_sentence() {
        let parse = |kind: &str, text: &str| kind.parse::<KeyType>().unwrap().parse(text).map_err(|e| e.to_string());
        assert_eq!(parse("text", "12"), Ok(b"12".to_vec()));
        assert_eq!((parse("text?", "null"), parse("text?", "\"null\"")), (Ok(vec![0]), Ok(b"\x01null".to_vec())));
        assert_eq!(parse("(text, bool)", "[\"a\", true]"), Ok(vec![b'a', 0, 1, 1]));
        let refused = |kind, text| parse(kind, text).unwrap_err();
        assert_eq!(refused("int", "x"), "\"x\" is no int");
        assert_eq!(refused("uint", "-1"), "\"-1\" is no uint: write a whole number from 0 on");
        assert_eq!(refused("bytes", "abc"), "\"abc\" is no bytes: write two hexadecimal digits a byte");
        assert_eq!(refused("(text, int)", "a"), "\"a\" is no (text, int): write it as JSON");
        assert_eq!(refused("(text, int)", "1"), "\"1\" is no (text, int): write an array in JSON");
        assert_eq!(refused("text?", "null?"), "\"null?\" is no text?: write it as JSON");
        assert_eq!(refused("(text, int)", "[\"a\"]"), "\"[\"a\"]\" is no (text, int): it has another number of parts");
        assert_eq!(refused("(text, int)", "[\"a\", \"1\"]"), "\"\"1\"\" is no int");
        assert_eq!(refused("(int, int)", "[1, 1.5]"), "\"1.5\" is no int");
    }
}
