//! Where offsets are to be moved to. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{kafka::client::TopicPartition, service::moment};

/// What `--to` says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// The oldest record of each partition.
    Earliest,
    /// Behind the newest one.
    Latest,
    /// The first record that is not older than so many milliseconds since 1970, else behind the newest.
    Time(i64),
    /// These offsets; partitions that are not named stay where they are.
    Offsets(BTreeMap<(String, i32), i64>),
}

impl Target {
    /// Reads it, at `now` milliseconds since 1970.
    ///
    /// # Errors
    /// A sentence that says what can be written.
    pub(super) fn parse(text: &str, now: i64) -> Result<Self, String> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Ok(millis) = moment::parse(text, now) {
            return Ok(Self::Time(millis));
        }
        let offsets: Option<BTreeMap<_, _>> = text.split(',').map(offset).collect();
        // A partition that is named twice is a mistake.
        offsets.filter(|offsets| offsets.len() == text.split(',').count()).map(Self::Offsets).ok_or_else(|| {
            format!(
                "\"{text}\" is none of earliest, latest, a time (2026-11-29T20:20:20Z, or -1h for an hour ago) and \
                 TOPIC:PARTITION:OFFSET,..."
            )
        })
    }
}

fn offset(text: &str) -> Option<((String, i32), i64)> {
    let mut parts = text.trim().rsplitn(3, ':');
    let (offset, partition, topic) = (parts.next()?, parts.next()?, parts.next()?);
    let offset = offset.parse().ok().filter(|offset| *offset >= 0)?;
    let partition = partition.parse().ok().filter(|partition| *partition >= 0)?;
    (!topic.is_empty() && !topic.contains(':')).then(|| ((topic.to_owned(), partition), offset))
}

/// What is known of a partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub(super) partition: TopicPartition,
    /// Its oldest record.
    pub(super) low: i64,
    /// Behind its newest one.
    pub(super) high: i64,
    /// What the group has committed.
    pub(super) committed: Option<i64>,
    /// For [`Target::Time`]: the first record that is not older.
    pub(super) at_time: Option<i64>,
}

/// One partition's move.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Step {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// What is committed now, `null` if nothing.
    pub(super) from: Option<i64>,
    pub(super) to: i64,
    /// Offsets that will be read again.
    pub(super) again: i64,
    /// Offsets that will not be read.
    pub(super) skipped: i64,
}

/// The moves to a target. `start` is where a partition without a committed offset would begin.
///
/// # Errors
/// A sentence: an offset that the partition does not have, a partition that is not read.
pub(super) fn steps(known: &[Known], target: &Target, start: impl Fn(&Known) -> i64) -> Result<Vec<Step>, String> {
    if let Target::Offsets(offsets) = target {
        let read = |(topic, partition): &(String, i32)| {
            known.iter().any(|k| *k.partition.topic == **topic && k.partition.partition == *partition)
        };
        if let Some((topic, partition)) = offsets.keys().find(|key| !read(key)) {
            return Err(format!("{topic}-{partition} is no partition that this topology reads"));
        }
    }
    let step = |known: &Known| {
        let to = match target {
            Target::Earliest => known.low,
            Target::Latest => known.high,
            Target::Time(_) => known.at_time.unwrap_or(known.high),
            Target::Offsets(offsets) => {
                *offsets.get(&(known.partition.topic.to_string(), known.partition.partition))?
            }
        };
        if to < known.low || to > known.high {
            let (partition, low, high) = (&known.partition, known.low, known.high);
            return Some(Err(format!("{partition} has the offsets {low} to {high}, and {to} is not among them")));
        }
        // What is gone already is not read again.
        let from = known.committed.unwrap_or_else(|| start(known)).max(known.low);
        Some(Ok(Step {
            topic: known.partition.topic.to_string(),
            partition: known.partition.partition,
            from: known.committed,
            to,
            again: (from - to).max(0),
            skipped: (to - from).max(0),
        }))
    };
    known.iter().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000_000;

    fn known(partition: i32, committed: Option<i64>) -> Known {
        let partition = TopicPartition::new("lines", partition);
        Known { partition, low: 10, high: 100, committed, at_time: Some(60) }
    }

    fn moved(target: &str, committed: Option<i64>) -> (i64, i64, i64) {
        let steps = steps(&[known(0, committed)], &Target::parse(target, NOW).unwrap(), |known| known.low).unwrap();
        let Step { to, again, skipped, .. } = steps[0];
        (to, again, skipped)
    }

    #[test]
    fn a_target_is_a_word_a_time_or_offsets() {
        let parse = |text| Target::parse(text, NOW);
        assert_eq!(parse("earliest"), Ok(Target::Earliest));
        assert_eq!(parse("-1h"), Ok(Target::Time(NOW - 3_600_000)));
        assert_eq!(parse("2026-11-30T00:53:20Z"), Ok(Target::Time(NOW)));
        let offsets = [(("lines".to_owned(), 0), 7), (("a.b-c".to_owned(), 3), 0)].into();
        assert_eq!(parse("lines:0:7,a.b-c:3:0"), Ok(Target::Offsets(offsets)));
        for wrong in ["", "soon", "lines:0", "lines:0:-1", "lines:0:7,", "lines:0:7,lines:0:8", ":0:7", "1h"] {
            assert!(parse(wrong).unwrap_err().contains("is none of earliest"), "{wrong}");
        }
    }

    #[test]
    fn a_move_says_what_is_read_again_and_what_is_skipped() {
        assert_eq!(moved("earliest", Some(70)), (10, 60, 0));
        assert_eq!(moved("latest", Some(70)), (100, 0, 30));
        assert_eq!(moved("-1h", Some(70)), (60, 10, 0));
        assert_eq!(moved("lines:0:75", Some(70)), (75, 0, 5));
        // Nothing is committed: it would have begun at the oldest record.
        assert_eq!(moved("earliest", None), (10, 0, 0));
        assert_eq!(moved("latest", None), (100, 0, 90));
        // What is committed is gone from the topic.
        assert_eq!(moved("earliest", Some(3)), (10, 0, 0));
    }

    #[test]
    fn partitions_that_are_not_named_stay() {
        let target = Target::parse("lines:1:50", NOW).unwrap();
        let steps = steps(&[known(0, Some(70)), known(1, Some(70))], &target, |known| known.low).unwrap();
        assert_eq!(steps.iter().map(|step| (step.partition, step.to)).collect::<Vec<_>>(), [(1, 50)]);
    }

    #[test]
    fn what_is_not_there_is_no_target() {
        let error = |to| steps(&[known(0, None)], &Target::parse(to, NOW).unwrap(), |known| known.low).unwrap_err();
        assert_eq!(error("lines:0:101"), "lines-0 has the offsets 10 to 100, and 101 is not among them");
        assert_eq!(error("lines:0:9"), "lines-0 has the offsets 10 to 100, and 9 is not among them");
        assert_eq!(error("lines:1:50"), "lines-1 is no partition that this topology reads");
    }
}
