//! The restart plan: may a topology go on from the state and the offsets that were found?

use super::{CommittedStart, Position, SourcePosition, SourceStart};

/// What follows from the state and the offsets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RestartPlan {
    /// They belong together.
    Go {
        /// The number of the next commit.
        next_commit: u64,
        /// Records that come again and may be in the state already, in part or whole: an upper bound.
        possible_repeats: u64,
    },
    /// They do not: a sentence that says what was found, and what to do.
    Refuse(String),
}

/// Decides from the position that the state was written with, `None` if there is no state, and from what is committed
/// of every source partition. `docs/design/0007-state-and-the-commit.md` has the table.
#[must_use]
pub fn plan_restart(position: Option<&Position>, starts: &[SourceStart]) -> RestartPlan {
    let mut possible_repeats = 0_u64;
    let mut refusals = Vec::new();
    for start in starts {
        let found = match position {
            None => without_state(start),
            Some(position) => with_state(position, start),
        };
        match found {
            Ok(repeats) => possible_repeats = possible_repeats.saturating_add(repeats),
            Err(sentence) => refusals.push(sentence),
        }
    }
    if let Some(first) = refusals.first() {
        let more = match refusals.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more of the partitions cannot go on either)"),
        };
        return RestartPlan::Refuse(format!("{first}{more}"));
    }
    RestartPlan::Go { next_commit: next_commit(position, starts), possible_repeats }
}

/// A number for the next commit: above every one that the state or an offset was written with.
#[must_use]
pub fn next_commit(position: Option<&Position>, starts: &[SourceStart]) -> u64 {
    let committed = starts.iter().filter_map(|start| start.committed.as_ref()?.commit);
    committed.chain(position.map(|position| position.commit)).max().unwrap_or(0) + 1
}

/// What every refusal of a state ends with: the one way to move both.
pub(crate) const RESET: &str = "`stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and \
                     state together";

fn without_state(start: &SourceStart) -> Result<u64, String> {
    let Some(committed) = start.committed.as_ref().filter(|found| !found.is_beginning()) else { return Ok(0) };
    let (place, next) = (place(start), committed.next);
    let whose = match committed.commit {
        Some(number) => format!("by commit {number} of an app of this kind, so its state is gone"),
        None => "by another program, or the state is gone".to_owned(),
    };
    Err(format!(
        "{place}: offset {next} is committed {whose}; there is no state, and counts from nothing would be wrong. \
         Restore the changelog topics, use a group of its own, or start anew: {RESET}"
    ))
}

/// Records of one partition that may be repeated.
fn with_state(position: &Position, start: &SourceStart) -> Result<u64, String> {
    let is_it =
        |of: &&SourcePosition| of.source == start.source && of.topic == start.topic && of.partition == start.partition;
    match (position.sources.iter().find(is_it), &start.committed) {
        (None, None) => Ok(0),
        (None, Some(committed)) if committed.is_beginning() => Ok(0),
        (None, Some(committed)) => Err(unnamed(position, start, committed)),
        // From the beginning, or from where the predecessor began: which was that is not known.
        (Some(SourcePosition { committed: None, started, .. }), None) => Ok(records(0, *started)),
        (Some(SourcePosition { committed: Some(known), .. }), None) => Err(gone(start, *known)),
        (Some(state), Some(committed)) => between(position.commit, state, start, committed),
    }
}

/// The committed offset must lie between what was known as committed and the frontier of the state. Below, it can be one of
/// our own that came late: a commit that was sent again over another connection, and has come from the first one when
/// others had followed it. Then what lies between counts again, as it does after a crash; it is told before.
fn between(number: u64, state: &SourcePosition, start: &SourceStart, found: &CommittedStart) -> Result<u64, String> {
    let place = place(start);
    let next = found.next;
    if let Some(known) = state.committed.filter(|known| next < *known && found.commit.is_none()) {
        return Err(format!(
            "{place}: offset {next} is committed, but {known} was committed already when the state was written: the \
             offsets were moved back without the state, and what lies between would count twice. Commit {known} again, or: {RESET}"
        ));
    }
    if next > state.next {
        return Err(format!(
            "{place}: offset {next} is committed, but the state has come to {} only: the state is older than the \
             offsets, or these were moved ahead without it, and what lies between would be missing. Commit {} again, \
             or: {RESET}",
            state.next, state.next
        ));
    }
    if let Some(commit) = found.commit.filter(|commit| *commit > number) {
        return Err(format!(
            "{place}: offset {next} is committed by commit {commit}, but the state is of commit {number}: the state is \
             older than the offsets. Restore the changelog topics, or: {RESET}"
        ));
    }
    Ok(found.done.missing_between(next, state.started))
}

