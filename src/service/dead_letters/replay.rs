//! `dead-letters replay`: writes records back to where they came from, and keeps which.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    ops::ControlFlow,
};

use serde::Serialize;

use super::{
    letters::{Description, LetterId, Origin},
    progress::Progress,
};
use crate::{
    clock::Clock,
    kafka::{
        DeadLetter,
        admin::{
            Admin,
            group::Move,
            replay::{ReplayRecord, Replayer},
        },
        client::record::RecordBlock,
    },
    service::{
        cli::DeadLetterReplay,
        config::ClientSettings,
        connect,
        dispatch::Session,
        exit::{Cause, Failure, Outcome},
        output,
        progress::counted,
    },
};

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Report {
    /// False for a dry run.
    executed: bool,
    /// Letters that were, or would be, written back.
    replayed: Vec<Written>,
    /// Letters that were replayed before.
    already_replayed: u64,
    /// Letters that cannot be replayed.
    skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct Written {
    letter: String,
    topic: String,
    /// `null`: by the key.
    partition: Option<i32>,
}

#[derive(Debug, Serialize)]
struct Skipped {
    letter: String,
    why: String,
}

pub(super) fn replay(
    session: &Session<'_>,
    settings: &ClientSettings,
    topic: &str,
    args: &DeadLetterReplay,
) -> Outcome {
    let mut run = Replay::new(settings, topic, args)?;
    let mut outcome = Ok(());
    let _ends = super::reader(settings)?.read_all(topic, &mut |block| {
        outcome = run.take(block);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome?;
    if let Some(missing) = run.wanted.difference(&run.found).next() {
        let sentence = format!("topic \"{topic}\" has no letter {missing}: see dead-letters list");
        return Err(Failure::new(Cause::NoInput, sentence));
    }
    tell(session, &run.report)?;
    if run.report.skipped.is_empty() { Ok(()) } else { Err(Failure::said(Cause::No)) }
}

/// A replay as it goes on, block by block.
struct Replay<'a> {
    args: &'a DeadLetterReplay,
    /// Letters that were named; empty: all.
    wanted: BTreeSet<LetterId>,
    found: BTreeSet<LetterId>,
    partitions: Vec<Partition>,
    /// `None`: a dry run.
    replayer: Option<Replayer>,
    admin: Admin,
    /// Topics that were asked about, with their number of partitions.
    topics: BTreeMap<String, Option<i32>>,
    report: Report,
}

/// A partition of the dead-letter topic.
struct Partition {
    replayed: Progress,
    /// Its end when the replay began: what is given up meanwhile is left for the next one.
    end: i64,
    /// Everything below was looked at.
    seen: i64,
}

impl Partition {
    /// Everything below `seen` was looked at and is done with, but for what is kept for another time.
    fn pass(&mut self, seen: i64, kept: &[i64]) {
        for &offset in kept {
            self.replayed.add_range(self.seen, offset);
            self.seen = offset + 1;
        }
        self.replayed.add_range(self.seen, seen);
        self.seen = seen;
    }
}

/// A letter that is written back: its place in the block, and where to.
struct Chosen {
    at: usize,
    topic: String,
    partition: Option<i32>,
}

/// What becomes of a letter.
enum Choice {
    Replay(Chosen),
    /// Nothing, now or later: it is not wanted, was replayed before, or has nothing to replay.
    Pass,
    /// Nothing now: another command can replay it.
    Keep,
}

impl<'a> Replay<'a> {
    fn new(settings: &ClientSettings, topic: &str, args: &'a DeadLetterReplay) -> Result<Self, Failure> {
        let admin = Admin::new(&connect::admin(settings), super::PATIENCE, Clock::system())?;
        let group = super::group(settings, topic)?;
        let ends = group.watermarks(topic)?;
        // Before the progress is read: whoever replays at the same time makes none any more.
        let replayer = if args.execute {
            let (producer, offsets) = (connect::producer(settings), super::group(settings, topic)?);
            Some(Replayer::new(&producer, &super::group_of(topic), offsets, super::PATIENCE)?)
        } else {
            None
        };
        let committed = group.committed(&ends.iter().map(|w| w.partition.clone()).collect::<Vec<_>>())?;
        let partitions = ends.iter().zip(committed).map(|(w, committed)| Partition {
            replayed: Progress::read(committed.as_ref()),
            end: w.high.0,
            seen: 0,
        });
        let mut replay = Self {
            args,
            wanted: args.letters.iter().copied().collect(),
            found: BTreeSet::new(),
            partitions: partitions.collect(),
            replayer,
            admin,
            topics: BTreeMap::new(),
            report: Report { executed: args.execute, ..Report::default() },
        };
        if let Some(to) = &args.to
            && replay.partitions_of(to)?.is_none()
        {
            return Err(Failure::new(Cause::NoInput, format!("--to \"{to}\" does not exist: make the topic first")));
        }
        Ok(replay)
    }

    /// Replays what is wanted of a block, in one transaction.
    fn take(&mut self, block: &RecordBlock) -> Outcome {
        let number = block.partition.partition;
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(end) = self.partitions.get(at).map(|partition| partition.end) else { return Ok(()) };
        let before_end = block.records().iter().take_while(|head| head.offset.0 < end).count();
        let (mut chosen, mut kept) = (Vec::new(), Vec::new());
        let offset = |place: usize| block.records().get(place).map_or(0, |head| head.offset.0);
        for place in 0..before_end {
            match self.choose(block, place)? {
                Choice::Replay(letter) => chosen.push(letter),
                Choice::Pass => {}
                Choice::Keep => kept.push(offset(place)),
            }
        }
        let Some(partition) = self.partitions.get_mut(at) else { return Ok(()) };
        if self.wanted.is_empty() {
            let seen = before_end.checked_sub(1).map_or(partition.seen, |last| offset(last) + 1);
            partition.pass(seen, &kept);
        } else {
            chosen.iter().for_each(|chosen| partition.replayed.add(offset(chosen.at)));
        }
        if let Some(replayer) = self.replayer.as_ref().filter(|_| !chosen.is_empty()) {
            write(replayer, block, &chosen, &partition.replayed)?;
        }
        self.report.replayed.extend(chosen.into_iter().map(|Chosen { at, topic, partition }| Written {
            letter: LetterId { partition: number, offset: offset(at) }.to_string(),
            topic,
            partition,
        }));
        Ok(())
    }

    /// Whether a letter is to be written back, and where to.
    fn choose(&mut self, block: &RecordBlock, at: usize) -> Result<Choice, Failure> {
        let letter = Description::of(block, at);
        if !self.wanted.is_empty() && !self.wanted.contains(&letter.id) {
            return Ok(Choice::Pass);
        }
        self.found.insert(letter.id);
        let partition = usize::try_from(letter.id.partition).ok().and_then(|at| self.partitions.get(at));
        if !self.args.again && partition.is_some_and(|partition| partition.replayed.has(letter.id.offset)) {
            self.report.already_replayed += 1;
            return Ok(Choice::Pass);
        }
        match self.target(&letter)? {
            Ok((topic, partition)) => Ok(Choice::Replay(Chosen { at, topic, partition })),
            Err(why) => {
                self.report.skipped.push(Skipped { letter: letter.id.to_string(), why });
                Ok(if letter.has_payload { Choice::Keep } else { Choice::Pass })
            }
        }
    }

    /// Topic and partition for a letter, or why there is none. A record goes back to its own partition if the topic
    /// still has it.
    fn target(&mut self, letter: &Description) -> Result<Result<(String, Option<i32>), String>, Failure> {
        if !letter.has_payload {
            return Ok(Err("its value is not here: it was too large".to_owned()));
        }
        if let Some(to) = &self.args.to {
            return Ok(Ok((to.clone(), None)));
        }
        let Origin::Source { topic, partition, .. } = &letter.origin else {
            return Ok(Err("it does not say where it comes from: name a topic with --to".to_owned()));
        };
        Ok(match self.partitions_of(topic)? {
            Some(count) => Ok((topic.clone(), Some(*partition).filter(|partition| *partition < count))),
            None => Err(format!("its topic \"{topic}\" does not exist: name another one with --to")),
        })
    }

    fn partitions_of(&mut self, topic: &str) -> Result<Option<i32>, Failure> {
        if let Some(known) = self.topics.get(topic) {
            return Ok(*known);
        }
        let found = self.admin.partitions(topic)?;
        self.topics.insert(topic.to_owned(), found);
        Ok(found)
    }
}

/// Records and progress in one transaction.
fn write(replayer: &Replayer, block: &RecordBlock, chosen: &[Chosen], replayed: &Progress) -> Outcome {
    let Some((to, metadata)) = replayed.write() else {
        let sentence = "more letters lie between replayed ones than can be remembered: replay those with --all, and with \
                        --to if they do not say where they come from or their topic is gone";
        return Err(Failure::new(Cause::Data, sentence));
    };
    let step = Move { partition: block.partition.clone(), to, metadata };
    let headers: Vec<_> = chosen.iter().map(|c| DeadLetter::new(block, c.at).headers_for_replay()).collect();
    let records = chosen.iter().zip(&headers).map(|(chosen, headers)| ReplayRecord {
        topic: &chosen.topic,
        partition: chosen.partition,
        key: block.key(chosen.at),
        value: block.value(chosen.at),
        headers,
    });
    Ok(replayer.write(records, &[step])?)
}

fn tell(session: &Session<'_>, report: &Report) -> Outcome {
    if session.global.json {
        return output::json(report);
    }
    let done = if report.executed { "replayed" } else { "would replay" };
    let mut text = String::new();
    for Written { letter, topic, partition } in &report.replayed {
        let partition = partition.map_or_else(String::new, |partition| format!("-{partition}"));
        writeln!(text, "{done} {letter} to {topic}{partition}").unwrap_or_default();
    }
    for Skipped { letter, why } in &report.skipped {
        writeln!(text, "cannot replay {letter}: {why}").unwrap_or_default();
    }
    let (count, before) = (report.replayed.len(), report.already_replayed);
    let (count, were) = (counted(count as u64, "letter"), if before == 1 { "was" } else { "were" });
    writeln!(text, "{done} {count}; {before} more {were} replayed before").unwrap_or_default();
    if !report.executed {
        text.push_str("this was a dry run: add --execute\n");
    }
    output::data(&text)
}
