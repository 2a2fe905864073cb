//! What is committed, and where a partition ends.

use libtest_mimic::Trial;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use stormglass::kafka::client::{AssignmentEpoch, CommitOutcome, Committed, NextOffset, SourceClient as _};

use super::{PATIENCE, member::Member, partition};
use crate::{
    broker::{Broker, Record},
    trials,
};

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        committed_offsets_and_metadata_come_with_the_next_assignment,
        a_new_partition_is_told_from_a_new_group,
        a_commit_of_an_assignment_that_ended_is_refused,
        the_end_of_a_partition_lies_behind_what_nobody_gets,
    )
}

fn committed_offsets_and_metadata_come_with_the_next_assignment(broker: &Broker) {
    let topic = broker.topic("commit", 2, &[]);
    broker.produce(&topic, (0..10).map(|n| Record { partition: Some(0), ..Record::from(n.to_string().as_str()) }));
    let (group, p0, p1) = (broker.unique("group"), partition(&topic, 0), partition(&topic, 1));
    let mut member = Member::new(broker, &group, &[&topic]);
    member.until("both ends", |m| m.ends.len() == 2);
    assert_eq!(member.new_group, Some(true));
    assert_eq!(member.committed.values().filter(|c| c.is_some()).count(), 0);
    assert_eq!(member.commit(&p0, 7, "v1;8-9 größe", 1), CommitOutcome::Done);
    assert!(matches!(member.commit(&p0, 8, &"x".repeat(5000), 2), CommitOutcome::MetadataTooLarge(_)));
    member.source.close(PATIENCE).unwrap();
    drop(member);
    assert_eq!(broker.committed(&group, &topic), [Some(7), None]);

    let mut member = Member::new(broker, &group, &[&topic]);
    member.until("both ends", |m| m.ends.len() == 2);
    assert_eq!(member.new_group, Some(false));
    let found = Committed { next: NextOffset(7), metadata: "v1;8-9 größe".to_owned() };
    assert_eq!(member.committed, [(p0.clone(), Some(found)), (p1, None)].into());
    assert_eq!(member.offsets[&p0], [7, 8, 9]);
}

fn a_new_partition_is_told_from_a_new_group(broker: &Broker) {
    let (first, second) = (broker.topic("old", 1, &[]), broker.topic("new", 1, &[]));
    broker.produce(&first, ["1"]);
    let group = broker.unique("group");
    let mut member = Member::new(broker, &group, &[&first]);
    member.until("assigned", |m| m.ends.len() == 1);
    member.commit(&partition(&first, 0), 1, "", 1);
    drop(member);
    // The second topic's partition alone may come to a member: that the group is not new is known all the same.
    let mut member = Member::new(broker, &group, &[&first, &second]);
    member.until("both assigned", |m| m.ends.len() == 2);
    assert_eq!(member.new_group, Some(false));
    assert_eq!(member.committed[&partition(&second, 0)], None);
}

fn a_commit_of_an_assignment_that_ended_is_refused(broker: &Broker) {
    let topic = broker.topic("stale", 1, &[]);
    broker.produce(&topic, ["1", "2"]);
    let group = broker.unique("group");
    let mut member = Member::new(broker, &group, &[&topic]);
    member.until("the end", |m| m.ends.len() == 1);
    let p = partition(&topic, 0);
    let AssignmentEpoch(epoch) = member.ours[&p];
    let stale = AssignmentEpoch(epoch - 1);
    assert_eq!(member.commit_as(&p, stale, (1, ""), 1), CommitOutcome::Rebalanced);
    assert_eq!(broker.committed(&group, &topic), [None]);
}

fn the_end_of_a_partition_lies_behind_what_nobody_gets(broker: &Broker) {
    let topic = broker.topic("end", 2, &[]);
    let producer: BaseProducer = broker.client().set("transactional.id", broker.unique("writer")).create().unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    for commits in [true, false] {
        producer.begin_transaction().unwrap();
        for n in 0..3 {
            producer.send(BaseRecord::<str, str>::to(&topic).partition(0).payload(&n.to_string())).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        if commits { producer.commit_transaction(PATIENCE) } else { producer.abort_transaction(PATIENCE) }.unwrap();
    }
    // 0-2 records, 3 a control record, 4-6 aborted, 7 a control record.
    let mut member = Member::new(broker, &broker.unique("group"), &[&topic]);
    member.until("both ends", |m| m.ends.len() == 2);
    let (p0, p1) = (partition(&topic, 0), partition(&topic, 1));
    assert_eq!(member.offsets[&p0], [0, 1, 2]);
    assert_eq!(member.ends, [(p0.clone(), NextOffset(8)), (p1.clone(), NextOffset(0))].into());
    let ends = member.source.watermarks(&[p0, p1], PATIENCE).unwrap();
    assert_eq!(ends.iter().map(|w| (w.low.0, w.high.0)).collect::<Vec<_>>(), [(0, 8), (0, 0)]);
}
