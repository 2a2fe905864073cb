//! Topics that change under a running program: new partitions, deleted records, deleted topics, holes.

use libtest_mimic::Trial;
use nix::sys::signal::Signal;
use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer},
};

use crate::{
    broker::{Broker, Isolation, Record, eventually},
    process::{Job, free_address, metric},
    trials,
};

const ACKED_TREES: &str = "stormglass_trees_completed_total{component=\"lines\",outcome=\"acked\"}";
const RECORDS_LOST: &str = "stormglass_records_lost_total";
/// Changes of a topic are found soon.
const LOOKS_OFTEN: [&str; 2] = ["-X", "topic.metadata.refresh.interval.ms=500"];
const SKIP: [&str; 2] = ["--set", "source.out_of_range=skip"];

pub fn trials() -> Vec<Trial> {
    trials!(shared:
        a_new_partition_is_found_and_read_from_its_beginning,
        a_topology_with_stores_counts_a_new_partition_too,
        a_topic_that_is_deleted_and_made_anew_is_read_from_its_beginning,
        a_topic_that_is_made_anew_and_smaller_ends_the_run_or_is_read_anew,
        records_deleted_before_they_were_read_end_the_run_or_are_counted,
        a_compacted_topic_is_read_to_lag_0,
        metadata_of_another_tool_is_tolerated,
        a_topic_that_is_replaced_in_a_moment_is_read_from_its_beginning,
    )
}

fn split_words(broker: &Broker, input: &str, flags: &[&str]) -> Job {
    let words = ["--topology", "split-words", "--emit", "every"];
    Job::new(broker, input, &[&words[..], &LOOKS_OFTEN, flags].concat())
}

fn words(broker: &Broker, topic: &str) -> Vec<String> {
    let mut words: Vec<_> = broker.read(topic, Isolation::ReadCommitted).iter().map(|record| record.text().1).collect();
    words.sort();
    words
}

fn to(partition: i32, value: &str) -> Record {
    Record { partition: Some(partition), ..Record::from(value) }
}

/// `start = "latest"` is about a new group: a partition that appears later is read from its first record on.
fn a_new_partition_is_found_and_read_from_its_beginning(broker: &Broker) {
    let topic = broker.topic("grows", 1, &[]);
    broker.produce(&topic, ["before"]);
    let job = split_words(broker, &topic, &["--set", "source.start=latest"]);
    let mut run = job.start(&[]);
    run.says("partitions assigned");
    eventually("it stands at the end", || broker.committed(&job.group, &topic) == [Some(1)]);
    broker.tool("kafka-topics", &["--alter", "--topic", &topic, "--partitions", "3"]);
    broker.produce(&topic, (0..3).map(|partition| to(partition, &format!("word{partition}"))));
    eventually("every partition is read", || words(broker, &job.output) == ["word0", "word1", "word2"]);
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    assert_eq!(broker.committed(&job.group, &topic), [Some(2), Some(1), Some(1)]);
}

fn a_topic_that_is_deleted_and_made_anew_is_read_from_its_beginning(broker: &Broker) {
    let topic = broker.topic("comes-back", 2, &[]);
    broker.produce(&topic, (0..20).map(|n| to(n % 2, &format!("old{n}"))));
    let job = split_words(broker, &topic, &[]);
    let mut run = job.start(&[]);
    run.says("partitions assigned");
    eventually("it is read", || words(broker, &job.output).len() == 20);
    eventually("all is committed", || broker.committed(&job.group, &topic) == [Some(10), Some(10)]);
    broker.delete_topic(&topic);
    run.says("Subscribed topic not available");
    assert!(run.is_running(), "{}", run.stderr());
    broker.make_topic(&topic, 1, &[]);
    broker.produce(&topic, ["new1", "new2"]);
    let new = |word: &String| word.starts_with("new");
    eventually("the new one is read", || words(broker, &job.output).into_iter().filter(new).count() == 2);
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    assert_eq!(words(broker, &job.output).len(), 22);
    assert_eq!(broker.lags(&job.group, &topic), ["0"]);
}

/// The offsets of the old topic stand in the group again, as a process commits them that has not seen the change.
fn a_topic_that_is_made_anew_and_smaller_ends_the_run_or_is_read_anew(broker: &Broker) {
    let topic = broker.topic("smaller", 1, &[]);
    broker.produce(&topic, ["new1", "new2"]);
    let job = split_words(broker, &topic, &[]);
    commit(broker, &job.group, &topic, 500, "");
    let run = job.start(&[]).wait();
    assert_eq!(run.code, Some(78), "{run:#?}");
    let sentence = run.stderr.lines().last().unwrap_or_default();
    assert!(sentence.contains(&format!("{topic}-0 ended before offset 500")), "{sentence}");
    assert!(sentence.contains("made anew") && sentence.contains("stormglass reset"), "{sentence}");
    assert_eq!(broker.committed(&job.group, &topic), [Some(500)]);
    for assignment in ["cooperative-sticky", "range"] {
        commit(broker, &job.group, &topic, 500, "");
        let assignment = format!("source.assignment={assignment}");
        let run = job.start(&[&SKIP[..], &["--until-end", "--set", &assignment]].concat()).wait().succeeded();
        assert!(run.stderr.contains("Reading goes on at offset 0"), "{run:#?}");
        assert_eq!(broker.committed(&job.group, &topic), [Some(2)]);
    }
    assert_eq!(words(broker, &job.output), ["new1", "new1", "new2", "new2"]);
}

