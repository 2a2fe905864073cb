//! From a record's bytes to a value of a tuple. Pure.

use crate::{metrics::DeadLetterReason, tuple::Value};

/// What a record's value is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// Text in UTF-8.
    #[default]
    Text,
    /// JSON.
    Json {
        /// Where in it (RFC 6901, as `/user/name`); `None`: the whole value.
        pointer: Option<String>,
    },
}

/// What becomes of a record that is not what it should be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It goes on: invalid UTF-8 with replacement characters, empty text as empty text, null without being emitted.
    Pass,
    /// It goes to the dead-letter topic at once: no retry would help.
    DeadLetter,
}

/// How records are decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decoder {
    /// Default text.
    pub format: Format,
    /// For what is no UTF-8. Default dead-letter.
    pub non_utf8: Policy,
    /// For null and empty values. Default pass: null (a tombstone) counts as done without being emitted, empty text is
    /// emitted. Only spaces are text like any other.
    pub empty: Policy,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { format: Format::Text, non_utf8: Policy::DeadLetter, empty: Policy::Pass }
    }
}

/// Memory for what cannot be a slice of the record; kept from record to record.
#[derive(Debug, Default)]
pub struct Scratch {
    text: String,
    json: serde_json::Value,
}

/// A record that cannot be decoded: why, and a sentence about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Undecodable {
    /// Why.
    pub reason: DeadLetterReason,
    /// Why, with what was found.
    pub message: String,
}

fn refuse(reason: DeadLetterReason, message: impl Into<String>) -> Undecodable {
    Undecodable { reason, message: message.into() }
}

impl Decoder {
    /// The value to emit; `None` if there is nothing to emit and the record is done.
    ///
    /// # Errors
    /// The record is for the dead-letter topic.
    #[inline]
    pub fn decode<'a>(
        &self,
        bytes: Option<&'a [u8]>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Value<'a>>, Undecodable> {
        if matches!(self.format, Format::Text)
            && let Some(bytes) = bytes
            && !bytes.is_empty()
            && let Ok(text) = str::from_utf8(bytes)
        {
            return Ok(Some(Value::Str(text)));
        }
        self.decode_other(bytes, scratch)
    }

    #[inline(never)]
    fn decode_other<'a>(
        &self,
        bytes: Option<&'a [u8]>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Value<'a>>, Undecodable> {
        match bytes {
            None if self.empty == Policy::DeadLetter => Err(refuse(DeadLetterReason::Empty, "the value is null")),
            None => Ok(None),
            Some([]) if self.empty == Policy::DeadLetter => Err(refuse(DeadLetterReason::Empty, "the value is empty")),
            Some(bytes) => match &self.format {
                Format::Text => self.text(bytes, scratch).map(Some),
                Format::Json { pointer } => json(bytes, pointer.as_deref(), scratch).map(Some),
            },
        }
    }

    fn text<'a>(&self, bytes: &'a [u8], scratch: &'a mut Scratch) -> Result<Value<'a>, Undecodable> {
        match str::from_utf8(bytes) {
            Ok(text) => Ok(Value::Str(text)),
            Err(error) if self.non_utf8 == Policy::DeadLetter => {
                Err(refuse(DeadLetterReason::NotUtf8, format!("the value is no UTF-8: {error}")))
            }
            Err(_) => {
                scratch.text.clear();
                scratch.text.push_str(&String::from_utf8_lossy(bytes));
                Ok(Value::Str(&scratch.text))
            }
        }
    }
}

