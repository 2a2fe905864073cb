//! The client ports over librdkafka, against Apache Kafka: what they promise is so.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        admin::Admin,
        client::{
            AssignmentEpoch, Commit, CommitOutcome, CommitToken, Committed, Contents, DeliveryFailure, DeliveryReport,
            ErrorKind, FailedRecord, FlushId, NextOffset, Position, SinkClient, SourceClient, SourceEvent,
            TopicPartition,
        },
        produce::{BY_KEY, ProduceBatch, ProduceRecord},
        reader::TopicReader,
        record::{NO_TIMESTAMP, push_header},
    },
    tuple::murmur2,
};

use crate::{
    broker::{Broker, Isolation, Record},
    process::web_server,
    trials,
};

const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);

pub fn trials() -> Vec<Trial> {
    let mut trials = trials!(shared:
        every_kind_of_record_comes_back_as_it_was_sent,
        a_key_lies_where_javas_partitioner_puts_it,
        a_full_queue_takes_a_prefix_and_nothing_is_lost_or_out_of_order,
        acknowledgements_are_counted_exactly_for_each_flush,
        a_record_that_is_too_large_fails_and_the_others_arrive,
        a_request_that_is_too_large_gives_its_records_back_whole,
        committed_offsets_and_metadata_come_with_the_next_assignment,
        a_new_partition_is_told_from_a_new_group,
        a_commit_of_an_assignment_that_ended_is_refused,
        the_end_of_a_partition_lies_behind_what_nobody_gets,
        pausing_at_the_end_skips_nothing,
        pausing_before_the_first_record_and_in_between_skips_nothing,
        an_offset_that_is_gone_is_an_event_and_a_seek_goes_on,
        three_members_hear_of_every_rebalance_and_share_every_record,
        a_revoked_partition_can_be_committed_until_it_is_let_go,
        a_partition_that_leaves_while_it_is_paused_is_not_paused_when_it_comes_back,
        topics_by_pattern_are_found,
        a_whole_topic_is_read_once,
        topics_are_made_looked_at_and_removed,
        what_cannot_be_reached_is_said_in_a_sentence,
        a_refused_setting_never_shows_a_secret,
    );
    trials.extend(trials!(alone: a_stopped_broker_is_said_once_and_its_return_once));
    trials
}

fn connection(broker: &Broker) -> Connection {
    Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() }
}

fn sink(broker: &Broker) -> RdkafkaSink {
    RdkafkaSink::new(&SinkOptions::new(connection(broker)), Clock::system()).unwrap()
}

fn partition(topic: &str, n: i32) -> TopicPartition {
    TopicPartition::new(topic, n)
}

/// A source client that is driven by a test, which answers every rebalance at once unless it says otherwise.
struct Member {
    source: RdkafkaSource,
    /// Partition → the epoch under which it is ours.
    ours: BTreeMap<TopicPartition, AssignmentEpoch>,
    /// Partition → offsets that came, in order.
    offsets: BTreeMap<TopicPartition, Vec<i64>>,
    ends: BTreeMap<TopicPartition, NextOffset>,
    committed: BTreeMap<TopicPartition, Option<Committed>>,
    new_group: Option<bool>,
    outcomes: BTreeMap<CommitToken, Vec<CommitOutcome>>,
    others: Vec<SourceEvent>,
    rebalances: usize,
    /// Keep revoked partitions until the test lets them go.
    holds: bool,
}

impl Member {
    fn new(broker: &Broker, group: &str, topics: &[&str]) -> Self {
        Self::with(SourceOptions::new(
            connection(broker),
            group,
            topics.iter().map(|&topic| topic.to_owned()).collect(),
        ))
    }

    fn with(options: SourceOptions) -> Self {
        Self {
            source: RdkafkaSource::new(options, Clock::system()).unwrap(),
            ours: BTreeMap::new(),
            offsets: BTreeMap::new(),
            ends: BTreeMap::new(),
            committed: BTreeMap::new(),
            new_group: None,
            outcomes: BTreeMap::new(),
            others: Vec::new(),
            rebalances: 0,
            holds: false,
        }
    }

    fn step(&mut self) {
        let mut events = Vec::new();
        self.source.poll(1000, STEP, &mut events).unwrap();
        for event in events {
            self.take(event);
        }
    }

