//! The records of a changelog: entries, and the two that are none.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{OffsetRanges, Position, SourcePosition};

/// The version of both records. A later program that changes their meaning counts it up.
const VERSION: u32 = 1;

/// What a changelog record's key says it is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RecordKey<'a> {
    /// An entry of the store with this key.
    Entry(&'a [u8]),
    /// What the store is: a [`FormatRecord`].
    Format,
    /// What the flush belongs to: a [`Position`].
    Position,
}

const ENTRY: u8 = 1;
const FORMAT: &[u8] = b"\0format";
const POSITION: &[u8] = b"\0position";

impl<'a> RecordKey<'a> {
    /// Appends the key's bytes.
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::Entry(key) => {
                out.push(ENTRY);
                out.extend_from_slice(key);
            }
            Self::Format => out.extend_from_slice(FORMAT),
            Self::Position => out.extend_from_slice(POSITION),
        }
    }

    /// Reads a key; `None` if it is no key of a changelog.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        match bytes {
            [ENTRY, key @ ..] => Some(Self::Entry(key)),
            FORMAT => Some(Self::Format),
            POSITION => Some(Self::Position),
            _ => None,
        }
    }
}

/// A record that cannot be used: a sentence.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordError {
    /// It is not what such a record looks like.
    #[error("the changelog's {record} record cannot be read: {why}")]
    Unreadable {
        /// `format` or `position`.
        record: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A later program has written it.
    #[error(
        "the changelog's {record} record is of version {version}, this program knows versions up to {VERSION}: a later \
         stormglass has written it. Use that one"
    )]
    Newer {
        /// `format` or `position`.
        record: &'static str,
        /// Its version.
        version: u32,
    },
    /// The changelog is another's.
    #[error("the changelog is of {what} {found}, but this is {what} {expected}: {advice}")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// What the record says.
        found: String,
        /// What the topology says.
        expected: String,
        /// What to do.
        advice: &'static str,
    },
}

/// Says whose a changelog is, and what is in it. The first record of every store's topic.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FormatRecord {
    /// The app: its consumer group.
    pub app: String,
    /// The bolt that owns the store.
    pub component: String,
    /// The store's name within its bolt.
    pub store: String,
    /// The type of its keys, as [`KeyType`](super::KeyType) prints it.
    pub key: String,
    /// The type of its values, as [`ValueType`](super::ValueType) prints it.
    pub value: String,
    /// Key groups, which are the topic's partitions.
    pub key_groups: u16,
}

/// A record with its version.
#[derive(Serialize)]
struct Versioned<T> {
    version: u32,
    #[serde(flatten)]
    record: T,
}

/// Of a record of any version.
#[derive(Deserialize)]
#[serde(expecting = "an object with a version")]
struct JustVersion {
    version: u32,
}

fn encode<T: Serialize>(record: T) -> Vec<u8> {
    // Text, numbers and lists of them can always be written.
    serde_json::to_vec(&Versioned { version: VERSION, record }).unwrap_or_default()
}

fn decode<T: DeserializeOwned>(record: &'static str, bytes: &[u8]) -> Result<T, RecordError> {
    let unreadable = |error: serde_json::Error| RecordError::Unreadable { record, why: error.to_string() };
    let JustVersion { version } = serde_json::from_slice(bytes).map_err(unreadable)?;
    if version > VERSION {
        return Err(RecordError::Newer { record, version });
    }
    // Its version is one more field that it does not know: read as a part of it, the rest would be kept and read again.
    serde_json::from_slice(bytes).map_err(unreadable)
}

impl FormatRecord {
    /// The record's bytes: JSON with a version.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// It is no such record, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        decode("format", bytes)
    }

    /// Whether a changelog with the record `found` may be used as this one's.
    ///
    /// # Errors
    /// The first thing that differs, with both values.
    pub fn check(&self, found: &Self) -> Result<(), RecordError> {
        const OTHER: &str = "two apps must not share a changelog. Use another group";
        const TYPES: &str = "its entries cannot be read so. Go back to the former type, or give the store another name";
        const GROUPS: &str = "their number is fixed for the life of a state. Go back to the former number";
        let quoted = |text: &String| format!("\"{text}\"");
        for (what, found, expected, advice) in [
            ("app", quoted(&found.app), quoted(&self.app), OTHER),
            ("component", quoted(&found.component), quoted(&self.component), OTHER),
            ("store", quoted(&found.store), quoted(&self.store), OTHER),
            ("key type", found.key.clone(), self.key.clone(), TYPES),
            ("value type", found.value.clone(), self.value.clone(), TYPES),
            ("key group count", found.key_groups.to_string(), self.key_groups.to_string(), GROUPS),
        ] {
            if found != expected {
                return Err(RecordError::Mismatch { what, found, expected, advice });
            }
        }
        Ok(())
    }
}

#[derive(Serialize, Deserialize)]
struct PositionRecord {
    commit: u64,
    sources: Vec<SourceRecord>,
}

#[derive(Serialize, Deserialize)]
struct SourceRecord {
    source: String,
    topic: String,
    partition: i32,
    next: i64,
    done: String,
    started: i64,
    committed: Option<i64>,
}

