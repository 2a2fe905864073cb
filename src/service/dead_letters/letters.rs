//! Letters of a topic: where each one stands, and what it says about itself.

use std::{fmt, str::FromStr};

use serde::{Serialize, Serializer};

use crate::{
    kafka::{
        DeadLetter,
        client::{TopicPartition, record::RecordBlock},
    },
    service::moment,
};

/// Where a letter stands in its topic, written `PARTITION:OFFSET`; an offset alone is one of partition 0.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LetterId {
    /// The partition of the dead-letter topic.
    pub partition: i32,
    /// The offset there.
    pub offset: i64,
}

impl FromStr for LetterId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (partition, offset) = text.split_once(':').unwrap_or(("0", text));
        match (partition.parse::<u16>(), offset.parse::<u64>()) {
            (Ok(partition), Ok(offset)) if i64::try_from(offset).is_ok() => {
                Ok(Self { partition: partition.into(), offset: offset.cast_signed() })
            }
            _ => Err("write OFFSET, or PARTITION:OFFSET".to_owned()),
        }
    }
}

impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.partition, self.offset)
    }
}

/// What a letter says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Description {
    #[serde(flatten, serialize_with = "place")]
    pub(super) id: LetterId,
    /// When it was written, RFC 3339.
    pub(super) time: String,
    #[serde(skip)]
    pub(super) millis: i64,
    pub(super) origin: Origin,
    pub(super) component: String,
    pub(super) reason: String,
    pub(super) error: String,
    pub(super) attempts: Option<u64>,
    /// False if the value was too large to be kept.
    pub(super) has_payload: bool,
}

/// Where the record comes from that was given up, or where it should have gone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Origin {
    Source { topic: String, partition: i32, offset: i64 },
    Target { target_topic: String },
    Unknown {},
}

fn place<S: Serializer>(id: &LetterId, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap as _;
    let mut map = serializer.serialize_map(Some(2))?;
    map.serialize_entry("partition", &id.partition)?;
    map.serialize_entry("offset", &id.offset)?;
    map.end()
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source { topic, partition, offset } => write!(f, "{topic}-{partition}-{offset}"),
            Self::Target { target_topic } => write!(f, "-> {target_topic}"),
            Self::Unknown {} => f.write_str("?"),
        }
    }
}

impl Origin {
    /// The topic of the source, or of the target.
    pub(super) fn topic(&self) -> Option<&str> {
        match self {
            Self::Source { topic, .. } | Self::Target { target_topic: topic } => Some(topic),
            Self::Unknown {} => None,
        }
    }
}

impl Description {
    /// Of record `at` of a block.
    pub(super) fn of(block: &RecordBlock, at: usize) -> Self {
        let letter = DeadLetter::new(block, at);
        let (offset, millis) = block.records().get(at).map_or((0, 0), |head| (head.offset.0, head.timestamp));
        let text = |name| letter.about(name).unwrap_or_default().to_owned();
        let origin = match (letter.source(), letter.target()) {
            (Some((TopicPartition { topic, partition }, offset)), _) => {
                Origin::Source { topic: topic.to_string(), partition, offset: offset.0 }
            }
            (None, Some(target)) => Origin::Target { target_topic: target.to_owned() },
            (None, None) => Origin::Unknown {},
        };
        Self {
            id: LetterId { partition: block.partition.partition, offset },
            time: moment::show(millis),
            millis,
            origin,
            component: text("component"),
            reason: text("reason"),
            error: text("error"),
            attempts: letter.about("attempts").and_then(|n| n.parse().ok()),
            has_payload: letter.has_payload(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_named_by_its_offset_or_by_partition_and_offset() {
        let id = |text: &str| text.parse().map(|LetterId { partition, offset }| (partition, offset));
        assert_eq!([id("17"), id("3:17"), id("0:0")], [Ok((0, 17)), Ok((3, 17)), Ok((0, 0))]);
        for wrong in ["", ":", "3:", "-1", "a:1", "1:2:3", "1:-2", "70000:1"] {
            assert!(id(wrong).is_err(), "{wrong}");
        }
        assert_eq!(LetterId { partition: 3, offset: 17 }.to_string(), "3:17");
    }
}