    fn take(&mut self, event: SourceEvent) {
        match event {
            SourceEvent::Records(block) => {
                assert_eq!(self.ours.get(&block.partition), Some(&block.epoch), "{}", block.partition);
                let seen = self.offsets.entry(block.partition.clone()).or_default();
                seen.extend(block.records().iter().map(|head| head.offset.0));
                assert!(seen.is_sorted_by(|a, b| a < b), "out of order: {seen:?}");
                self.source.recycle(block);
            }
            SourceEvent::Assigned { partitions, epoch, group_is_new } => {
                self.rebalances += 1;
                self.new_group = Some(group_is_new);
                let mut from = Vec::new();
                for p in partitions {
                    assert!(self.ours.insert(p.partition.clone(), epoch).is_none(), "given twice: {p:?}");
                    let start = p.committed.as_ref().map_or(Position::Beginning, |c| Position::At(c.next));
                    from.push((p.partition.clone(), start));
                    self.committed.insert(p.partition, p.committed);
                }
                self.source.assign(&from).unwrap();
            }
            SourceEvent::Revoked(partitions) | SourceEvent::Lost(partitions) => {
                self.rebalances += 1;
                if self.holds {
                    self.others.push(SourceEvent::Revoked(partitions));
                    return;
                }
                for p in partitions {
                    assert!(self.ours.remove(&p).is_some(), "taken though not ours: {p}");
                }
                self.source.unassign().unwrap();
            }
            SourceEvent::EndOfPartition { partition, epoch, next } => {
                assert_eq!(self.ours.get(&partition), Some(&epoch));
                self.ends.insert(partition, next);
            }
            SourceEvent::Committed { token, outcomes } => {
                assert!(self.outcomes.insert(token, outcomes).is_none(), "answered twice");
            }
            other => self.others.push(other),
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            assert!(Instant::now() < deadline, "did not happen: {what}; {:?} {:?}", self.ends, self.others);
            self.step();
        }
    }

    fn total(&self) -> usize {
        self.offsets.values().map(Vec::len).sum()
    }

    fn commit(&mut self, partition: &TopicPartition, next: i64, metadata: &str, token: u64) -> CommitOutcome {
        let epoch = self.ours[partition];
        self.commit_as(partition, epoch, (next, metadata), token)
    }

    fn commit_as(
        &mut self,
        partition: &TopicPartition,
        epoch: AssignmentEpoch,
        (next, metadata): (i64, &str),
        token: u64,
    ) -> CommitOutcome {
        let (partition, token) = (partition.clone(), CommitToken(token));
        let value = Commit { partition, epoch, next: NextOffset(next), metadata: metadata.to_owned() };
        self.source.commit(vec![value], token);
        self.until("the commit is answered", |m| m.outcomes.contains_key(&token));
        self.outcomes.remove(&token).unwrap().pop().unwrap()
    }
}

/// Sends a batch and waits for all its reports.
fn deliver(sink: &mut RdkafkaSink, batch: &ProduceBatch) -> Vec<DeliveryReport> {
    let mut reports = Vec::new();
    let mut at = 0;
    while at < batch.len() {
        at += sink.produce(batch, at);
        sink.poll(Duration::ZERO, &mut reports).unwrap();
    }
    sink.close(PATIENCE, &mut reports).unwrap();
    assert_eq!(sink.in_flight(), 0);
    reports
}

fn acked(reports: &[DeliveryReport]) -> BTreeMap<FlushId, u64> {
    let mut counts = BTreeMap::new();
    for report in reports {
        if let DeliveryReport::Acked { flush, records } = report {
            *counts.entry(*flush).or_default() += records;
        }
    }
    counts
}

/// Key, value, headers and timestamp of a record.
type Sent<'a> = (Option<&'a [u8]>, Option<&'a [u8]>, &'a [u8], i64);

