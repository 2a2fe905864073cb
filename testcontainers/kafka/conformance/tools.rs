//! Kafka's own console tools, which are its Java clients: a broker is not held to librdkafka's habits only.

use libtest_mimic::Trial;
use rdkafka::producer::Producer;

use super::{
    both_with_java,
    groups::{Member, settle},
    send, transactional,
};
use crate::broker::{Broker, Isolation};

pub fn trials() -> Vec<Trial> {
    both_with_java!(
        the_console_producer_and_consumer_pass_records_on,
        the_consumer_groups_tool_describes_resets_and_deletes,
        the_topics_and_configs_tools_make_change_and_delete,
        the_offsets_tool_tells_both_ends,
        the_transactions_tool_lists_what_is_open,
    )
}

fn the_console_producer_and_consumer_pass_records_on(broker: &Broker) {
    let topic = broker.topic("console", 1, &[]);
    let sent: String = (0..50).map(|n| format!("k{n}\tv{n}\n")).collect();
    let properties = ["--reader-property", "parse.key=true", "--compression-codec", "zstd"];
    broker.tool_with_input("kafka-console-producer", &[&["--topic", &topic][..], &properties].concat(), &sent);
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted).len(), 50);
    let group = broker.unique("console");
    let read = |more: &[&str]| {
        let arguments = ["--topic", &topic, "--group", &group, "--formatter-property", "print.key=true"];
        let arguments = [&arguments[..], &["--from-beginning"], more].concat();
        broker.tool("kafka-console-consumer", &arguments)
    };
    assert_eq!(read(&["--max-messages", "50", "--isolation-level", "read_committed"]), sent);
    assert_eq!(broker.committed(&group, &topic), [Some(50)]);
    broker.produce(&topic, [("k", "next")]);
    assert_eq!(read(&["--max-messages", "1"]), "k\tnext\n", "it goes on where it was");
}

fn the_consumer_groups_tool_describes_resets_and_deletes(broker: &Broker) {
    let topic = broker.topic("tool-groups", 2, &[]);
    let group = broker.unique("group");
    broker.produce(&topic, ["a", "b", "c"].map(|value| crate::broker::Record { partition: Some(0), ..value.into() }));
    let member = Member::join(broker, &group, &topic, &[("client.id", "is-described")]);
    settle(&[&member], "it has all", || member.owns().len() == 2);
    let mut one = rdkafka::TopicPartitionList::new();
    one.add_partition_offset(&topic, 0, rdkafka::Offset::Offset(1)).unwrap();
    rdkafka::consumer::Consumer::commit(&member.consumer, &one, rdkafka::consumer::CommitMode::Sync).unwrap();
    let tool =
        |arguments: &[&str]| broker.tool("kafka-consumer-groups", &[&["--group", &group][..], arguments].concat());
    let described = tool(&["--describe"]);
    let row =
        described.lines().find(|line| line.contains(&format!("{topic} "))).unwrap_or_else(|| panic!("{described}"));
    let row: Vec<_> = row.split_whitespace().collect();
    // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
    assert_eq!(
        (&row[..6], &row[7..9]),
        (&[&group, &topic, "0", "1", "3", "2"][..], &["/127.0.0.1", "is-described"][..])
    );
    assert!(tool(&["--describe", "--state"]).contains("Stable"));
    assert!(broker.tool("kafka-consumer-groups", &["--list"]).lines().any(|line| line == group));
    member.leave();
    tool(&["--topic", &topic, "--reset-offsets", "--to-latest", "--execute"]);
    assert_eq!(broker.committed(&group, &topic), [Some(3), Some(0)]);
    tool(&["--topic", &topic, "--delete-offsets"]);
    assert_eq!(broker.committed(&group, &topic), [None, None]);
    tool(&["--delete"]);
    assert!(!broker.tool("kafka-consumer-groups", &["--list"]).lines().any(|line| line == group));
}

fn the_topics_and_configs_tools_make_change_and_delete(broker: &Broker) {
    let topic = broker.unique("tool-topics");
    let topics = |arguments: &[&str]| broker.tool("kafka-topics", arguments);
    topics(&["--create", "--topic", &topic, "--partitions", "2", "--config", "cleanup.policy=compact"]);
    let described = topics(&["--describe", "--topic", &topic]);
    assert!(described.contains("PartitionCount: 2\tReplicationFactor: 1\tConfigs: "), "{described}");
    assert!(described.contains("cleanup.policy=compact"), "{described}");
    assert_eq!(
        described.lines().filter(|line| line.contains("Leader: 1\tReplicas: 1\tIsr: 1")).count(),
        2,
        "{described}"
    );
    topics(&["--alter", "--topic", &topic, "--partitions", "3"]);
    assert!(topics(&["--describe", "--topic", &topic]).contains("PartitionCount: 3"));
    let configs = |arguments: &[&str]| {
        broker.tool("kafka-configs", &[&["--entity-type", "topics", "--entity-name", &topic][..], arguments].concat())
    };
    configs(&["--alter", "--add-config", "retention.ms=99000,cleanup.policy=[compact,delete]"]);
    let told = configs(&["--describe"]);
    assert!(told.contains("retention.ms=99000") && told.contains("cleanup.policy=compact,delete"), "{told}");
    configs(&["--alter", "--delete-config", "cleanup.policy"]);
    let told = configs(&["--describe"]);
    assert!(told.contains("retention.ms=99000") && !told.contains("cleanup.policy"), "{told}");
    topics(&["--delete", "--topic", &topic]);
    assert!(!topics(&["--list"]).lines().any(|line| line == topic));
}

fn the_offsets_tool_tells_both_ends(broker: &Broker) {
    let topic = broker.topic("tool-offsets", 1, &[]);
    broker.produce(&topic, ["a", "b", "c", "d"]);
    broker.delete_records(&topic, 0, 1);
    let at = |time| broker.tool("kafka-get-offsets", &["--topic", &topic, "--time", time]);
    assert_eq!(at("earliest"), format!("{topic}:0:1\n"));
    assert_eq!(at("latest"), format!("{topic}:0:4\n"));
}

fn the_transactions_tool_lists_what_is_open(broker: &Broker) {
    let topic = broker.topic("tool-transactions", 1, &[]);
    let id = broker.unique("is-listed");
    let writer = transactional(broker, &id, &[]);
    writer.begin_transaction().unwrap();
    send(&writer, &topic, "x");
    let state = || {
        let listed = broker.tool("kafka-transactions", &["list"]);
        let row = listed.lines().find(|line| line.contains(&id)).unwrap_or_else(|| panic!("{listed}")).to_owned();
        row.split_whitespace().last().unwrap_or_default().to_owned()
    };
    assert_eq!(state(), "Ongoing");
    let described = broker.tool("kafka-transactions", &["describe", "--transactional-id", &id]);
    assert!(described.contains(&format!("{topic}-0")), "{described}");
    writer.commit_transaction(super::PATIENCE).unwrap();
    crate::broker::eventually("it is complete", || state() == "CompleteCommit");
}
