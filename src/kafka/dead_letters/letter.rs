//! A dead letter: a record that was given up, with headers behind its own that say where it stood and why. Pure.

use crate::kafka::client::{
    Offset, TopicPartition,
    record::{RecordBlock, push_header},
};

/// Every header about a letter begins with this, and no other header of a letter is ours.
const PREFIX: &str = "stormglass-";

/// What a letter may have besides the headers of its record, without the prefix.
const ABOUT: [&str; 12] = [
    "source-topic",
    "source-partition",
    "source-offset",
    "source-timestamp",
    "target-topic",
    "value-bytes",
    "error",
    "component",
    "attempts",
    "reason",
    PAYLOAD,
    REPLAY_OF,
];

/// There only where the payload was left out.
const PAYLOAD: &str = "payload";

/// On a replayed record: the letter that it was, as `TOPIC:PARTITION:OFFSET`.
const REPLAY_OF: &str = "replay-of";

/// Appends a header about a letter.
pub(super) fn push_about(name: &str, value: &str, out: &mut Vec<u8>) {
    debug_assert!(ABOUT.contains(&name), "{name} would stay when the letter is replayed");
    push_header(format!("{PREFIX}{name}").as_bytes(), Some(value.as_bytes()), out);
}

/// Says that the payload is not there.
pub(super) fn push_payload_left_out(out: &mut Vec<u8>) {
    push_about(PAYLOAD, "left out: too large", out);
}

/// A dead letter as it was read: record `at` of a block.
#[derive(Copy, Clone, Debug)]
pub struct DeadLetter<'a> {
    block: &'a RecordBlock,
    at: usize,
}

impl<'a> DeadLetter<'a> {
    /// The letter that is record `at` of the block.
    #[must_use]
    pub const fn new(block: &'a RecordBlock, at: usize) -> Self {
        Self { block, at }
    }

    /// The value of the header about it that is called `name` without the prefix, `reason` for example. The last one
    /// counts: headers before may be the record's own.
    #[must_use]
    pub fn about(&self, name: &str) -> Option<&'a str> {
        let is_it = |key: &[u8]| key.strip_prefix(PREFIX.as_bytes()) == Some(name.as_bytes());
        let value = self.block.headers(self.at).filter(|(key, _)| is_it(key)).last()?.1?;
        std::str::from_utf8(value).ok()
    }

    /// Where the record stood that was given up. `None` for an output, and for a record that is no dead letter.
    #[must_use]
    pub fn source(&self) -> Option<(TopicPartition, Offset)> {
        let (topic, partition) = (self.about("source-topic")?, self.about("source-partition")?.parse().ok()?);
        Some((TopicPartition::new(topic, partition), Offset(self.about("source-offset")?.parse().ok()?)))
    }

    /// Where an output should have gone that was given up.
    #[must_use]
    pub fn target(&self) -> Option<&'a str> {
        self.about("target-topic")
    }

    /// Whether the record's value is here. An output that was too large never has it.
    #[must_use]
    pub fn has_payload(&self) -> bool {
        self.about(PAYLOAD).is_none() && self.target().is_none()
    }

    /// The headers that the record itself had, and one behind them that names this letter.
    #[must_use]
    pub fn headers_for_replay(&self) -> Vec<u8> {
        let mut headers = Vec::new();
        let own = |key: &[u8]| !ABOUT.iter().any(|name| key.strip_prefix(PREFIX.as_bytes()) == Some(name.as_bytes()));
        for (key, value) in self.block.headers(self.at).filter(|(key, _)| own(key)) {
            push_header(key, value, &mut headers);
        }
        let TopicPartition { topic, partition } = &self.block.partition;
        let offset = self.block.records().get(self.at).map_or(0, |head| head.offset.0);
        push_about(REPLAY_OF, &format!("{topic}:{partition}:{offset}"), &mut headers);
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::client::{AssignmentEpoch, record::Headers};

    fn block(headers: &[(&str, &str)]) -> RecordBlock {
        let mut encoded = Vec::new();
        headers.iter().for_each(|(name, value)| push_header(name.as_bytes(), Some(value.as_bytes()), &mut encoded));
        let mut block = RecordBlock::new(TopicPartition::new("dead", 2), AssignmentEpoch(0));
        block.push(Offset(17), 0, None, Some(b"line"), &encoded);
        block
    }

    const SOURCE: [(&str, &str); 3] = [
        ("stormglass-source-topic", "lines"),
        ("stormglass-source-partition", "3"),
        ("stormglass-source-offset", "1234"),
    ];

    #[test]
    fn a_letter_says_where_its_record_stood() {
        let block = block(&SOURCE);
        let letter = DeadLetter::new(&block, 0);
        assert_eq!(letter.source(), Some((TopicPartition::new("lines", 3), Offset(1234))));
        assert!(letter.has_payload() && letter.target().is_none());
    }

    #[test]
    fn of_two_headers_of_a_name_the_one_that_was_added_last_counts() {
        let block = block(&[("stormglass-reason", "of the record"), ("stormglass-reason", "not_utf8")]);
        assert_eq!(DeadLetter::new(&block, 0).about("reason"), Some("not_utf8"));
    }

    #[test]
    fn a_replay_has_the_records_own_headers_and_names_the_letter() {
        let own = [("h", "1"), ("stormglass-lineage", "7"), ("stormglass-replay-of", "dead:0:1")];
        let block = block(&[&own[..], &SOURCE].concat());
        let replayed = DeadLetter::new(&block, 0).headers_for_replay();
        let replayed: Vec<_> = Headers::decode(&replayed).map(|(name, value)| (name, value.unwrap())).collect();
        let expected = [("h", "1"), ("stormglass-lineage", "7"), ("stormglass-replay-of", "dead:2:17")];
        assert_eq!(replayed, expected.map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    }

    #[test]
    fn what_was_left_out_is_no_payload() {
        let mut headers = Vec::new();
        push_payload_left_out(&mut headers);
        let mut without = RecordBlock::new(TopicPartition::new("dead", 0), AssignmentEpoch(0));
        without.push(Offset(0), 0, None, None, &headers);
        assert!(!DeadLetter::new(&without, 0).has_payload());
        assert!(!DeadLetter::new(&block(&[("stormglass-target-topic", "counts")]), 0).has_payload());
    }
}