fn every_kind_of_record_comes_back_as_it_was_sent(broker: &Broker) {
    let topic = broker.topic("kinds", 1, &[]);
    let large = vec![b'x'; 900 * 1024];
    let mut thousand = Vec::new();
    for n in 0..1000 {
        let value = n.to_string();
        push_header(b"same-name", (n % 3 > 0).then_some(value.as_bytes()), &mut thousand);
    }
    let sent: [Sent<'_>; 7] = [
        (None, Some(b"null key"), b"", NO_TIMESTAMP),
        (Some(b"tombstone"), None, b"", 1_700_000_000_000),
        (Some(b""), Some(b""), b"", NO_TIMESTAMP),
        (None, None, b"", 0),
        (Some(b"headers"), Some(b"1000"), &thousand, NO_TIMESTAMP),
        (Some(b"\xff\xfe"), Some(&large), b"", NO_TIMESTAMP),
        (Some(b"last"), Some(b"\n"), b"", 1),
    ];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for (key, value, headers, timestamp) in sent {
        batch.push_to(0, timestamp, &ProduceRecord { key, value, headers, ..Default::default() });
    }
    assert_eq!(acked(&deliver(&mut sink(broker), &batch)), [(FlushId(0), 7)].into());

    let mut seen = 0;
    let mut reader = TopicReader::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    let mut check = |block: &stormglass::kafka::client::RecordBlock| {
        for (i, head) in block.records().iter().enumerate() {
            let (key, value, headers, timestamp) = sent[seen];
            assert_eq!((block.key(i), block.value(i)), (key, value), "record {seen}");
            assert_eq!(block.headers_encoded(i), headers, "record {seen}");
            assert_eq!(head.offset.0, seen as i64);
            if timestamp >= 0 {
                assert!(head.timestamp == timestamp || timestamp == 0, "{}", head.timestamp);
            } else {
                assert!(head.timestamp > 1_600_000_000_000, "the time of sending: {}", head.timestamp);
            }
            seen += 1;
        }
        ControlFlow::Continue(())
    };
    reader.read_all(&topic, &mut check).unwrap();
    assert_eq!(seen, 7);
}

fn a_key_lies_where_javas_partitioner_puts_it(broker: &Broker) {
    let topic = broker.topic("partitioner", 7, &[]);
    let keys: Vec<String> = ["", "a", "21", "foobar", "schön", "a-little-bit-long-string"]
        .map(str::to_owned)
        .into_iter()
        .chain((0..500).map(|n| format!("word{n}")))
        .collect();
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for key in &keys {
        batch.push_to(
            BY_KEY,
            NO_TIMESTAMP,
            &ProduceRecord { key: Some(key.as_bytes()), value: Some(b"1"), ..Default::default() },
        );
    }
    // Half of them by the other way into the client, which carries headers.
    let mut header = Vec::new();
    push_header(b"h", Some(b"1"), &mut header);
    for key in &keys {
        batch.push(&ProduceRecord { key: Some(key.as_bytes()), value: None, headers: &header, ..Default::default() });
    }
    deliver(&mut sink(broker), &batch);
    let read = broker.read(&topic, Isolation::ReadCommitted);
    assert_eq!(read.len(), 2 * keys.len());
    for record in read {
        // The hash itself is held to Kafka's own test values in `tuple`.
        let hash = murmur2(record.key.as_deref().unwrap()) & 0x7fff_ffff;
        assert_eq!(record.partition.unwrap(), i32::try_from(hash % 7).unwrap(), "{:?}", record.text());
    }
}

fn a_full_queue_takes_a_prefix_and_nothing_is_lost_or_out_of_order(broker: &Broker) {
    let topic = broker.topic("full", 1, &[]);
    let mut options = SinkOptions::new(connection(broker));
    options.queue_records = 100;
    let mut sink = RdkafkaSink::new(&options, Clock::system()).unwrap();
    let mut header = Vec::new();
    push_header(b"h", None, &mut header);
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for n in 0..5000_u32 {
        let text = n.to_string();
        let headers: &[u8] = if n % 50 == 7 { &header } else { b"" };
        batch.push_to(0, NO_TIMESTAMP, &ProduceRecord { value: Some(text.as_bytes()), headers, ..Default::default() });
    }
    let (mut at, mut partly, mut reports) = (0, 0, Vec::new());
    while at < batch.len() {
        let taken = sink.produce(&batch, at);
        assert!(sink.in_flight() <= 100, "{}", sink.in_flight());
        partly += usize::from(at + taken < batch.len());
        at += taken;
        sink.poll(STEP, &mut reports).unwrap();
    }
    sink.close(PATIENCE, &mut reports).unwrap();
    assert!(partly > 0, "the queue was never full");
    assert_eq!(acked(&reports), [(FlushId(0), 5000)].into());
    let read = broker.read(&topic, Isolation::ReadCommitted);
    let expected: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
    assert_eq!(read.iter().map(|r| r.text().1).collect::<Vec<_>>(), expected);
}

fn acknowledgements_are_counted_exactly_for_each_flush(broker: &Broker) {
    let topic = broker.topic("flushes", 3, &[]);
    let mut batch = ProduceBatch::new(topic.as_str().into());
    let mut expected = BTreeMap::new();
    for n in 0..3000_u32 {
        let flush = FlushId(if n % 10 == 0 { u32::MAX } else { n / 1000 });
        *expected.entry(flush).or_insert(0) += 1;
        let key = n.to_string();
        batch.push(&ProduceRecord { key: Some(key.as_bytes()), flush, tag: n, ..Default::default() });
    }
    assert_eq!(acked(&deliver(&mut sink(broker), &batch)), expected);
}