impl Position {
    /// The position record's bytes: JSON with a version; the done-ranges as [`OffsetRanges::encode`] writes them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let source = |of: &SourcePosition| SourceRecord {
            source: of.source.clone(),
            topic: of.topic.clone(),
            partition: of.partition,
            next: of.next,
            done: of.done.encode(usize::MAX),
            started: of.started,
            committed: of.committed,
        };
        encode(PositionRecord { commit: self.commit, sources: self.sources.iter().map(source).collect() })
    }

    /// Reads a position record.
    ///
    /// # Errors
    /// It is no such record, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let PositionRecord { commit, sources } = decode("position", bytes)?;
        let source = |of: SourceRecord| {
            let why = || RecordError::Unreadable { record: "position", why: format!("\"{}\" are no ranges", of.done) };
            let done = OffsetRanges::decode(&of.done).ok_or_else(why)?;
            let SourceRecord { source, topic, partition, next, started, committed, .. } = of;
            Ok(SourcePosition { source, topic, partition, next, done, started, committed })
        };
        Ok(Self { commit, sources: sources.into_iter().map(source).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> FormatRecord {
        FormatRecord {
            app: "words".to_owned(),
            component: "count".to_owned(),
            store: "counts".to_owned(),
            key: "text".to_owned(),
            value: "uint".to_owned(),
            key_groups: 64,
        }
    }

    fn position() -> Position {
        let mut done = OffsetRanges::new();
        done.push(12, 14);
        let source = SourcePosition {
            source: "lines".to_owned(),
            topic: "in".to_owned(),
            partition: 3,
            next: 10,
            done,
            started: 20,
            committed: None,
        };
        Position { commit: 7, sources: vec![source] }
    }

    #[test]
    fn the_bytes_of_records_are_pinned() {
        insta::assert_snapshot!(String::from_utf8(format().encode()).unwrap(), @r#"{"version":1,"app":"words","component":"count","store":"counts","key":"text","value":"uint","key_groups":64}"#);
        insta::assert_snapshot!(String::from_utf8(position().encode()).unwrap(), @r#"{"version":1,"commit":7,"sources":[{"source":"lines","topic":"in","partition":3,"next":10,"done":"1.MB","started":20,"committed":null}]}"#);
    }

    #[test]
    fn records_come_back_as_they_were_and_ignore_what_they_do_not_know() {
        assert_eq!(FormatRecord::decode(&format().encode()), Ok(format()));
        assert_eq!(Position::decode(&position().encode()), Ok(position()));
        let more = br#"{"version":1,"commit":7,"sources":[],"more":[1]}"#;
        assert_eq!(Position::decode(more), Ok(Position { commit: 7, sources: Vec::new() }));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_told_why() {
        let told = |bytes: &[u8]| Position::decode(bytes).unwrap_err().to_string();
        insta::assert_snapshot!(told(br#"{"version":2,"epoch":7}"#), @"the changelog's position record is of version 2, this program knows versions up to 1: a later stormglass has written it. Use that one");
        insta::assert_snapshot!(told(b"7 commits"), @"the changelog's position record cannot be read: invalid type: integer `7`, expected an object with a version at line 1 column 1");
        insta::assert_snapshot!(told(br#"{"version":1}"#), @"the changelog's position record cannot be read: missing field `commit` at line 1 column 13");
        let ranges = String::from_utf8(position().encode()).unwrap().replace("\"1.", "\"9.");
        insta::assert_snapshot!(told(ranges.as_bytes()), @r#"the changelog's position record cannot be read: "9.MB" are no ranges"#);
        insta::assert_snapshot!(FormatRecord::decode(br#"{"version":70000}"#).unwrap_err(), @"the changelog's format record is of version 70000, this program knows versions up to 1: a later stormglass has written it. Use that one");
    }

    #[test]
    fn a_changelog_of_another_is_refused_with_both_names() {
        assert_eq!(format().check(&format()), Ok(()));
        let differs = |change: fn(&mut FormatRecord)| {
            let mut found = format();
            change(&mut found);
            format().check(&found).unwrap_err().to_string()
        };
        insta::assert_snapshot!(differs(|f| f.app = "lines".to_owned()), @r#"the changelog is of app "lines", but this is app "words": two apps must not share a changelog. Use another group"#);
        insta::assert_snapshot!(differs(|f| f.component = "sum".to_owned()), @r#"the changelog is of component "sum", but this is component "count": two apps must not share a changelog. Use another group"#);
        insta::assert_snapshot!(differs(|f| f.store = "sums".to_owned()), @r#"the changelog is of store "sums", but this is store "counts": two apps must not share a changelog. Use another group"#);
        insta::assert_snapshot!(differs(|f| f.key = "(text, int)".to_owned()), @"the changelog is of key type (text, int), but this is key type text: its entries cannot be read so. Go back to the former type, or give the store another name");
        insta::assert_snapshot!(differs(|f| f.value = "json".to_owned()), @"the changelog is of value type json, but this is value type uint: its entries cannot be read so. Go back to the former type, or give the store another name");
        insta::assert_snapshot!(differs(|f| f.key_groups = 32), @"the changelog is of key group count 32, but this is key group count 64: their number is fixed for the life of a state. Go back to the former number");
    }

    #[test]
    fn keys_of_records_tell_entries_from_what_is_none() {
        for key in [RecordKey::Entry(b""), RecordKey::Entry(b"\0format"), RecordKey::Format, RecordKey::Position] {
            let mut bytes = Vec::new();
            key.encode(&mut bytes);
            assert_eq!(RecordKey::decode(&bytes), Some(key));
        }
        for other in [&b""[..], b"format", b"\0", b"\0formats", b"\x02a"] {
            assert_eq!(RecordKey::decode(other), None);
        }
    }
}
