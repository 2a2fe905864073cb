//! `reset`: moves the offsets of a topology's group, and its state with them.
//!
//! Files in reading order: `target` (where to, and what that means for each partition; pure), `state` (stores begun anew).

mod state;
mod target;

use std::{fmt::Write as _, time::Duration};

use serde::Serialize;

use self::target::{Known, Step, Target};
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
        admin_group::{GroupAdmin, Member, Move},
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
    let report = Report { group: group_name, executed: args.execute, partitions: &steps };
    tell(session, &report)?;
    if args.execute { Ok(()) } else { nobody(group_name, &members) }
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

fn tell(session: &Session<'_>, report: &Report<'_>) -> Outcome {
    if session.global.json {
        return output::json(report);
    }
    let mut text = String::new();
    for step in report.partitions {
        let from = step.from.map_or_else(|| "nothing".to_owned(), |from| from.to_string());
        let meaning = match (step.again, step.skipped) {
            (0, 0) => "nothing changes".to_owned(),
            (0, skipped) => format!("{skipped} skipped"),
            (again, _) => format!("{again} read again"),
        };
        writeln!(text, "{}-{}: {from} -> {}  {meaning}", step.topic, step.partition, step.to).unwrap_or_default();
    }
    text.push_str(if report.executed { "moved\n" } else { "this was a dry run: add --execute\n" });
    output::data(&text)
}