fn a_record_that_is_too_large_fails_and_the_others_arrive(broker: &Broker) {
    let topic = broker.topic("large", 1, &[("max.message.bytes", "50000")]);
    let (for_broker, for_client) = (vec![b'b'; 60_000], vec![b'c'; 2_000_000]);
    let values: [&[u8]; 5] = [b"first", &for_broker, b"second", &for_client, b"third"];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    for (tag, value) in (0..).zip(values) {
        batch.push(&ProduceRecord { key: Some(b"k"), value: Some(value), flush: FlushId(9), tag, headers: b"" });
    }
    let options = SinkOptions { request_records: 1, ..SinkOptions::new(connection(broker)) };
    let mut one_by_one = RdkafkaSink::new(&options, Clock::system()).unwrap();
    let reports = deliver(&mut one_by_one, &batch);
    assert_eq!(acked(&reports), [(FlushId(9), 3)].into());
    let mut failed: Vec<_> = failures(&reports).map(|f| (f.tag, f.flush, f.reason, f.value_len)).collect();
    failed.sort_by_key(|f| f.0);
    let large = |tag, len| (tag, FlushId(9), DeliveryFailure::TooLarge, len);
    assert_eq!(failed, [large(1, 60_000), large(3, 2_000_000)]);
    assert!(failures(&reports).all(|f| f.key.as_deref() == Some(b"k") && f.contents.is_none()));
    let read: Vec<_> = broker.read(&topic, Isolation::ReadCommitted).iter().map(|r| r.text().1).collect();
    assert_eq!(read, ["first", "second", "third"]);
}

fn a_request_that_is_too_large_gives_its_records_back_whole(broker: &Broker) {
    let topic = broker.topic("large-request", 1, &[("max.message.bytes", "50000")]);
    let large = vec![b'b'; 60_000];
    let mut batch = ProduceBatch::new(topic.as_str().into());
    let mut headers = Vec::new();
    push_header(b"name", Some(b"text"), &mut headers);
    batch.push(&ProduceRecord { key: Some(b"k"), value: Some(&large), flush: FlushId(9), tag: 7, headers: &headers });
    let reports = deliver(&mut sink(broker), &batch);
    let failed: Vec<_> = failures(&reports).collect();
    let [failed] = failed.as_slice() else { panic!("{reports:?}") };
    assert_eq!((failed.tag, failed.reason), (7, DeliveryFailure::RequestTooLarge));
    assert_eq!(failed.contents, Some(Contents { value: Some(large), headers }));
}

fn failures(reports: &[DeliveryReport]) -> impl Iterator<Item = &FailedRecord> {
    reports.iter().filter_map(|report| match report {
        DeliveryReport::Failed(failed) => Some(&**failed),
        _ => None,
    })
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

fn topics_are_made_looked_at_and_removed(broker: &Broker) {
    let admin = Admin::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    let topic = broker.unique("admin");
    assert_eq!(admin.partitions(&topic).unwrap(), None);
    assert!(admin.ensure_topic(&topic, 5, &[("cleanup.policy", "compact")]).unwrap());
    assert!(!admin.ensure_topic(&topic, 9, &[]).unwrap());
    assert_eq!(admin.partitions(&topic).unwrap(), Some(5));
    assert_eq!(admin.topic_setting(&topic, "cleanup.policy").unwrap().as_deref(), Some("compact"));
    assert_eq!(admin.topic_setting(&topic, "no.such.setting").unwrap(), None);
    assert!(admin.delete_topic(&topic).unwrap());
    assert!(!admin.delete_topic(&topic).unwrap());
    let error = admin.ensure_topic("no/such:name", 1, &[]).unwrap_err();
    assert!(error.message.contains("no/such:name"), "{error}");
}

fn what_cannot_be_reached_is_said_in_a_sentence(broker: &Broker) {
    let start = Duration::from_secs(3);
    let kind_and_text = |brokers: &str| {
        let connection = Connection { brokers: brokers.to_owned(), ..Connection::default() };
        let options = SourceOptions::new(connection, "group", vec!["topic".to_owned()]);
        let mut source = RdkafkaSource::new(options, Clock::system()).unwrap();
        let error = source.partitions(start).unwrap_err();
        // And as an event, once, for a process that was running.
        let (mut events, deadline) = (Vec::new(), Instant::now() + Duration::from_secs(3));
        while Instant::now() < deadline {
            source.poll(10, STEP, &mut events).unwrap();
        }
        let troubles = events.iter().filter(|e| matches!(e, SourceEvent::Trouble(_))).count();
        assert_eq!((troubles, events.len()), (1, 1), "{events:?}");
        error
    };
    let absent = kind_and_text("127.0.0.1:1");
    assert_eq!(absent.kind, ErrorKind::Unavailable);
    assert!(absent.message.starts_with("no broker answers at 127.0.0.1:1 ("), "{absent}");
    let unknown = kind_and_text("no-such-host.invalid:9092");
    assert!(unknown.message.starts_with("cannot find the host of broker no-such-host.invalid:9092"), "{unknown}");

    let address = web_server();
    let other = kind_and_text(&address);
    assert!(
        other.message.starts_with(&format!("what answers at {address} does not speak Kafka's protocol")),
        "{other}"
    );

    let mut options = SourceOptions::new(connection(broker), "group", vec![broker.unique("missing")]);
    let missing = RdkafkaSource::new(options.clone(), Clock::system()).unwrap().partitions(PATIENCE).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::UnknownTopic);
    assert!(missing.message.contains(&options.topics[0]), "{missing}");

    options.connection.overrides.insert("security.protocol".into(), "ssl".into());
    let mut tls = RdkafkaSource::new(options, Clock::system()).unwrap();
    let plain = tls.partitions(start).unwrap_err();
    assert!(plain.message.contains(broker.bootstrap()), "{plain}");
    assert!(plain.message.contains("security.protocol") || plain.message.contains("TLS"), "{plain}");
}

