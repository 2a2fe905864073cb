//! What it means that a partition does not hold the offset that is to be read next. Pure.

use crate::kafka::client::{NextOffset, TopicPartition, Watermarks};

/// What becomes of a partition that does not hold the offset to go on from.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum OutOfRange {
    /// The run ends: a person decides.
    #[default]
    Fail,
    /// Reading goes on with what there is, and what is missing is counted.
    Skip,
}

/// What has happened to a partition.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Gap {
    /// Its oldest records were deleted before they were read.
    Deleted {
        /// Offsets that are gone; at most so many records.
        lost: u64,
    },
    /// It ends, or ended a moment ago, before what was read of it: its topic was made anew, or the brokers have lost its
    /// end.
    Shorter,
}

impl Gap {
    /// The broker did not have `next`, and a moment later it has what `watermarks` say.
    pub(super) fn of(next: Option<NextOffset>, watermarks: &Watermarks) -> Self {
        match next {
            Some(next) if next < watermarks.low => Self::Deleted { lost: watermarks.low.0.abs_diff(next.0) },
            // The oldest offset only grows, so what is in range now was beyond the end.
            _ => Self::Shorter,
        }
    }

    /// What has happened, as the first half of a sentence.
    pub(super) fn describe(self, next: Option<NextOffset>, watermarks: &Watermarks) -> String {
        let partition: &TopicPartition = &watermarks.partition;
        let next = next.map_or_else(|| "what comes after the last record".to_owned(), |next| format!("offset {next}"));
        match self {
            Self::Deleted { lost } => format!(
                "partition {partition} begins at offset {} now, and {next} was to be read next: {lost} offsets were \
                 deleted before they were read",
                watermarks.low
            ),
            Self::Shorter => format!(
                "partition {partition} ended before {next}, which was to be read next (it ends at {} now): its topic was \
                 deleted and made anew, or the brokers have lost its end",
                watermarks.high
            ),
        }
    }

    /// What a person can do about it.
    pub(super) const fn advice(self, keyed: bool) -> &'static str {
        match (self, keyed) {
            (Self::Deleted { .. }, _) => {
                "Keep records longer (retention.ms). To go on without them set source.out_of_range = \"skip\", or move the \
                 group with `stormglass reset`"
            }
            (Self::Shorter, false) => {
                "To read it from its beginning set source.out_of_range = \"skip\", or move the group with `stormglass reset`"
            }
            (Self::Shorter, true) => "The state holds what was read before: begin anew with both by `stormglass reset`",
        }
    }

    /// Whether reading may go on.
    pub(super) const fn may_skip(self, policy: OutOfRange, keyed: bool) -> bool {
        matches!(
            (policy, self, keyed),
            (OutOfRange::Skip, Self::Deleted { .. }, _) | (OutOfRange::Skip, Self::Shorter, false)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watermarks(low: i64, high: i64) -> Watermarks {
        let partition = TopicPartition::new("lines", 3);
        Watermarks { partition, low: NextOffset(low), high: NextOffset(high) }
    }

    #[test]
    fn retention_and_a_new_topic_are_told_apart() {
        let of = |next: i64, low, high| Gap::of(Some(NextOffset(next)), &watermarks(low, high));
        assert_eq!(of(400, 900, 1000), Gap::Deleted { lost: 500 });
        assert_eq!(of(400, 900, 900), Gap::Deleted { lost: 500 });
        assert_eq!(of(400, 0, 10), Gap::Shorter);
        // It has grown meanwhile.
        assert_eq!(of(400, 0, 1000), Gap::Shorter);
        assert_eq!(Gap::of(None, &watermarks(0, 10)), Gap::Shorter);
    }

    #[test]
    fn a_gap_is_said_in_a_sentence() {
        let say = |next: i64, low, high| {
            let (next, watermarks) = (Some(NextOffset(next)), watermarks(low, high));
            Gap::of(next, &watermarks).describe(next, &watermarks)
        };
        insta::assert_snapshot!(say(400, 900, 1000), @"partition lines-3 begins at offset 900 now, and offset 400 was to be read next: 500 offsets were deleted before they were read");
        insta::assert_snapshot!(say(400, 0, 10), @"partition lines-3 ended before offset 400, which was to be read next (it ends at 10 now): its topic was deleted and made anew, or the brokers have lost its end");
    }

    #[test]
    fn what_is_deleted_may_be_skipped_and_a_new_topic_only_if_no_state_holds_the_old_one() {
        let deleted = Gap::Deleted { lost: 1 };
        let may = |gap: Gap, policy| [gap.may_skip(policy, false), gap.may_skip(policy, true)];
        assert_eq!(may(deleted, OutOfRange::Fail), [false, false]);
        assert_eq!(may(Gap::Shorter, OutOfRange::Fail), [false, false]);
        assert_eq!(may(deleted, OutOfRange::Skip), [true, true]);
        assert_eq!(may(Gap::Shorter, OutOfRange::Skip), [true, false]);
    }
}
