//! Partitions that go to another member: drained, committed, let go; or lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::prelude::*;

use super::bench::{Bench, Out, texts};
use crate::{
    kafka::{
        KafkaSpoutOptions,
        client::{SourceEvent, TopicPartition},
        fake::{FakeBroker, tp},
        source::{commit_metadata::CommitMetadata, retry::RetryPolicy},
    },
    metrics::DeadLetterReason,
    topology::{CommitState, ComponentError, Delivery, Next, Spout as _},
};

/// A broker with partitions 0 and 1, `lines` records in the first and one in the second.
pub(super) fn broker(lines: usize) -> FakeBroker {
    let broker = FakeBroker::with_lines(lines);
    broker.produce(1, Some(b"other"));
    broker
}

fn revoke(broker: &FakeBroker) {
    broker.says(SourceEvent::Revoked(vec![tp(0)]));
}

#[test]
fn a_revoked_partition_drains_and_commits_and_only_then_is_let_go() {
    let broker = broker(4);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.ack(&outs[1]);
    revoke(&broker);
    broker.produce(0, Some(b"for the next member"));
    broker.produce(1, Some(b"other again"));
    // Nothing more is emitted of it, and the other partition goes on.
    assert_eq!(texts(&bench.drain()), ["other again"]);
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(broker.let_go(), []);
    [0, 2, 3].iter().for_each(|at| bench.ack(&outs[*at]));
    bench.drain();
    assert_eq!(broker.let_go(), [], "its last commit is still to come");
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.drain();
    assert_eq!((bench.committed(0), broker.let_go()), (Some(4), vec![tp(0)]));
    assert_eq!(bench.metrics.left_unfinished().get(), 0);
}

#[test]
fn a_revoked_partition_with_nothing_in_flight_is_let_go_at_once() {
    let broker = broker(1);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    revoke(&broker);
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0)]);
}

#[test]
fn a_drain_that_takes_too_long_ends_with_what_is_done_by_then() {
    let broker = broker(6);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    [1, 3, 4].iter().for_each(|at| bench.ack(&outs[*at]));
    revoke(&broker);
    bench.drain();
    bench.after(Duration::from_secs(9));
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(broker.let_go(), []);
    bench.after(Duration::from_secs(1));
    bench.ack(&outs[5]);
    bench.drain();
    assert_eq!(broker.let_go(), [], "what was done last is not committed yet");
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0)]);
    // Offsets 0 and 2.
    assert_eq!(bench.metrics.left_unfinished().get(), 2);
    bench.ack(&outs[0]);
    bench.fail(&outs[2], &ComponentError::new("too late"));
    assert_eq!((bench.metrics.late_acks().get(), bench.duplicates()), (2, 0));

    let mut next = Bench::new(&broker, KafkaSpoutOptions::default());
    assert_eq!(texts(&next.drain()), ["line 0", "line 2", "other"]);
}

#[test]
fn a_partition_is_let_go_in_time_though_nothing_may_be_emitted() {
    let broker = broker(2);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    bench.drain();
    revoke(&broker);
    for second in 0..=15 {
        assert_eq!(broker.let_go(), [], "after {second} s");
        for _ in 0..10 {
            let _step = bench.poller.step(bench.now, Duration::ZERO).unwrap();
            bench.spout.poll(bench.now).unwrap();
        }
        bench.now = bench.now + Duration::from_secs(1);
    }
    assert_eq!((broker.let_go(), bench.metrics.left_unfinished().get()), (vec![tp(0)], 2));
}

#[test]
fn a_commit_that_does_not_end_is_no_reason_to_keep_a_partition() {
    let broker = broker(2);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    outs.iter().for_each(|out| bench.ack(out));
    broker.get().hold_commits = true;
    assert_eq!(bench.commit_now(), CommitState::Pending);
    revoke(&broker);
    bench.drain();
    bench.after(Duration::from_secs(14));
    assert_eq!(broker.let_go(), []);
    bench.after(Duration::from_secs(1));
    assert_eq!((broker.let_go(), bench.metrics.left_unfinished().get()), (vec![tp(0)], 2));
}

#[test]
fn a_failed_record_of_a_leaving_partition_is_left_to_the_next_member() {
    let broker = broker(2);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    revoke(&broker);
    bench.drain();
    bench.fail(&outs[0], &ComponentError::new("not now"));
    bench.ack(&outs[1]);
    let (_, next) = bench.step();
    assert_eq!(next, Next::Idle { until: None }, "nothing is due");
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.after(Duration::from_secs(1)), []);
    assert_eq!((broker.let_go(), bench.metrics.left_unfinished().get()), (vec![tp(0)], 1));
}

#[test]
fn a_dead_letter_on_its_way_is_waited_for() {
    let broker = broker(1);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.letters.get().hold = true;
    bench.fail(&outs[0], &ComponentError::permanent("never"));
    revoke(&broker);
    bench.drain();
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.drain();
    assert_eq!(broker.let_go(), []);
    bench.letters.get().hold = false;
    bench.drain();
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.drain();
    assert_eq!((bench.committed(0), broker.let_go()), (Some(1), vec![tp(0)]));
    assert_eq!(bench.dead(DeadLetterReason::Permanent), 1);
}