fn a_refused_setting_never_shows_a_secret(broker: &Broker) {
    let mut connection = connection(broker);
    connection.overrides.insert("ssl.key.pem".into(), "canary-9e1".into());
    connection.overrides.insert("security.protocol".into(), "ssl".into());
    let options = SourceOptions::new(connection.clone(), "g", vec!["t".to_owned()]);
    let error = RdkafkaSource::new(options, Clock::system()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Config);
    assert!(!error.message.contains("canary"), "{error}");
    connection.overrides = [("no.such.property".to_owned(), "1".to_owned())].into();
    let error = RdkafkaSink::new(&SinkOptions::new(connection), Clock::system()).unwrap_err();
    assert!(error.message.contains("\"no.such.property\""), "{error}");
}

fn a_stopped_broker_is_said_once_and_its_return_once(broker: &mut Broker) {
    let topic = broker.topic("outage", 1, &[]);
    broker.produce(&topic, ["0"]);
    let p = partition(&topic, 0);
    let mut member = Member::new(broker, &broker.unique("group"), &[&topic]);
    let mut sink = sink(broker);
    let mut batch = ProduceBatch::new(topic.as_str().into());
    batch.push(&ProduceRecord { value: Some(b"1"), ..Default::default() });
    member.until("the end", |m| m.ends.len() == 1);
    deliver(&mut sink, &batch);
    member.until("both records", |m| m.total() == 2);

    broker.stop();
    let mut reports = Vec::new();
    let stopped = Instant::now();
    while stopped.elapsed() < Duration::from_secs(6) {
        member.step();
        sink.poll(STEP, &mut reports).unwrap();
    }
    let said = |events: &[SourceEvent]| match events {
        [SourceEvent::Trouble(trouble)] => trouble.message.clone(),
        other => panic!("{other:?}"),
    };
    let message = said(&member.others);
    assert!(message.starts_with(&format!("no broker answers at {}", broker.bootstrap())), "{message}");
    assert!(matches!(&reports[..], [DeliveryReport::Trouble(_)]), "{reports:?}");
    // What is sent meanwhile waits.
    assert_eq!(sink.produce(&batch, 0), 1);

    broker.start();
    member.until("recovered", |m| m.others.len() == 2);
    assert!(matches!(member.others[1], SourceEvent::Recovered));
    member.until("the record sent meanwhile", |m| m.total() == 3);
    sink.close(PATIENCE, &mut reports).unwrap();
    assert_eq!(acked(&reports), [(FlushId(0), 1)].into());
    assert!(
        matches!(
            reports[1..],
            [DeliveryReport::Acked { .. }, DeliveryReport::Recovered]
                | [DeliveryReport::Recovered, DeliveryReport::Acked { .. }]
        ),
        "{reports:?}"
    );
    assert_eq!(member.commit(&p, 3, "", 1), CommitOutcome::Done);
    assert_eq!(member.others.len(), 2, "{:?}", member.others);
}
