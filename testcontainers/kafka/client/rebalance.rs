//! Partitions that come and go.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use stormglass::kafka::{
    SourceOptions,
    client::{
        AssignmentEpoch, CommitOutcome, NextOffset, SourceClient as _, SourceEvent, TopicPartition,
        produce::{ProduceBatch, ProduceRecord},
        record::NO_TIMESTAMP,
    },
};

use super::{PATIENCE, connection, deliver, member::Member, partition, sink};
use crate::{
    broker::{Broker, Record},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        three_members_hear_of_every_rebalance_and_share_every_record,
        a_revoked_partition_can_be_committed_until_it_is_let_go,
        a_partition_that_leaves_while_it_is_paused_is_not_paused_when_it_comes_back,
        topics_by_pattern_are_found,
        a_static_member_that_is_back_sees_to_partitions_that_nobody_reads,
    )
}

fn three_members_hear_of_every_rebalance_and_share_every_record(broker: &Broker) {
    const PARTITIONS: i32 = 12;
    let topic = broker.topic("rebalance", PARTITIONS, &[]);
    let group = broker.unique("group");
    let mut sink = sink(broker);
    let mut sent = 0_u32;
    let mut members: Vec<Member> = Vec::new();
    let mut seen: BTreeSet<(TopicPartition, i64)> = BTreeSet::new();
    // Members come and go while records flow; after each change the partitions are shared without gap or overlap.
    for change in [1, 2, 3, 2, 3, 1, 3, 0_usize] {
        while members.len() > change.max(1) {
            let mut leaver = members.remove(0);
            leaver.source.close(PATIENCE).unwrap();
            seen.extend(leaver.offsets.iter().flat_map(|(p, all)| all.iter().map(|o| (p.clone(), *o))));
        }
        while members.len() < change {
            members.push(Member::new(broker, &group, &[&topic]));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut batch = ProduceBatch::new(topic.as_str().into());
            for _ in 0..20 {
                let text = sent.to_string();
                let to = i32::try_from(sent % 12).unwrap();
                batch.push_to(to, NO_TIMESTAMP, &ProduceRecord { value: Some(text.as_bytes()), ..Default::default() });
                sent += 1;
            }
            deliver(&mut sink, &batch);
            members.iter_mut().for_each(Member::step);
            let owned: Vec<usize> = members.iter().map(|m| m.ours.len()).collect();
            let each = 12 / members.len();
            if owned.iter().all(|n| *n == each) {
                break;
            }
            assert!(Instant::now() < deadline, "partitions never settled: {owned:?}");
        }
        let all: BTreeSet<_> = members.iter().flat_map(|m| m.ours.keys()).collect();
        assert_eq!(all.len(), 12, "an overlap or a gap");
    }
    let mut last = members.pop().unwrap();
    let sent = sent as usize;
    last.until("every record", |m| {
        let here = m.offsets.iter().flat_map(|(p, all)| all.iter().map(|o| (p.clone(), *o)));
        here.chain(seen.iter().cloned()).collect::<BTreeSet<_>>().len() == sent
    });
    assert!(last.rebalances >= 2, "{}", last.rebalances);
}

fn a_revoked_partition_can_be_committed_until_it_is_let_go(broker: &Broker) {
    let topic = broker.topic("drain", 2, &[]);
    broker.produce(&topic, (0..20).map(|n| Record { partition: Some(n % 2), ..Record::from("x") }));
    let group = broker.unique("group");
    let mut first = Member::new(broker, &group, &[&topic]);
    first.until("both ends", |m| m.ends.len() == 2);
    first.holds = true;
    let mut second = Member::new(broker, &group, &[&topic]);
    let revoked = |m: &Member| m.others.iter().any(|e| matches!(e, SourceEvent::Revoked(_)));
    let deadline = Instant::now() + PATIENCE;
    while !revoked(&first) {
        assert!(Instant::now() < deadline);
        first.step();
        second.step();
    }
    let Some(SourceEvent::Revoked(taken)) = first.others.pop() else { panic!() };
    let p = taken[0].clone();
    assert_eq!(first.commit(&p, 10, "drained", 1), CommitOutcome::Done);
    first.ours.remove(&p);
    first.source.unassign().unwrap();
    while second.ours.is_empty() {
        assert!(Instant::now() < deadline);
        first.step();
        second.step();
    }
    let found = second.committed[&p].clone().unwrap();
    assert_eq!((found.next, found.metadata.as_str()), (NextOffset(10), "drained"));
    // Too late: it is another's.
    assert_eq!(first.commit_as(&p, AssignmentEpoch(1), (3, ""), 2), CommitOutcome::Rebalanced);
}