#[test]
fn a_lost_partition_commits_nothing_and_late_acks_are_ignored_and_counted() {
    let broker = broker(3);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.ack(&outs[0]);
    let frozen = bench.freeze();
    broker.says(SourceEvent::Lost(vec![tp(0)]));
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0)]);
    assert_eq!(bench.commit(frozen), CommitState::Refused);
    bench.ack(&outs[1]);
    assert_eq!((bench.metrics.late_acks().get(), bench.committed(0)), (1, None));
    assert_eq!(bench.metrics.left_unfinished().get(), 3);
    // It comes back: everything uncommitted is emitted again, and the old ack does not meet the new record.
    broker.gives(&[tp(0)]);
    let again = bench.drain();
    assert_eq!(texts(&again), ["line 0", "line 1", "line 2"]);
    assert_eq!(bench.replayed(), 3);
    bench.ack(&outs[2]);
    let _state = bench.commit_now();
    assert_eq!((bench.metrics.late_acks().get(), bench.committed(0)), (2, Some(0)));
    again.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    assert_eq!(bench.committed(0), Some(3));
}

#[test]
fn a_partition_that_is_lost_while_it_drains_is_answered_once_for_each_question() {
    let broker = broker(3);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    bench.ack(&outs[0]);
    revoke(&broker);
    bench.drain();
    broker.says(SourceEvent::Lost(vec![tp(0), tp(1)]));
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0), tp(0), tp(1)]);
    let _state = bench.commit_now();
    assert_eq!(broker.get().commits, []);
}

#[test]
fn every_partition_is_revoked_at_once_by_an_eager_assignor() {
    let broker = broker(2);
    let mut bench = Bench::new(&broker, KafkaSpoutOptions::default());
    let outs = bench.drain();
    broker.says(SourceEvent::Revoked(vec![tp(0), tp(1)]));
    bench.drain();
    outs.iter().for_each(|out| bench.ack(out));
    assert_eq!(bench.commit_now(), CommitState::Done);
    bench.drain();
    assert_eq!(broker.let_go(), [tp(0), tp(1)]);
    broker.gives(&[tp(1)]);
    broker.produce(0, Some(b"another's"));
    broker.produce(1, Some(b"ours"));
    assert_eq!(texts(&bench.drain()), ["ours"]);
}

#[test]
fn at_most_once_emits_what_it_has_committed_before_the_partition_goes() {
    let broker = broker(100);
    let options = KafkaSpoutOptions { max_pending_records: 10, ..KafkaSpoutOptions::default() };
    let mut bench = Bench::with(&broker, options, Delivery::AtMostOnce);
    let mut emitted = Vec::new();
    while bench.committed(0).is_none() {
        emitted.extend(bench.step().0);
    }
    revoke(&broker);
    broker.produce(0, Some(b"for the next member"));
    emitted.extend(bench.drain());
    emitted.retain(|out| out.text != "other");
    assert_eq!((emitted.len(), bench.committed(0), broker.let_go()), (100, Some(100), vec![tp(0)]));
}

#[derive(Clone, Debug)]
enum Step {
    Produce(i32),
    /// A member emits.
    Work(usize),
    Ack(usize, usize),
    Fail(usize, usize),
    Commit(usize),
    /// A partition is asked back, and goes to the other member when it is let go.
    Move(i32),
    /// A partition goes to the other member at once.
    Lose(i32),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (member, partition) = (0..2_usize, 0..2_i32);
    let step = prop_oneof![
        4 => partition.clone().prop_map(Step::Produce),
        4 => member.clone().prop_map(Step::Work),
        8 => (member.clone(), any::<usize>()).prop_map(|(member, at)| Step::Ack(member, at)),
        1 => (member.clone(), any::<usize>()).prop_map(|(member, at)| Step::Fail(member, at)),
        4 => member.prop_map(Step::Commit),
        2 => partition.clone().prop_map(Step::Move),
        1 => partition.prop_map(Step::Lose),
        1 => prop_oneof![Just(1_u64), Just(20)].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..150)
}

/// Two members and the group between them.
struct Group {
    broker: FakeBroker,
    members: [Bench; 2],
    owner: [usize; 2],
    moving: BTreeSet<i32>,
    open: [Vec<Out>; 2],
    emitted: BTreeMap<String, usize>,
    acked: BTreeSet<String>,
    failed: usize,
}

/// `partition:offset`.
fn place(text: &str) -> (i32, i64) {
    let (partition, offset) = text.split_once(':').unwrap();
    (partition.parse().unwrap(), offset.parse().unwrap())
}

impl Group {
    fn new() -> Self {
        let broker = FakeBroker::default();
        broker.get().shared = true;
        (0..2).for_each(|partition| broker.hole(partition));
        let retry = RetryPolicy { max_retries: u32::MAX, ..RetryPolicy::default() };
        let options = KafkaSpoutOptions { retry, ..KafkaSpoutOptions::default() };
        let members = [0, 1].map(|member| Bench::new(&broker.member(member), options.clone()));
        (0..2).for_each(|partition| broker.member(partition).gives(&[tp(i32::try_from(partition).unwrap())]));
        Self {
            broker,
            members,
            owner: [0, 1],
            moving: BTreeSet::new(),
            open: [Vec::new(), Vec::new()],
            emitted: BTreeMap::new(),
            acked: BTreeSet::new(),
            failed: 0,
        }
    }

