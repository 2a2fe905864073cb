//! Reading that stops, goes on, and begins elsewhere.

use std::{collections::BTreeSet, ops::ControlFlow};

use libtest_mimic::Trial;
use stormglass::{
    clock::Clock,
    kafka::{
        admin::reader::TopicReader,
        client::{ErrorKind, NextOffset, Position, SourceClient as _, SourceEvent},
    },
};

use super::{PATIENCE, connection, member::Member, partition};
use crate::{
    broker::{Broker, Record},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        pausing_at_the_end_skips_nothing,
        pausing_before_the_first_record_and_in_between_skips_nothing,
        an_offset_that_is_gone_is_an_event_and_a_seek_goes_on,
        a_whole_topic_is_read_once,
    )
}

fn pausing_at_the_end_skips_nothing(broker: &Broker) {
    let topic = broker.topic("pause-end", 1, &[]);
    broker.produce(&topic, ["0", "1"]);
    let p = partition(&topic, 0);
    let mut member = Member::new(broker, &broker.unique("group"), &[&topic]);
    member.until("the end", |m| m.ends.get(&p) == Some(&NextOffset(2)));
    for n in 2..12 {
        member.source.pause(std::slice::from_ref(&p)).unwrap();
        member.step();
        broker.produce(&topic, ["next"]);
        (0..3).for_each(|_| member.step());
        assert_eq!(member.total(), n, "a record came while paused");
        member.source.resume(std::slice::from_ref(&p)).unwrap();
        member.until("the next record", |m| m.total() == n + 1);
    }
    assert_eq!(member.offsets[&p], (0..12).collect::<Vec<_>>());
}

fn pausing_before_the_first_record_and_in_between_skips_nothing(broker: &Broker) {
    let topic = broker.topic("pause", 1, &[]);
    broker.produce(&topic, (0..20_000).map(|n| Record::from(n.to_string().as_str())));
    let p = partition(&topic, 0);
    let mut member = Member::new(broker, &broker.unique("group"), &[&topic]);
    member.until("assigned", |m| !m.ours.is_empty());
    while member.total() < 20_000 {
        member.source.pause(std::slice::from_ref(&p)).unwrap();
        let before = member.total();
        (0..2).for_each(|_| member.step());
        assert_eq!(member.total(), before, "records came while paused");
        member.source.resume(std::slice::from_ref(&p)).unwrap();
        member.until("more", |m| m.total() > before);
    }
    assert_eq!(member.offsets[&p], (0..20_000).collect::<Vec<_>>());
}

fn an_offset_that_is_gone_is_an_event_and_a_seek_goes_on(broker: &Broker) {
    let topic = broker.topic("gone", 1, &[]);
    broker.produce(&topic, ["0", "1", "2"]);
    let p = partition(&topic, 0);
    let mut member = Member::new(broker, &broker.unique("group"), &[&topic]);
    member.until("the end", |m| m.ends.len() == 1);
    member.source.seek(&p, Position::At(NextOffset(999)), PATIENCE).unwrap();
    let gone = |m: &Member| m.others.iter().any(|e| matches!(e, SourceEvent::OutOfRange { .. }));
    member.until("out of range", gone);
    let Some(SourceEvent::OutOfRange { partition, next, .. }) = member.others.pop() else { panic!() };
    assert_eq!((partition, next), (p.clone(), Some(NextOffset(999))));
    member.offsets.clear();
    member.source.seek(&p, Position::Beginning, PATIENCE).unwrap();
    member.until("all again", |m| m.total() == 3);
}

fn a_whole_topic_is_read_once(broker: &Broker) {
    let topic = broker.topic("whole", 3, &[]);
    broker.produce(&topic, (0..10_000).map(|n| Record::from(n.to_string().as_str())));
    let mut reader = TopicReader::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    for _again in 0..2 {
        let mut values = BTreeSet::new();
        let mut records = 0;
        let ends = reader
            .read_all(&topic, &mut |block| {
                records += block.len();
                values.extend((0..block.len()).map(|i| block.value(i).unwrap().to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!((records, values.len()), (10_000, 10_000));
        assert_eq!(ends.iter().map(|w| w.high.0).sum::<i64>(), 10_000);
    }
    let mut blocks = 0;
    reader
        .read_all(&topic, &mut |_| {
            blocks += 1;
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(blocks, 1);
    let missing = reader.read_all(&broker.unique("missing"), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::UnknownTopic);
}
