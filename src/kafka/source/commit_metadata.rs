//! The text beside a committed offset: which commit wrote it, how far reading had come, and what was done above the
//! offset. Pure.
//!
//! The text is `stormglass:1:COMMIT:STARTED:RANGES`: two decimal numbers, and [`OffsetRanges`] as they encode themselves.
//! It is ASCII, so that its characters, which brokers count, are its bytes. Whatever else stands there is another
//! program's, and says nothing.

use crate::{kafka::client::NextOffset, state::OffsetRanges, topology::CommitNumber};

/// What the text begins with: ours, and its version.
const PREFIX: &str = "stormglass:1:";

/// The most bytes of a text. Brokers refuse more than `offset.metadata.max.bytes`, which is 4,096 unless it was set.
pub(super) const BUDGET: usize = 4_000;

/// The most ranges that can be of use: each takes at least two characters.
pub(super) const MOST_RANGES: usize = BUDGET / 2;

/// What a commit says beside the offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::kafka) struct CommitMetadata {
    /// The commit.
    pub(in crate::kafka) commit: CommitNumber,
    /// No record from here on was emitted when the commit was frozen.
    pub(in crate::kafka) started: NextOffset,
    /// Done above the committed offset.
    pub(in crate::kafka) done: OffsetRanges,
}

impl CommitMetadata {
    /// As text of at most `budget` bytes: without the highest ranges if there is no room for them, and empty if there is
    /// no room for the rest.
    pub(super) fn encode(&self, budget: usize) -> String {
        let mut text = format!("{PREFIX}{}:{}:", self.commit.0, self.started);
        match budget.checked_sub(text.len()) {
            None => String::new(),
            Some(rest) => {
                text.push_str(&self.done.encode(rest));
                text
            }
        }
    }

    /// `None` if the text is another program's, of another version, or damaged.
    pub(in crate::kafka) fn decode(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.splitn(3, ':');
        let (commit, started, done) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            commit: CommitNumber(commit.parse().ok()?),
            started: NextOffset(started.parse().ok()?),
            done: if done.is_empty() { OffsetRanges::new() } else { OffsetRanges::decode(done)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata(commit: u64, ranges: impl IntoIterator<Item = (i64, i64)>) -> CommitMetadata {
        let mut done = OffsetRanges::new();
        ranges.into_iter().for_each(|(start, end)| done.push(start, end));
        CommitMetadata { commit: CommitNumber(commit), started: NextOffset(99), done }
    }

    #[test]
    fn the_text_is_the_same_in_every_version() {
        let text = metadata(17, [(40, 42), (50, 51)]).encode(BUDGET);
        insta::assert_snapshot!(text, @"stormglass:1:17:99:1.oBBHA");
        assert_eq!(CommitMetadata::decode(&text), Some(metadata(17, [(40, 42), (50, 51)])));
    }

    #[test]
    fn what_another_program_wrote_says_nothing() {
        for text in [
            "",
            "NO_METADATA",
            "{\"topologyId\":\"t\",\"taskId\":1,\"threadName\":\"Thread-7\"}",
            "AgAAAX7u3zE=",
            "bgAAAAA=",
            "stormglass:2:1:2:1.",
            "stormglass:1:",
            "stormglass:1:1",
            "stormglass:1:x:2:1.",
            "stormglass:1:1:2:9.zz",
            "stormglass:1:1:2:1.!",
            "größe",
        ] {
            assert_eq!(CommitMetadata::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_small_budget_leaves_out_the_highest_ranges_and_a_smaller_one_everything() {
        let all = metadata(3, (0..5000).map(|n| (n * 3, n * 3 + 1)));
        let text = all.encode(BUDGET);
        assert!(text.len() <= BUDGET && text.len() > BUDGET - 10, "{}", text.len());
        let kept = CommitMetadata::decode(&text).unwrap().done;
        assert!(kept.iter().eq(all.done.iter().take(kept.len())) && kept.len() > 1000);
        assert!(kept.len() <= MOST_RANGES);
        assert_eq!(all.encode(18), "stormglass:1:3:99:");
        assert_eq!(CommitMetadata::decode("stormglass:1:3:99:"), Some(metadata(3, [])));
        assert_eq!(all.encode(17), "");
    }

    proptest! {
        #[test]
        fn no_text_of_another_program_breaks_anything(text in any::<String>(), tail in "[0-9:.A-Za-z+/]{0,40}") {
            let _ours = CommitMetadata::decode(&text);
            let _ours = CommitMetadata::decode(&format!("{PREFIX}{tail}"));
        }
    }
}