fn records_deleted_before_they_were_read_end_the_run_or_are_counted(broker: &Broker) {
    let topic = broker.topic("short", 1, &[]);
    broker.produce(&topic, (0..100).map(|n| Record::from(format!("word{n}").as_str())));
    let job = split_words(broker, &topic, &[]);
    commit(broker, &job.group, &topic, 10, "");
    broker.delete_records(&topic, 0, 40);
    let run = job.start(&[]).wait();
    assert_eq!(run.code, Some(78), "{run:#?}");
    let sentence = run.stderr.lines().last().unwrap_or_default();
    assert!(sentence.contains("30 offsets were deleted before they were read"), "{sentence}");

    let address = free_address();
    let run = job.start(&[&SKIP[..], &["--http", &address]].concat());
    eventually("the rest is read", || metric(&address, ACKED_TREES) >= 60.0);
    assert!((metric(&address, RECORDS_LOST) - 30.0).abs() < 0.5, "{}", metric(&address, RECORDS_LOST));
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    assert_eq!((words(broker, &job.output).len(), broker.lags(&job.group, &topic)), (60, vec!["0".to_owned()]));
}

fn a_compacted_topic_is_read_to_lag_0(broker: &Broker) {
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.01"),
        ("min.compaction.lag.ms", "0"),
        ("max.compaction.lag.ms", "100"),
    ];
    let topic = broker.topic("compacted", 1, &settings);
    for round in 0..5 {
        broker.produce(
            &topic,
            (0..100).map(|n| {
                let (key, value) = (format!("key{n}"), format!("word{n}x{round}"));
                Record { key: Some(key.into_bytes()), ..Record::from(value.as_str()) }
            }),
        );
    }
    // A record rolls the segment, which is then cleaned; the newest segment never is.
    let mut produced = 500;
    eventually("the broker has compacted", || {
        broker.produce(&topic, [("last", "last")]);
        produced += 1;
        broker.read(&topic, Isolation::ReadCommitted).len() < 200
    });
    let job = split_words(broker, &topic, &[]);
    job.to_the_end().succeeded();
    assert_eq!(broker.lags(&job.group, &topic), ["0"]);
    assert_eq!(broker.committed(&job.group, &topic), [Some(produced)]);
    assert!(words(broker, &job.output).iter().any(|word| word == "word7x4"));
}

fn metadata_of_another_tool_is_tolerated(broker: &Broker) {
    let topic = broker.topic("foreign", 1, &[]);
    broker.produce(&topic, (0..10).map(|n| Record::from(format!("word{n}").as_str())));
    let job = split_words(broker, &topic, &[]);
    for (next, metadata) in [(4, "{\"topologyId\":\"t\",\"taskId\":1}"), (5, "stormglass:7:?"), (6, "bgAAAAA=")] {
        commit(broker, &job.group, &topic, next, metadata);
        let run = job.to_the_end().succeeded();
        assert_eq!(run.number("records"), u64::try_from(10 - next).unwrap(), "{metadata}: {run:#?}");
    }
    // And Kafka's own tool moves a group that Stormglass has committed for.
    let reset = ["--reset-offsets", "--group", &job.group, "--topic", &topic, "--to-offset", "8", "--execute"];
    broker.tool("kafka-consumer-groups", &reset);
    assert_eq!(job.to_the_end().succeeded().number("records"), 2);
}

/// Commits an offset as another program does that uses the group.
fn commit(broker: &Broker, group: &str, topic: &str, next: i64, metadata: &str) {
    let consumer: BaseConsumer = broker.client().set("group.id", group).create().unwrap();
    let mut list = TopicPartitionList::new();
    let mut element = list.add_partition(topic, 0);
    element.set_offset(Offset::Offset(next)).unwrap();
    element.set_metadata(metadata);
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

/// So fast that the program never sees that there was no topic; the new one soon holds more records than the old one.
fn a_topic_that_is_replaced_in_a_moment_is_read_from_its_beginning(broker: &Broker) {
    let topic = broker.topic("replaced", 1, &[]);
    broker.produce(&topic, (0..20).map(|n| Record::from(format!("old{n}").as_str())));
    let job = split_words(broker, &topic, &SKIP);
    let mut run = job.start(&[]);
    run.says("partitions assigned");
    eventually("all is committed", || broker.committed(&job.group, &topic) == [Some(20)]);
    broker.delete_topic(&topic);
    broker.make_topic(&topic, 1, &[]);
    broker.produce(&topic, (0..50).map(|n| Record::from(format!("new{n}").as_str())));
    eventually("the new one is read", || words(broker, &job.output).len() >= 70);
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    assert_eq!((words(broker, &job.output).len(), broker.committed(&job.group, &topic)), (70, vec![Some(50)]));
}

/// The counts of a key do not depend on the partition that its records came from, so a topic may get more partitions.
fn a_topology_with_stores_counts_a_new_partition_too(broker: &Broker) {
    let topic = broker.topic("grows-counted", 1, &[]);
    broker.produce(&topic, ["a b", "b c"]);
    let job = Job::new(broker, &topic, &LOOKS_OFTEN);
    let mut run = job.start(&[]);
    run.says("partitions assigned");
    eventually("the first is counted", || broker.committed(&job.group, &topic) == [Some(2)]);
    broker.tool("kafka-topics", &["--alter", "--topic", &topic, "--partitions", "3"]);
    broker.produce(&topic, (0..3).map(|partition| to(partition, "b c")));
    eventually("every partition is read", || broker.committed(&job.group, &topic) == [Some(3), Some(1), Some(1)]);
    assert!(run.stderr().contains("came when the stores were restored already"), "{}", run.stderr());
    run.signal(Signal::SIGTERM);
    run.wait().succeeded();
    job.is_exact(&[]);
}
