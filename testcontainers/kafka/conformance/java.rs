//! Kafka's Java clients at work: a producer in transactions, a reader of committed records, members of a group. They come with
//! its tools and are driven as these are: by arguments and signals, and judged by what they print and where the broker says
//! that they are.
//!
//! A start of one takes seconds of a processor, so there are few trials and each has several things to say.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Buf as _;
use kafka_protocol::{
    messages::{ConsumerProtocolAssignment, DescribeGroupsRequest, GroupId, HeartbeatRequest},
    protocol::{Decodable as _, StrBytes},
};
use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use rdkafka::{consumer::Consumer as _, producer::Producer as _};

use super::{
    PATIENCE, both_with_java, consumer, ends_at, send, transactional, values,
    wire::{Wire, text, topic_name},
};
use crate::{
    broker::{Broker, Isolation, Record, eventually},
    process::Process,
};

pub fn trials() -> Vec<Trial> {
    both_with_java!(
        java_members_share_a_group_and_a_static_one_is_back_unnoticed,
        what_java_writes_in_transactions_it_reads_in_order_without_what_is_aborted_or_open,
    )
}

/// A console consumer that reads a topic from its beginning, and goes on until it is told to end.
fn reader(broker: &Broker, (topic, group): (&str, &str), more: &[&str], properties: &[&str]) -> Process {
    let mut arguments = vec!["--topic", topic, "--group", group, "--from-beginning"];
    arguments.extend(more);
    arguments.extend(properties.iter().flat_map(|property| ["--command-property", property]));
    Process::spawn(broker.tool_command("kafka-console-consumer", &arguments))
}

/// The lines that a reader has printed in full.
fn lines(printed: &str) -> Vec<String> {
    printed.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

fn what_java_writes_in_transactions_it_reads_in_order_without_what_is_aborted_or_open(broker: &Broker) {
    const WRITTEN: i64 = 200;
    let (topic, group) = (broker.topic("java-transactions", 1, &[]), broker.unique("java"));
    // At this pace it takes ten times as long as a transaction lasts.
    let (records, id) = (WRITTEN.to_string(), broker.unique("java-writer"));
    let pace = ["--num-records", &records, "--throughput", "1000", "--transaction-duration-ms", "20"];
    let what = ["--topic", &topic, "--payload-monotonic", "--transactional-id", &id];
    broker.tool("kafka-producer-perf-test", &[&what[..], &pace].concat());
    let seen = || values(broker, &topic, Isolation::ReadCommitted).len().to_string();
    eventually("the last transaction is committed", || seen() == records);
    let (_, written) = consumer(broker, "watermarks", &[]).fetch_watermarks(&topic, 0, PATIENCE).expect("both ends");
    // Each transaction has a marker behind it.
    assert!(written >= WRITTEN + 2, "{WRITTEN} records end at {written}");

    let [aborts, stays_open] = ["aborts", "stays-open"].map(|name| transactional(broker, &broker.unique(name), &[]));
    aborts.begin_transaction().unwrap();
    send(&aborts, &topic, "aborted");
    broker.produce(&topic, ["between"]);
    send(&aborts, &topic, "aborted too");
    aborts.abort_transaction(PATIENCE).unwrap();
    ends_at(broker, &topic, written + 4);
    broker.produce(&topic, ["after"]);
    stays_open.begin_transaction().unwrap();
    send(&stays_open, &topic, "open");
    broker.produce(&topic, ["behind"]);

    let mut visible: Vec<_> = (0..WRITTEN).map(|n| n.to_string()).collect();
    visible.extend(["between", "after"].map(str::to_owned));
    let all = (visible.len() + 1).to_string();
    let isolation = ["--isolation-level", "read_committed", "--max-messages", &all];
    let reader = reader(broker, (&topic, &group), &isolation, &["auto.commit.interval.ms=100"]);
    // The broker had all of it to send from the beginning: what goes past the open transaction does so at once.
    eventually("it has read up to the open transaction", || broker.committed(&group, &topic) == [Some(written + 5)]);
    eventually("it has printed what is visible", || lines(&reader.stdout()) == visible);
    stays_open.abort_transaction(PATIENCE).unwrap();
    visible.push("behind".to_owned());
    assert_eq!(lines(&reader.wait().succeeded().stdout), visible);
}

fn java_members_share_a_group_and_a_static_one_is_back_unnoticed(broker: &Broker) {
    let (topic, group) = (broker.topic("java-members", 4, &[]), broker.unique("java"));
    let join = |name: &str, more: &[&str]| {
        let id = format!("client.id={name}");
        let cooperative = "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
        let properties = [id.as_str(), "group.protocol=classic", cooperative, "heartbeat.interval.ms=200"];
        reader(broker, (&topic, &group), &[], &[&properties[..], more].concat())
    };
    let join_static = || join("stays", &["group.instance.id=stays"]);
    let mut sent = BTreeSet::new();
    let mut produce = |when: &str| {
        let values: Vec<_> = (0..4).map(|partition| (partition, format!("{when}, {partition}"))).collect();
        let record =
            |(partition, value): &(i32, String)| Record { partition: Some(*partition), ..value.as_str().into() };
        broker.produce(&topic, values.iter().map(record));
        sent.extend(values.into_iter().map(|(_, value)| value));
    };
    let mut members = Members::of(broker, &topic, &group);

    produce("before anybody");
    let first = join_static();
    eventually("one has all", || members.sizes() == [("stays", 4)]);
    produce("to one");
    let goes = join("goes", &[]);
    eventually("two have two each", || members.sizes() == [("goes", 2), ("stays", 2)]);
    produce("to two");
    let described = broker.tool("kafka-consumer-groups", &["--describe", "--group", &group]);
    // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
    let rows = described.lines().filter(|line| line.contains(&topic));
    let mut of: Vec<_> = rows.filter_map(|row| row.split_whitespace().last()).collect();
    of.sort_unstable();
    assert_eq!(of, ["goes", "goes", "stays", "stays"], "{described}");

    let before = members.now();
    let generation = members.generation("goes");
    first.signal(Signal::SIGKILL);
    let first = first.wait();
    let again = join_static();
    eventually("it is back under another id", || {
        members.now().get("stays").is_some_and(|member| member.id != before["stays"].id)
    });
    let after = members.now();
    assert_eq!(after["stays"].partitions, before["stays"].partitions);
    assert_eq!(after["goes"], before["goes"]);
    assert_eq!(members.heartbeat("goes", generation), 0, "the other is in the same generation, which is stable");

    goes.signal(Signal::SIGTERM);
    let goes = goes.wait();
    eventually("the one that stays has all", || members.sizes() == [("stays", 4)]);
    produce("to the one that stays");
    eventually("every record is read", || {
        let printed = [&first.stdout, &goes.stdout, &again.stdout()].map(|printed| lines(printed));
        printed.into_iter().flatten().collect::<BTreeSet<_>>() == sent
    });
}

/// A member of a group, as the broker describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Member {
    id: StrBytes,
    partitions: BTreeSet<i32>,
}