fn gone(start: &SourceStart, known: i64) -> String {
    format!(
        "{}: nothing is committed, but {known} was when the state was written: the group's offsets are gone (deleted, or \
         expired), and everything would count again. Commit {known} again, or: {RESET}",
        place(start)
    )
}

fn unnamed(position: &Position, start: &SourceStart, committed: &CommittedStart) -> String {
    let known: Vec<_> = position.sources.iter().map(|s| format!("{}-{}", s.topic, s.partition)).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    format!(
        "{}: offset {} is committed, but the state of commit {} does not know the partition (it knows: {known}): the \
         state lacks what lies below. Was the source \"{}\" renamed, or another program in this group? {RESET}",
        place(start),
        committed.next,
        position.commit,
        start.source
    )
}

fn place(start: &SourceStart) -> String {
    format!("{}-{}", start.topic, start.partition)
}

fn records(from: i64, to: i64) -> u64 {
    u64::try_from(to.saturating_sub(from)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::OffsetRanges;

    fn go(next_commit: u64, possible_repeats: u64) -> RestartPlan {
        RestartPlan::Go { next_commit, possible_repeats }
    }

    /// A state of commit 9: partitions with (known committed, frontier, highest started).
    fn state(of: &[(&str, i32, Option<i64>, i64, i64)]) -> Position {
        let source = |&(topic, partition, committed, next, started): &(&str, i32, Option<i64>, i64, i64)| {
            let (source, topic) = ("in".to_owned(), topic.to_owned());
            SourcePosition { source, topic, partition, next, done: OffsetRanges::new(), started, committed }
        };
        Position { commit: 9, sources: of.iter().map(source).collect() }
    }

    /// Offset, ranges done above it, number of the commit.
    type Committed<'a> = (i64, &'a [(i64, i64)], Option<u64>);

    /// What is committed of a partition.
    fn found(topic: &str, partition: i32, committed: Option<Committed<'_>>) -> SourceStart {
        let committed = committed.map(|(next, ranges, commit)| {
            let mut done = OffsetRanges::new();
            ranges.iter().for_each(|(from, to)| done.push(*from, *to));
            CommittedStart { next, done, commit }
        });
        SourceStart { source: "in".to_owned(), topic: topic.to_owned(), partition, committed }
    }

    fn refusal(position: Option<&Position>, starts: &[SourceStart]) -> String {
        match plan_restart(position, starts) {
            RestartPlan::Refuse(sentence) => sentence,
            plan @ RestartPlan::Go { .. } => panic!("{plan:?}"),
        }
    }

    #[test]
    fn nothing_at_all_is_a_first_start() {
        assert_eq!(plan_restart(None, &[]), go(1, 0));
        assert_eq!(plan_restart(None, &[found("t", 0, None), found("t", 1, None)]), go(1, 0));
    }

    #[test]
    fn offsets_between_what_was_known_and_the_frontier_go_on() {
        // Known committed 40, frontier 50, started up to 60.
        let state = state(&[("t", 0, Some(40), 50, 60)]);
        let plan = |committed| plan_restart(Some(&state), &[found("t", 0, Some(committed))]);
        for (committed, repeats, why) in [
            ((50, &[][..], Some(9)), 10, "the commit of the state: what was in flight"),
            ((50, &[(52, 55), (57, 58)][..], Some(9)), 6, "less what was done out of order"),
            ((50, &[(51, 70)][..], Some(9)), 1, "what is done above the highest started counts for nothing"),
            ((50, &[(51, 60), (100, 200)][..], Some(9)), 1, "nor what lies far above"),
            ((40, &[][..], Some(8)), 20, "the state is one commit ahead"),
            ((40, &[(41, 50)][..], Some(8)), 11, "and the ranges are those of the older commit"),
            ((45, &[][..], Some(8)), 15, "a commit between"),
            ((45, &[][..], None), 15, "metadata of another: its number and ranges are not known"),
            ((50, &[][..], None), 10, "the same at the frontier"),
            ((50, &[(50, 60)][..], Some(9)), 0, "all is done"),
            ((44, &[][..], Some(1)), 16, "a lower number is no contradiction"),
        ] {
            assert_eq!(plan(committed), go(10, repeats), "{why}");
        }
    }

    #[test]
    fn offsets_are_bounded_above_only_if_none_were_known() {
        let state = state(&[("t", 0, None, 50, 60)]);
        let plan = |committed| plan_restart(Some(&state), &[found("t", 0, committed)]);
        assert_eq!(plan(Some((7, &[], Some(8)))), go(10, 53), "the first commit came after the freeze");
        assert_eq!(plan(Some((50, &[], Some(9)))), go(10, 10));
        assert_eq!(plan(None), go(10, 60), "died between the first flush and the first commit");
        assert!(matches!(plan(Some((51, &[], Some(9)))), RestartPlan::Refuse(_)));
    }

    #[test]
    fn a_partition_that_neither_knows_is_new() {
        let state = state(&[("t", 0, Some(40), 50, 50)]);
        let starts = [found("t", 0, Some((50, &[], Some(9)))), found("t", 1, None), found("u", 0, None)];
        assert_eq!(plan_restart(Some(&state), &starts), go(10, 0));
    }

    #[test]
    fn where_reading_began_needs_no_state() {
        let began = |partition| found("t", partition, Some((7, &[], Some(0))));
        assert_eq!(plan_restart(None, &[began(0), found("t", 1, None)]), go(1, 0), "died before the first flush");
        let state = state(&[("t", 0, Some(7), 20, 30)]);
        assert_eq!(
            plan_restart(Some(&state), &[began(0), began(1)]),
            go(10, 23),
            "before the first commit, and a new one"
        );
        let later = found("t", 1, Some((8, &[], Some(3))));
        assert!(refusal(None, &[began(0), later]).starts_with("t-1: offset 8 is committed by commit 3"));
    }

    #[test]
    fn a_partition_that_is_not_read_any_more_is_no_reason_to_stop() {
        let state = state(&[("t", 0, Some(40), 50, 50), ("gone", 0, Some(7), 7, 7)]);
        assert_eq!(plan_restart(Some(&state), &[found("t", 0, Some((50, &[], Some(9))))]), go(10, 0));
        assert_eq!(plan_restart(Some(&state), &[]), go(10, 0));
    }

    #[test]
    fn repeats_add_up_over_partitions_and_sources() {
        let mut state = state(&[("t", 0, Some(40), 50, 60), ("t", 1, None, 5, 8)]);
        let mut other = state.sources[0].clone();
        (other.source, other.next, other.started) = ("other".to_owned(), 45, 46);
        state.sources.push(other);
        let mut of_other = found("t", 0, Some((40, &[(42, 45)], Some(8))));
        of_other.source = "other".to_owned();
        let starts = [found("t", 0, Some((50, &[], Some(9)))), found("t", 1, None), of_other];
        assert_eq!(plan_restart(Some(&state), &starts), go(10, 10 + 8 + 3), "one topic, read by two sources");
    }

    #[test]
    fn the_next_commit_is_above_every_number_that_was_found() {
        let mut state = state(&[("t", 0, Some(40), 50, 50)]);
        let starts = [found("t", 0, Some((50, &[], Some(9))))];
        assert_eq!(plan_restart(Some(&state), &starts), go(10, 0));
        state.commit = 11;
        assert_eq!(plan_restart(Some(&state), &starts), go(12, 0));
    }

    #[test]
    fn offsets_without_state_are_refused() {
        insta::assert_snapshot!(refusal(None, &[found("t", 0, None), found("t", 3, Some((40, &[], Some(7))))]), @"t-3: offset 40 is committed by commit 7 of an app of this kind, so its state is gone; there is no state, and counts from nothing would be wrong. Restore the changelog topics, use a group of its own, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together");
        insta::assert_snapshot!(refusal(None, &[found("t", 3, Some((0, &[], None)))]), @"t-3: offset 0 is committed by another program, or the state is gone; there is no state, and counts from nothing would be wrong. Restore the changelog topics, use a group of its own, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together");
    }

    #[test]
    fn offsets_that_are_gone_are_refused() {
        let state = state(&[("t", 0, Some(40), 50, 60)]);
        insta::assert_snapshot!(refusal(Some(&state), &[found("t", 0, None)]), @"t-0: nothing is committed, but 40 was when the state was written: the group's offsets are gone (deleted, or expired), and everything would count again. Commit 40 again, or: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together");
    }

    #[test]
    fn offsets_that_were_moved_back_are_refused() {
        let state = state(&[("t", 0, Some(40), 50, 60), ("t", 1, Some(40), 50, 60)]);
        let back = Some((39, &[][..], None));
        insta::assert_snapshot!(refusal(Some(&state), &[found("t", 0, back), found("t", 1, back)]), @"t-0: offset 39 is committed, but 40 was committed already when the state was written: the offsets were moved back without the state, and what lies between would count twice. Commit 40 again, or: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together (1 more of the partitions cannot go on either)");
        let numbered = [found("t", 0, Some((50, &[], Some(9)))), found("t", 1, Some((0, &[], None)))];
        assert!(refusal(Some(&state), &numbered).starts_with("t-1: offset 0 is committed, but 40"));
    }

    #[test]
    fn a_commit_of_our_own_that_came_late_is_gone_on_from_and_counts_again() {
        let state = state(&[("t", 0, Some(40), 50, 60)]);
        let plan = |committed| plan_restart(Some(&state), &[found("t", 0, Some(committed))]);
        assert_eq!(plan((30, &[(32, 35)], Some(5))), go(10, 27), "from 30 to 60, without 32, 33 and 34");
        assert_eq!(plan((7, &[], Some(0))), go(10, 53), "where it began");
    }

    #[test]
    fn a_state_that_is_older_than_the_offsets_is_refused() {
        let state = state(&[("t", 0, Some(40), 50, 60)]);
        let one = |committed| refusal(Some(&state), &[found("t", 0, Some(committed))]);
        insta::assert_snapshot!(one((51, &[], None)), @"t-0: offset 51 is committed, but the state has come to 50 only: the state is older than the offsets, or these were moved ahead without it, and what lies between would be missing. Commit 50 again, or: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together");
        insta::assert_snapshot!(one((50, &[], Some(10))), @"t-0: offset 50 is committed by commit 10, but the state is of commit 9: the state is older than the offsets. Restore the changelog topics, or: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together");
    }

    #[test]
    fn committed_offsets_of_a_partition_that_the_state_does_not_name_are_refused() {
        let state = state(&[("t", 0, Some(40), 50, 60)]);
        let starts = |topic, partition| {
            [
                found("t", 0, Some((50, &[][..], Some(9)))),
                found(topic, partition, Some((3, &[], None))),
                found("u", 1, Some((3, &[], None))),
                found("u", 2, Some((3, &[], None))),
            ]
        };
        insta::assert_snapshot!(refusal(Some(&state), &starts("t", 1)), @r#"t-1: offset 3 is committed, but the state of commit 9 does not know the partition (it knows: t-0): the state lacks what lies below. Was the source "in" renamed, or another program in this group? `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together (2 more of the partitions cannot go on either)"#);
        let mut renamed = found("t", 0, Some((50, &[], Some(9))));
        renamed.source = "input".to_owned();
        assert!(refusal(Some(&state), &[renamed]).contains("Was the source \"input\" renamed"));
        let empty = Position { commit: 2, sources: Vec::new() };
        assert!(refusal(Some(&empty), &[found("t", 0, Some((3, &[], None)))]).contains("(it knows: none)"));
    }

    #[test]
    fn one_partition_that_is_wrong_stops_all() {
        let state = state(&[("t", 0, Some(40), 50, 60), ("t", 1, Some(40), 50, 60)]);
        let right = found("t", 0, Some((50, &[], Some(9))));
        assert!(refusal(Some(&state), &[right.clone(), found("t", 1, None)]).starts_with("t-1: nothing is committed"));
        assert!(refusal(Some(&state), &[found("t", 1, None), right]).starts_with("t-1: nothing is committed"));
    }
}
