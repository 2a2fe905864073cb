//! `reset`: moves the offsets of a topology's group, and its state with them.
//!
//! Files in reading order: `target` (where to, and what that means for each partition; pure), `state` (stores begun anew).

mod state;
mod target;

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

use self::{
    state::Store,
    target::{Known, Step, Target},
};
use super::{
    cli::Reset,
    config::{Settings, Start},
    connect,
    dispatch::Session,
    exit::{Cause, Failure, OrFail as _, Outcome},
    lock::InstanceLock,
    output, pipeline,
};
use crate::{
    clock::{Clock, wall_millis},
    kafka::{
        admin::group::{GroupAdmin, Member, Move},
        client::{NextOffset, TopicPartition},
    },
    metrics::Metrics,
    topology::Plan,
};

/// Longest silence of the brokers.
const PATIENCE: Duration = Duration::from_secs(15);

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    group: &'a str,
    /// False for a dry run.
    executed: bool,
    partitions: &'a [Step],
    /// The state that is given up.
    discarded: &'a [Store],
}

/// Runs the command.
///
/// # Errors
/// Wrong flags, a group that has members, a topology whose state would not fit, a broker that does not answer.
pub(crate) fn reset(session: &Session<'_>, args: &Reset) -> Outcome {
    let mut settings = session.settings()?;
    pipeline::settle_identity(&mut settings)?;
    let settings = settings;
    let clock = Clock::system();
    let metrics = Metrics::new("").or_fail(Cause::Software)?;
    let plan = pipeline::plan(&settings, false, &metrics, &clock)?;
    let target = Target::parse(&args.to, wall_millis())
        .map_err(|sentence| Failure::new(Cause::Usage, format!("--to {sentence}")))?;
    fits_the_state(&plan, &target, args.discard_state)?;
    // Nobody of this identity begins on this host meanwhile.
    let _lock = match &settings.identity.instance {
        Some(instance) if args.execute => Some(InstanceLock::take(&settings.identity, instance)?),
        _ => None,
    };
    let group_name = &settings.identity.group;
    let group = GroupAdmin::new(&connect::consumer(&settings.kafka), group_name, PATIENCE)?;
    let known = look(&group, &settings, &target)?;
    let start = |known: &Known| if settings.source.start == Start::Latest { known.high } else { known.low };
    let steps = target::steps(&known, &target, start)
        .map_err(|sentence| Failure::new(Cause::Data, format!("--to: {sentence}")))?;
    let discarded = state::discarded(&settings, &plan, &clock)?;
    let members = group.members()?;
    if args.execute {
        nobody(group_name, &members)?;
        let mut moved: Vec<_> = steps.iter().map(|step| (step.topic.clone(), step.partition, step.to)).collect();
        if !plan.stores.is_empty() {
            // Those too that stay: what stands beside their offsets is of the state that is gone.
            moved = places(&known, &steps);
            state::begin_anew(&settings, &plan, &moved, &clock)?;
        }
        group.commit(&moved.iter().map(as_move).collect::<Vec<_>>())?;
    }
    let report = Report { group: group_name, executed: args.execute, partitions: &steps, discarded: &discarded };
    if args.execute { tell(session, &report, "") } else { tell_dry(session, &report, nobody(group_name, &members)) }
}

/// Whoever must be stopped first is named before what would be done then.
fn tell_dry(session: &Session<'_>, report: &Report<'_>, occupied: Outcome) -> Outcome {
    let Err(Failure { cause, error: Some(error) }) = occupied else {
        return tell(session, report, "add --execute");
    };
    output::complain(&error);
    tell(session, report, "stop the members first, then add --execute")?;
    Err(Failure::said(cause))
}

fn as_move((topic, partition, to): &state::Place) -> Move {
    let partition = TopicPartition::new(topic.as_str(), *partition);
    Move { partition, to: NextOffset(*to), metadata: String::new() }
}

/// Where every partition stands after the move, those too that stay; without those that have no offset then.
fn places(known: &[Known], steps: &[Step]) -> Vec<state::Place> {
    let place = |known: &Known| {
        let (topic, partition) = (&*known.partition.topic, known.partition.partition);
        let step = steps.iter().find(|step| step.topic == *topic && step.partition == partition);
        let next = step.map(|step| step.to).or(known.committed)?;
        Some((topic.to_owned(), partition, next))
    };
    known.iter().filter_map(place).collect()
}