/// The members of a group of one topic, by their clients' names.
struct Members {
    wire: Wire,
    topic: String,
    group: GroupId,
}

impl Members {
    fn of(broker: &Broker, topic: &str, group: &str) -> Self {
        Self { wire: Wire::connect(broker), topic: topic.to_owned(), group: GroupId(text(group)) }
    }

    /// Those of a stable group; while it is none, nobody.
    fn now(&mut self) -> BTreeMap<String, Member> {
        let answer = self.wire.ask(4, &DescribeGroupsRequest::default().with_groups(vec![self.group.clone()]));
        let stable = answer.groups.into_iter().filter(|group| &*group.group_state == "Stable");
        let each = stable.flat_map(|group| group.members).map(|member| {
            let partitions = partitions(&mut member.member_assignment.clone(), &self.topic);
            (member.client_id.to_string(), Member { id: member.member_id, partitions })
        });
        each.collect()
    }

    fn sizes(&mut self) -> Vec<(&'static str, usize)> {
        let names = ["goes", "stays"];
        let now = self.now();
        names.into_iter().filter_map(|name| Some((name, now.get(name)?.partitions.len()))).collect()
    }

    /// The error code of a heartbeat that says that it is this member's, of this generation.
    fn heartbeat(&mut self, name: &str, generation: i32) -> i16 {
        let id = self.now()[name].id.clone();
        let heartbeat = HeartbeatRequest::default().with_group_id(self.group.clone()).with_member_id(id);
        self.wire.ask(3, &heartbeat.with_generation_id(generation)).error_code
    }

    /// The generation that a member is in, which no tool tells of such groups: the one whose heartbeat is right.
    fn generation(&mut self, name: &str) -> i32 {
        (1..100).find(|generation| self.heartbeat(name, *generation) == 0).expect("a generation")
    }
}

/// What an assignment, in the form that all clients have in common, says of a topic.
fn partitions(assignment: &mut bytes::Bytes, topic: &str) -> BTreeSet<i32> {
    if assignment.is_empty() {
        return BTreeSet::new();
    }
    let version = assignment.get_i16();
    let assigned = ConsumerProtocolAssignment::decode(assignment, version).expect("an assignment");
    let of_topic = assigned.assigned_partitions.into_iter().filter(|assigned| assigned.topic == topic_name(topic));
    of_topic.flat_map(|assigned| assigned.partitions).collect()
}
