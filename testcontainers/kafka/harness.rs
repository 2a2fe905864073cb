//! The harness itself: what it says about a broker is so.

use libtest_mimic::Trial;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::{
    broker::{Broker, Isolation, Record},
    trials,
};

pub fn trials() -> Vec<Trial> {
    let mut trials = trials!(shared: records_come_back_whole, aborted_records_are_uncommitted, console_tools_answer);
    trials.extend(trials!(alone: restart_keeps_records_and_offsets));
    trials
}

fn records_come_back_whole(broker: &Broker) {
    let topic = broker.topic("round-trip", 2, &[]);
    let sent = Record {
        key: Some(b"k".to_vec()),
        value: None,
        headers: vec![("h".to_owned(), Some(b"1".to_vec())), ("null".to_owned(), None)],
        partition: Some(1),
        timestamp: Some(1_700_000_000_000),
        offset: None,
    };
    broker.produce(&topic, [sent.clone()]);
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted), [Record { offset: Some(0), ..sent }]);

    broker.produce(&topic, (0..10_000).map(|n| Record::from(n.to_string().as_str())));
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted).len(), 10_001);
}

fn aborted_records_are_uncommitted(broker: &Broker) {
    let topic = broker.topic("isolation", 1, &[]);
    let producer: BaseProducer = broker.client().set("transactional.id", broker.unique("writer")).create().unwrap();
    let patience = std::time::Duration::from_secs(30);
    producer.init_transactions(patience).unwrap();
    for (value, commits) in [("kept", true), ("dropped", false)] {
        producer.begin_transaction().unwrap();
        producer.send(BaseRecord::<str, str>::to(&topic).payload(value)).unwrap();
        producer.flush(patience).unwrap();
        if commits {
            producer.commit_transaction(patience).unwrap();
        } else {
            producer.abort_transaction(patience).unwrap();
        }
    }
    let values = |isolation| broker.read(&topic, isolation).iter().map(|record| record.text().1).collect::<Vec<_>>();
    assert_eq!(values(Isolation::ReadCommitted), ["kept"]);
    assert_eq!(values(Isolation::ReadUncommitted), ["kept", "dropped"]);
}

fn console_tools_answer(broker: &Broker) {
    let topic = broker.topic("tools", 1, &[("cleanup.policy", "compact")]);
    broker.produce(&topic, [("storm", "1"), ("glass", "2")]);
    let printed = broker.tool(
        "kafka-console-consumer",
        &["--topic", &topic, "--from-beginning", "--max-messages", "2", "--formatter-property", "print.key=true"],
    );
    assert_eq!(printed, "storm\t1\nglass\t2\n");
    let described = broker.tool("kafka-topics", &["--describe", "--topic", &topic]);
    assert!(described.contains("cleanup.policy=compact"), "{described}");
    // Java and rdkafka mean the same by a group and its offset.
    let group = broker.unique("group");
    broker.tool(
        "kafka-console-consumer",
        &["--topic", &topic, "--from-beginning", "--max-messages", "2", "--group", &group],
    );
    assert_eq!(broker.committed(&group, &topic), [Some(2)]);
}

fn restart_keeps_records_and_offsets(broker: &mut Broker) {
    let topic = broker.topic("restart", 1, &[]);
    let address = broker.bootstrap().to_owned();
    broker.produce(&topic, ["before"]);
    broker.restart();
    broker.produce(&topic, ["after"]);
    let values: Vec<_> = broker.read(&topic, Isolation::ReadCommitted).iter().map(|record| record.text().1).collect();
    assert_eq!(values, ["before", "after"]);
    assert_eq!(broker.bootstrap(), address);

    broker.stop();
    assert!(std::net::TcpStream::connect(&address).is_err(), "stopped, yet something listens");
    broker.start();
    assert_eq!(broker.read(&topic, Isolation::ReadCommitted).len(), 2);
}
