//! Torture: the real program under load, killed, stopped, drained and robbed of its broker in a seeded order; then a last
//! run to the end and a verdict over every single line.
//!
//! `make torture SEED=7 KILLS=20 MINUTES=5`; a short course is a trial of every test run. Each event is printed with its
//! time. The order and the pauses are the same for a seed; what the machine makes of them is not. When a course fails, its
//! topics and the output of every process stand in the folder that it names.
//!
//! Files in reading order: `plan` (what happens when, from a seed), `course` (it happens), `verdict` (what is missing,
//! what is there twice).

mod course;
mod plan;
mod verdict;

use std::{env, fmt::Debug, str::FromStr, time::Duration};

use libtest_mimic::Trial;

use self::{course::Course, plan::Plan};
use crate::{broker::Broker, trials};

pub fn trials() -> Vec<Trial> {
    trials!(alone:
        split_words_loses_nothing_and_repeats_only_what_was_not_committed,
        word_count_loses_nothing_and_repeats_no_more_than_the_runs_announced,
    )
}

/// What is tortured, and what may be repeated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Subject {
    /// Without state: what was read and not committed when a process ended may come again.
    SplitWords,
    /// With state: each start announces how many records may come again.
    WordCount,
}

impl Subject {
    const fn topology(self) -> &'static str {
        match self {
            Self::SplitWords => "split-words",
            Self::WordCount => "word-count",
        }
    }

    /// What `audit` is to know of the output.
    const fn kind(self) -> &'static str {
        match self {
            Self::SplitWords => "records",
            Self::WordCount => "counts",
        }
    }
}

fn split_words_loses_nothing_and_repeats_only_what_was_not_committed(broker: &mut Broker) {
    torture(broker, Subject::SplitWords);
}

fn word_count_loses_nothing_and_repeats_no_more_than_the_runs_announced(broker: &mut Broker) {
    torture(broker, Subject::WordCount);
}

fn torture(broker: &mut Broker, subject: Subject) {
    let (seed, kills, minutes) = (given("SEED", 1), given("KILLS", 5), given("MINUTES", 0.5_f64));
    let plan = Plan::new(seed, kills, Duration::from_secs_f64(minutes * 60.0));
    Course::new(broker, subject, seed, &plan).run(broker, &plan);
}

/// A number that `make torture` hands over, or the one of the short course.
fn given<T: FromStr<Err: Debug>>(name: &str, otherwise: T) -> T {
    let value = env::var(format!("TORTURE_{name}")).ok().filter(|value| !value.is_empty());
    value.map_or(otherwise, |value| value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error:?}")))
}
