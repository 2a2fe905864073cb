//! The simulation is alive: deliberate bugs, each in the place of a port, and each found within a stated number of seeds.
//! What it says is in `docs/simulation.md`.

mod changelog;
mod early;
mod sink;
mod source;
mod spout;

use self::{
    changelog::{ChangelogBug, changelog},
    early::restores_before_it_joins,
    sink::sink,
    source::{SourceBug, source},
    spout::{SpoutBug, spout},
};
use crate::{
    chaos::{RunOptions, run, substitutes::Substitutes},
    tuple::substitute_edges,
};

/// The first seed at which a bug is found, and what is said of it.
fn first(substitutes: &Substitutes, stores: bool, within: u64) -> Option<(u64, String)> {
    (0..within).find_map(|seed| {
        let substitutes = substitutes.clone();
        let verdict = run(&RunOptions { substitutes, stores: Some(stores), ..RunOptions::new(seed) });
        Some((seed, verdict.failure?))
    })
}

/// Asserts that a bug is found within so many seeds.
fn found(name: &str, substitutes: &Substitutes, stores: bool, within: u64) {
    let found = first(substitutes, stores, within);
    let Some((seed, what)) = found else { panic!("{name}: not found within {within} seeds") };
    println!("| {name} | {} | {seed} | {what} |", if stores { "with" } else { "without" });
}

#[test]
fn a_commit_that_is_one_too_far_is_found() {
    found("commits one too far", &source(SourceBug::CommitsOneTooFar), false, 3);
}

#[test]
fn a_reader_that_starts_one_too_far_is_found() {
    found("starts one too far", &source(SourceBug::StartsOneTooFar), false, 5);
}

#[test]
fn records_that_are_dropped_are_found() {
    found("drops a block of records", &source(SourceBug::DropsABlock), false, 5);
}

#[test]
fn a_revoke_that_is_never_answered_is_found() {
    found("never answers a revoke", &source(SourceBug::DropsARevoke), false, 200);
}

#[test]
fn an_output_that_counts_as_acknowledged_when_it_is_sent_is_found() {
    found("takes sent for acknowledged", &sink(), false, 5);
}

#[test]
fn an_ack_that_is_forgotten_is_found() {
    found("forgets an ack", &spout(SpoutBug::ForgetsAnAck), false, 100);
}

#[test]
fn a_failure_that_is_taken_for_an_ack_is_found() {
    found("takes a failure for an ack", &spout(SpoutBug::TakesAFailureForAnAck), false, 10);
}

#[test]
fn a_commit_that_is_newer_than_its_flush_is_found() {
    found("commits what is newer than the flush", &spout(SpoutBug::CommitsWhatIsNewerThanTheFlush), true, 5);
}

#[test]
fn a_flush_that_counts_as_durable_before_it_is_found() {
    found("commits before the flush is durable", &changelog(ChangelogBug::SaysDurableTooEarly), true, 5);
}

#[test]
fn a_restore_that_forgets_entries_is_found() {
    found("forgets entries at a restore", &changelog(ChangelogBug::ForgetsAnEntryGroup), true, 5);
}

#[test]
fn a_changelog_without_fencing_is_found() {
    found("does not fence its predecessor", &Substitutes { unfenced: true, ..Substitutes::default() }, true, 200);
}

#[test]
fn edges_that_are_numbered_one_after_the_other_are_found() {
    let _numbered = substitute_edges(|parent, index| parent + u64::from(index) + 1);
    found("makes edges of a base and an index", &Substitutes::default(), true, 200);
}

#[test]
fn a_revoke_that_only_the_client_knows_of_is_found() {
    found("answers a revoke and goes on", &source(SourceBug::AnswersARevokeItself), false, 200);
}

#[test]
fn a_revoke_that_only_the_client_knows_of_is_found_where_no_epoch_guards() {
    let substitutes = Substitutes { ignores_epochs: true, ..source(SourceBug::AnswersARevokeItself) };
    found("answers a revoke and goes on, and ignores epochs", &substitutes, false, 200);
}

#[test]
fn a_restore_before_the_group_was_joined_is_found() {
    found("restores before it joins", &restores_before_it_joins(), true, 400);
}

#[test]
fn an_executor_that_starts_again_alone_is_found() {
    let substitutes = Substitutes { starts_executors_alone: true, ..Substitutes::default() };
    found("starts one executor again alone", &substitutes, true, 100);
}

#[test]
fn a_failure_whose_effects_are_not_counted_is_found() {
    found("does not count the effects of a failure", &spout(SpoutBug::TellsNoEffectsOfAFailure), true, 200);
}

#[test]
fn where_all_live_to_the_end_the_count_of_repeats_is_right_to_the_last() {
    let substitutes = spout(SpoutBug::TellsNoEffectsOfAFailure);
    let said = (0..100).find_map(|seed| {
        let options = RunOptions { substitutes: substitutes.clone(), stores: Some(true), ..RunOptions::new(seed) };
        run(&options).failure.filter(|what| what.contains("were counted by the processes"))
    });
    assert!(said.is_some(), "effects that nobody counts were never missed in the exact comparison");
}

#[test]
fn a_state_that_says_nothing_of_what_was_begun_is_found() {
    found("says nothing of what was begun at a flush", &spout(SpoutBug::TellsOfNothingStarted), true, 200);
}

#[test]
fn an_epoch_that_is_ignored_is_found() {
    let substitutes = Substitutes { ignores_epochs: true, ..Substitutes::default() };
    found("ignores the epochs of assignments", &substitutes, false, 200);
}
