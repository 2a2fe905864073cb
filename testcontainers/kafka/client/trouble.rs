//! What goes wrong is said in a sentence.

use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use stormglass::{
    clock::Clock,
    kafka::{
        Connection, RdkafkaSink, RdkafkaSource, SinkOptions, SourceOptions,
        admin::Admin,
        client::{
            CommitOutcome, DeliveryReport, ErrorKind, FlushId, SinkClient as _, SourceClient as _, SourceEvent,
            produce::{ProduceBatch, ProduceRecord},
        },
    },
};

use super::{PATIENCE, STEP, acked, connection, deliver, member::Member, partition, sink};
use crate::{
    broker::{Broker, eventually},
    process::web_server,
    trials,
};

pub fn trials() -> Vec<Trial> {
    let mut trials = trials!(shared:
        topics_are_made_looked_at_and_removed,
        what_cannot_be_reached_is_said_in_a_sentence,
        a_refused_setting_never_shows_a_secret,
    );
    trials.extend(trials!(alone: a_stopped_broker_is_said_once_and_its_return_once));
    trials
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
    // A broker that is back may have to read its groups first: until then a commit is refused for now.
    eventually("a commit is taken", || member.commit(&p, 3, "", 1) == CommitOutcome::Done);
    assert_eq!(member.others.len(), 2, "{:?}", member.others);
}