fn json<'a>(bytes: &'a [u8], pointer: Option<&str>, scratch: &'a mut Scratch) -> Result<Value<'a>, Undecodable> {
    scratch.json = serde_json::from_slice(bytes)
        .map_err(|error| refuse(DeadLetterReason::MalformedJson, format!("the value is no JSON: {error}")))?;
    let Some(found) = scratch.json.pointer(pointer.unwrap_or_default()) else {
        let message = format!("the value has nothing at {:?}", pointer.unwrap_or_default());
        return Err(refuse(DeadLetterReason::MissingField, message));
    };
    Ok(match found {
        serde_json::Value::String(text) => Value::Str(text),
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => Value::Int(i),
            (None, x) => Value::Float(x.unwrap_or(f64::NAN)),
        },
        // The whole value, as it came. It was parsed, so it is UTF-8.
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) if pointer.is_none() => {
            Value::Str(str::from_utf8(bytes).unwrap_or_default())
        }
        other => {
            let kind = match other {
                serde_json::Value::Null => "null",
                serde_json::Value::Array(_) => "an array",
                _ => "an object",
            };
            let message = format!("the value has {kind} at {:?}, not text", pointer.unwrap_or_default());
            return Err(refuse(DeadLetterReason::MissingField, message));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(decoder: &Decoder, bytes: Option<&[u8]>) -> String {
        let mut scratch = Scratch::default();
        match decoder.decode(bytes, &mut scratch) {
            Ok(None) => "nothing".into(),
            Ok(Some(value)) => format!("{value:?}"),
            Err(refused) => format!("{}: {}", refused.reason.label(), refused.message),
        }
    }

    fn json(pointer: Option<&str>) -> Decoder {
        Decoder { format: Format::Json { pointer: pointer.map(Into::into) }, ..Decoder::default() }
    }

    #[test]
    fn every_strange_text_has_a_defined_outcome() {
        let strict = Decoder { empty: Policy::DeadLetter, ..Decoder::default() };
        let lossy = Decoder { non_utf8: Policy::Pass, ..Decoder::default() };
        let default = Decoder::default();
        assert_eq!(show(&default, None), "nothing");
        assert_eq!(show(&default, Some(b"")), "Str(\"\")");
        assert_eq!(show(&default, Some(b"  ")), "Str(\"  \")");
        assert_eq!(show(&strict, None), "empty: the value is null");
        assert_eq!(show(&strict, Some(b"")), "empty: the value is empty");
        assert_eq!(show(&strict, Some(b"x")), "Str(\"x\")");
        assert!(show(&default, Some(b"a\xffb")).starts_with("not_utf8: the value is no UTF-8: invalid"));
        assert_eq!(show(&lossy, Some(b"a\xffb")), "Str(\"a\u{fffd}b\")");
    }

    #[test]
    fn json_gives_what_the_pointer_leads_to() {
        let value: Option<&[u8]> = Some(br#"{"a":{"b":["x",7,1.5,true,null,18446744073709551615]}}"#);
        let at = |pointer| show(&json(Some(pointer)), value);
        assert_eq!(at("/a/b/0"), "Str(\"x\")");
        assert_eq!(at("/a/b/1"), "Int(7)");
        assert_eq!(at("/a/b/2"), "Float(1.5)");
        assert_eq!(at("/a/b/3"), "Bool(true)");
        assert_eq!(at("/a/b/4"), "missing_field: the value has null at \"/a/b/4\", not text");
        assert_eq!(at("/a/b/5"), "Float(1.8446744073709552e19)");
        assert_eq!(at("/a"), "missing_field: the value has an object at \"/a\", not text");
        assert_eq!(at("/c"), "missing_field: the value has nothing at \"/c\"");
        assert_eq!(show(&json(None), Some(b"[1, 2]")), "Str(\"[1, 2]\")");
        assert_eq!(show(&json(None), Some(b"\"text\"")), "Str(\"text\")");
    }

    #[test]
    fn malformed_json_is_refused_even_if_it_is_deep_or_no_utf8() {
        for bytes in [&b"{"[..], b"", b"\xff", b"nul", &[b'['; 100_000]] {
            assert!(show(&json(None), Some(bytes)).starts_with("malformed_json: the value is no JSON"));
        }
        assert_eq!(show(&json(None), None), "nothing");
    }
}