/// A bolt's state holds what was read up to the offsets. It starts from nothing where everything is read again; anywhere
/// else it would lack what lies before.
fn fits_the_state(plan: &Plan, target: &Target, discard: bool) -> Outcome {
    let stateful: Vec<_> = plan.components.iter().filter(|c| c.stateful).map(|c| format!("\"{}\"", c.name)).collect();
    if stateful.is_empty() || discard || *target == Target::Earliest {
        return Ok(());
    }
    let sentence = format!(
        "{} remembers what was read before, and would lack it, or hold it twice: only --to earliest begins anew with all of \
         it. Add --discard-state if it may begin with nothing at that place",
        stateful.join(", ")
    );
    Err(Failure::new(Cause::Config, sentence))
}

/// Every partition that the topology reads.
fn look(group: &GroupAdmin, settings: &Settings, target: &Target) -> Result<Vec<Known>, Failure> {
    let partitions = group.partitions(&settings.source.topics)?;
    let committed = group.committed(&partitions)?;
    let at_time = match target {
        Target::Time(millis) => group.offsets_at(&partitions, *millis)?,
        Target::Earliest | Target::Latest | Target::Offsets(_) => vec![None; partitions.len()],
    };
    let mut ends = Vec::new();
    let mut topics: Vec<_> = partitions.iter().map(|partition| &partition.topic).collect();
    topics.dedup();
    for topic in topics {
        ends.extend(group.watermarks(topic)?);
    }
    let both = partitions.iter().zip(committed).zip(at_time);
    let known = both.filter_map(|((partition, committed), at_time)| {
        let end = ends.iter().find(|w| w.partition == *partition)?;
        Some(Known {
            partition: partition.clone(),
            low: end.low.0,
            high: end.high.0,
            committed: committed.map(|committed| committed.next.0),
            at_time: at_time.map(|next| next.0),
        })
    });
    Ok(known.collect())
}

/// Refuses a group that somebody is in: whoever reads goes on from where it is, and commits over the move.
fn nobody(group: &str, members: &[Member]) -> Outcome {
    if members.is_empty() {
        return Ok(());
    }
    let each: Vec<_> = members.iter().map(|member| format!("{} on {}", member.client_id, member.host)).collect();
    let sentence = format!(
        "group \"{group}\" has members: {}. Stop them first; one that has been killed, or that has an instance, is let go \
         after its session timeout",
        each.join(", ")
    );
    Err(Failure::new(Cause::Occupied, sentence))
}

fn tell(session: &Session<'_>, report: &Report<'_>, to_do: &str) -> Outcome {
    if session.global.json {
        return output::json(report);
    }
    output::data(&text(report, to_do))
}

fn text(report: &Report<'_>, to_do: &str) -> String {
    let mut text = String::new();
    for step in report.partitions {
        let from = step.from.map_or_else(|| "nothing".to_owned(), |from| from.to_string());
        let meaning = match (step.again, step.skipped) {
            (0, 0) => "nothing read again or skipped".to_owned(),
            (0, skipped) => format!("{skipped} skipped"),
            (again, _) => format!("{again} read again"),
        };
        writeln!(text, "{}-{}: {from} -> {}  {meaning}", step.topic, step.partition, step.to).unwrap_or_default();
    }
    let is = if report.executed { "was" } else { "would be" };
    for Store { store, topic } in report.discarded {
        writeln!(text, "{store}: its whole state {is} discarded ({topic})").unwrap_or_default();
    }
    if report.executed {
        text.push_str("moved\n");
    } else {
        writeln!(text, "this was a dry run: {to_do}").unwrap_or_default();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_that_is_discarded_is_said_before_and_after() {
        let partitions = &[Step { topic: "t".to_owned(), partition: 0, from: None, to: 0, again: 0, skipped: 0 }];
        let discarded = &[Store { store: "count/counts".to_owned(), topic: "g-count-counts-changelog".to_owned() }];
        let told = |executed| text(&Report { group: "g", executed, partitions, discarded }, "add --execute");
        insta::assert_snapshot!(told(false), @r"
        t-0: nothing -> 0  nothing read again or skipped
        count/counts: its whole state would be discarded (g-count-counts-changelog)
        this was a dry run: add --execute
        ");
        insta::assert_snapshot!(told(true), @r"
        t-0: nothing -> 0  nothing read again or skipped
        count/counts: its whole state was discarded (g-count-counts-changelog)
        moved
        ");
    }
}