fn a_partition_that_leaves_while_it_is_paused_is_not_paused_when_it_comes_back(broker: &Broker) {
    let topic = broker.topic("pause-leave", 2, &[]);
    let both = [partition(&topic, 0), partition(&topic, 1)];
    broker.produce(&topic, (0..2).map(|n| Record { partition: Some(n), ..Record::from("first") }));
    let group = broker.unique("group");
    let mut first = Member::new(broker, &group, &[&topic]);
    first.until("both ends", |m| m.ends.len() == 2);
    first.source.pause(&both).unwrap();
    let mut second = Member::new(broker, &group, &[&topic]);
    let deadline = Instant::now() + PATIENCE;
    while second.ours.is_empty() {
        assert!(Instant::now() < deadline);
        first.step();
        second.step();
    }
    let gone = second.ours.keys().next().unwrap().clone();
    second.source.close(PATIENCE).unwrap();
    first.until("it comes back", |m| m.ours.len() == 2);
    let before = first.offsets[&gone].len();
    // It begins anew, for nothing was committed; a paused one would stand still.
    first.offsets.remove(&gone);
    broker.produce(&topic, [Record { partition: Some(gone.partition), ..Record::from("second") }]);
    first.until("it is read", |m| m.offsets.get(&gone).is_some_and(|offsets| offsets.len() == before + 1));
}

fn topics_by_pattern_are_found(broker: &Broker) {
    let (a, b) = (broker.topic("pattern-a", 2, &[]), broker.topic("pattern-b", 1, &[]));
    let run = a.trim_start_matches("pattern-a-").split('-').next().unwrap().to_owned();
    let pattern = format!("^pattern-.-{run}-");
    let mut member = Member::new(broker, &broker.unique("group"), &[&pattern]);
    let all = member.source.partitions(PATIENCE).unwrap();
    assert_eq!(all, [partition(&a, 0), partition(&a, 1), partition(&b, 0)]);
    member.until("all assigned", |m| m.ours.len() == 3);
}

/// What was added while it was away; and it goes on where it was.
fn a_static_member_that_is_back_sees_to_partitions_that_nobody_reads(broker: &Broker) {
    let topic = broker.topic("static", 2, &[]);
    let group = broker.unique("group");
    let join = || {
        let mut options = SourceOptions::new(connection(broker), group.as_str(), vec![topic.clone()]);
        options.instance = Some("0".to_owned());
        options.session_timeout = Duration::from_secs(10);
        Member::with(options)
    };
    broker.produce(&topic, (0..2).map(|n| Record { partition: Some(n), ..Record::from("before") }));
    let both = [partition(&topic, 0), partition(&topic, 1)];
    let commit = |member: &mut Member, next: i64| {
        member.until("both ends", |m| both.iter().all(|p| m.ends.get(p) == Some(&NextOffset(next))));
        for (p, token) in both.iter().zip(0..) {
            assert_eq!(member.commit(p, next, "", token), CommitOutcome::Done);
        }
    };
    let mut member = join();
    commit(&mut member, 1);
    drop(member);
    broker.grow(&topic, 3).unwrap();
    broker.produce(&topic, (0..3).map(|n| Record { partition: Some(n), ..Record::from("after") }));
    let mut member = join();
    member.until("it has what it had", |m| m.ours.len() == 2);
    commit(&mut member, 2);
    member.until("it has all", |m| m.ours.len() == 3);
    let new = partition(&topic, 2);
    member.until("the new one's end", |m| m.ends.get(&new) == Some(&NextOffset(1)));
    assert_eq!(member.offsets[&new], [0]);
    let found = |p| member.committed[p].as_ref().map(|committed| committed.next);
    assert_eq!(both.each_ref().map(found), [Some(NextOffset(2)); 2]);
}