    fn owner(&mut self, partition: i32) -> &mut usize {
        &mut self.owner[usize::try_from(partition).unwrap()]
    }

    fn give_to_the_other(&mut self, partition: i32) {
        let owner = self.owner(partition);
        *owner = 1 - *owner;
        let to = *owner;
        self.broker.member(to).gives(&[tp(partition)]);
    }

    /// Whether the group has committed a record.
    fn is_committed(&self, text: &str) -> bool {
        let (partition, offset) = place(text);
        self.broker.get().committed.get(&tp(partition)).is_some_and(|committed| {
            let above = CommitMetadata::decode(&committed.metadata).unwrap().done;
            offset < committed.next.0 || above.contains(offset)
        })
    }

    fn work(&mut self, member: usize) {
        for out in self.members[member].drain() {
            assert!(!self.is_committed(&out.text), "{} is committed and comes again", out.text);
            *self.emitted.entry(out.text.clone()).or_default() += 1;
            self.open[member].push(out);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Produce(partition) => {
                let end = self.broker.get().topics[&tp(partition)].end;
                self.broker.produce(partition, Some(format!("{partition}:{end}").as_bytes()));
            }
            Step::Work(member) => self.work(member),
            Step::Ack(member, at) if !self.open[member].is_empty() => {
                let at = at % self.open[member].len();
                let out = self.open[member].swap_remove(at);
                self.members[member].ack(&out);
                self.acked.insert(out.text);
            }
            Step::Fail(member, at) if !self.open[member].is_empty() => {
                let at = at % self.open[member].len();
                let out = self.open[member].swap_remove(at);
                self.members[member].fail(&out, &ComponentError::new("again"));
                self.failed += 1;
            }
            Step::Commit(member) => {
                let _state = self.members[member].commit_now();
            }
            Step::Move(partition) if self.moving.insert(partition) => {
                let from = *self.owner(partition);
                self.broker.member(from).says(SourceEvent::Revoked(vec![tp(partition)]));
            }
            Step::Lose(partition) if !self.moving.contains(&partition) => self.lose(partition),
            Step::Wait(seconds) => {
                for member in &mut self.members {
                    member.now = member.now + Duration::from_secs(seconds);
                }
            }
            Step::Ack(..) | Step::Fail(..) | Step::Move(_) | Step::Lose(_) => {}
        }
        let let_go = std::mem::take(&mut self.broker.get().let_go);
        for (member, TopicPartition { partition, .. }) in let_go {
            // A former owner may answer late that it has lost the partition.
            if *self.owner(partition) == member && self.moving.remove(&partition) {
                self.give_to_the_other(partition);
            }
        }
    }

    /// A broker refuses what the old owner sends from now on, so it has to hear of it at once.
    fn lose(&mut self, partition: i32) {
        let from = *self.owner(partition);
        if self.broker.member(from).is_up_to_date() {
            self.broker.member(from).says(SourceEvent::Lost(vec![tp(partition)]));
            let now = self.members[from].now;
            let _step = self.members[from].poller.step(now, Duration::ZERO).unwrap();
            self.give_to_the_other(partition);
        }
    }

    /// In the end every record is done and committed, and no more came again than was announced.
    fn finish(mut self) {
        for _ in 0..40 {
            for member in 0..2 {
                self.step(&Step::Wait(20));
                self.work(member);
                while !self.open[member].is_empty() {
                    self.step(&Step::Ack(member, 0));
                }
                self.step(&Step::Commit(member));
                self.work(member);
            }
        }
        assert!(self.moving.is_empty(), "never let go: {:?}", self.moving);
        let logs: Vec<_> = self.broker.get().topics.values().flat_map(|log| log.records.clone()).collect();
        let texts: BTreeSet<_> = logs.into_iter().map(|r| String::from_utf8(r.value.unwrap()).unwrap()).collect();
        assert_eq!(self.acked, texts);
        assert!(texts.iter().all(|text| self.is_committed(text)));
        for partition in 0..2 {
            let commits = self.broker.get().commits.clone();
            assert!(commits.iter().filter(|(of, _)| *of == tp(partition)).is_sorted_by_key(|(_, next)| *next));
        }
        let again: usize = self.emitted.values().map(|times| times - 1).sum();
        let announced: u64 = self.members.iter().map(|member| member.metrics.left_unfinished().get()).sum();
        let most = usize::try_from(announced).unwrap() + self.failed;
        assert!(again <= most, "{again} came again, {most} were announced");
    }
}

proptest! {
    #[test]
    fn whatever_a_group_does_nothing_is_lost_and_what_comes_again_was_announced(steps in steps()) {
        let mut group = Group::new();
        for step in &steps {
            group.step(step);
        }
        group.finish();
    }
}
