//! Of two that take themselves for the same, one writes.

use libtest_mimic::Trial;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{Consumer, ConsumerGroupMetadata},
    producer::{BaseProducer, Producer},
    types::RDKafkaErrorCode,
};

use super::{
    PATIENCE, both, come, consumer,
    groups::{Member, settle},
    refused, send, transactional, values,
};
use crate::broker::{Broker, Isolation, eventually};

pub fn trials() -> Vec<Trial> {
    both!(
        a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction,
        a_fenced_producer_that_writes_is_refused,
        a_transactional_id_is_taken_over_by_one_after_the_other,
        offsets_of_a_member_of_an_older_generation_are_refused,
        offsets_of_a_static_member_that_was_replaced_are_refused,
        offsets_of_no_member_are_refused_where_there_are_members,
    )
}

fn a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction(broker: &Broker) {
    let topic = broker.topic("fenced", 1, &[]);
    let id = broker.unique("writer");
    let first = transactional(broker, &id, &[]);
    first.begin_transaction().unwrap();
    send(&first, &topic, "lost");
    let second = transactional(broker, &id, &[]);
    // Nothing of the first is open any more, and nothing of it comes.
    broker.produce(&topic, ["plain"]);
    come(broker, &topic, &["plain"]);
    assert_eq!(refused(first.commit_transaction(PATIENCE)), (RDKafkaErrorCode::Fenced, true));
    second.begin_transaction().unwrap();
    send(&second, &topic, "kept");
    second.commit_transaction(PATIENCE).unwrap();
    come(broker, &topic, &["plain", "kept"]);
}

fn a_fenced_producer_that_writes_is_refused(broker: &Broker) {
    let topic = broker.topic("writes", 1, &[]);
    let id = broker.unique("writer");
    let first = transactional(broker, &id, &[]);
    first.begin_transaction().unwrap();
    let second = transactional(broker, &id, &[]);
    first.send(rdkafka::producer::BaseRecord::<(), str>::to(&topic).partition(0).payload("never")).unwrap();
    drop(first.flush(PATIENCE));
    assert_eq!(refused(first.commit_transaction(PATIENCE)), (RDKafkaErrorCode::Fenced, true));
    assert_eq!(first.client().fatal_error().map(|(code, _)| code), Some(RDKafkaErrorCode::Fenced));
    second.begin_transaction().unwrap();
    send(&second, &topic, "kept");
    second.commit_transaction(PATIENCE).unwrap();
    assert_eq!(values(broker, &topic, Isolation::ReadUncommitted), ["kept"]);
}

fn a_transactional_id_is_taken_over_by_one_after_the_other(broker: &Broker) {
    let topic = broker.topic("one-after-the-other", 1, &[]);
    let id = broker.unique("writer");
    for round in 0..5 {
        let writer = transactional(broker, &id, &[]);
        for (name, commits) in [("kept", true), ("dropped", false)] {
            writer.begin_transaction().unwrap();
            send(&writer, &topic, &format!("{name}{round}"));
            if commits {
                writer.commit_transaction(PATIENCE).unwrap();
            } else {
                writer.abort_transaction(PATIENCE).unwrap();
            }
        }
        // And one that is left open: the next one begins by ending it.
        writer.begin_transaction().unwrap();
        send(&writer, &topic, "open");
    }
    drop(transactional(broker, &id, &[]));
    come(broker, &topic, &["kept0", "kept1", "kept2", "kept3", "kept4"]);
}

/// The error of a transaction that takes an offset of partition 0 along.
fn take_along(
    broker: &Broker,
    writer: &BaseProducer,
    (group, topic): (&str, &str),
    member: &ConsumerGroupMetadata,
) -> Result<(), (RDKafkaErrorCode, bool)> {
    let offset = 7;
    let mut offsets = TopicPartitionList::new();
    offsets.add_partition_offset(topic, 0, Offset::Offset(offset)).unwrap();
    writer.begin_transaction().unwrap();
    match writer.send_offsets_to_transaction(&offsets, member, PATIENCE) {
        Ok(()) => {
            writer.commit_transaction(PATIENCE).unwrap();
            eventually("the offset is there", || broker.committed(group, topic)[0] == Some(offset));
            Ok(())
        }
        refusal => {
            let refusal = refused(refusal);
            writer.abort_transaction(PATIENCE).unwrap();
            Err(refusal)
        }
    }
}

fn offsets_of_a_member_of_an_older_generation_are_refused(broker: &Broker) {
    let topic = broker.topic("generation", 2, &[]);
    let group = broker.unique("group");
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    let member = Member::join(broker, &group, &topic, &[]);
    settle(&[&member], "one has all", || member.owns().len() == 2);
    let old = member.consumer.group_metadata().unwrap();
    assert_eq!(take_along(broker, &writer, (&group, &topic), &old), Ok(()));
    assert_eq!(broker.committed(&group, &topic), [Some(7), None]);

    let other = Member::join(broker, &group, &topic, &[]);
    settle(&[&member, &other], "both have one", || member.owns().len() == 1 && other.owns().len() == 1);
    let refusal = take_along(broker, &writer, (&group, &topic), &old);
    assert_eq!(refusal, Err((RDKafkaErrorCode::IllegalGeneration, false)));
    let new = member.consumer.group_metadata().unwrap();
    assert_eq!(take_along(broker, &writer, (&group, &topic), &new), Ok(()));
}

fn offsets_of_a_static_member_that_was_replaced_are_refused(broker: &Broker) {
    let topic = broker.topic("replaced", 1, &[]);
    let group = broker.unique("group");
    let writer = transactional(broker, &broker.unique("writer"), &[]);
    let member = Member::join(broker, &group, &topic, &[("group.instance.id", "a")]);
    settle(&[&member], "it has the partition", || member.owns().len() == 1);
    let old = member.consumer.group_metadata().unwrap();
    let successor = Member::join(broker, &group, &topic, &[("group.instance.id", "a")]);
    settle(&[&successor], "its successor has it", || successor.owns().len() == 1);
    let refusal = take_along(broker, &writer, (&group, &topic), &old);
    assert_eq!(refusal, Err((RDKafkaErrorCode::FencedInstanceId, false)));
    assert_eq!(take_along(broker, &writer, (&group, &topic), &successor.consumer.group_metadata().unwrap()), Ok(()));
}

fn offsets_of_no_member_are_refused_where_there_are_members(broker: &Broker) {
    let topic = broker.topic("outsider", 1, &[]);
    let group = broker.unique("group");
    let outsider = consumer(broker, &group, &[]);
    let commit = |offset| {
        let mut offsets = TopicPartitionList::new();
        offsets.add_partition_offset(&topic, 0, Offset::Offset(offset)).unwrap();
        outsider.commit(&offsets, rdkafka::consumer::CommitMode::Sync)
    };
    commit(1).unwrap();
    let member = Member::join(broker, &group, &topic, &[]);
    settle(&[&member], "it has the partition", || member.owns().len() == 1);
    assert_eq!(commit(2).unwrap_err().rdkafka_error_code(), Some(RDKafkaErrorCode::UnknownMemberId));
    assert_eq!(broker.committed(&group, &topic), [Some(1)]);
}
