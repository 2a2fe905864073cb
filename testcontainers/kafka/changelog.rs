//! The changelog against Apache Kafka: what was flushed comes back, once and whole, or is refused.

use std::{collections::BTreeMap, time::Duration};

use libtest_mimic::Trial;
use serde_json::json;
use stormglass::{
    clock::Clock,
    kafka::{ChangelogConnections, ChangelogOptions, Connection, KafkaChangelog, admin::Admin},
    state::{Changes, Position},
    topology::{
        CommitNumber, ComponentError, ComponentResult,
        changelog::{Changelog, ChangelogFactory, Flush, Restored, StoreFormat, StoreId},
        testkit::check_changelog,
    },
};

use crate::{
    broker::{Broker, Isolation, Record, eventually},
    process::stormglass,
    trials,
};

const STEP: Duration = Duration::from_millis(100);
const PATIENCE: Duration = Duration::from_secs(30);

pub fn trials() -> Vec<Trial> {
    let mut trials = trials!(shared:
        the_changelog_in_kafka_keeps_the_contract,
        a_flush_of_100_000_entries_comes_back_whole,
        a_half_written_flush_of_a_zombie_is_invisible_and_the_zombie_is_told,
        a_predecessor_that_died_in_a_flush_keeps_nobody_waiting,
        compaction_keeps_every_entry,
        a_deleted_topic_of_a_state_is_refused,
        a_changed_compaction_policy_is_refused_until_it_is_set_back_as_told,
        a_wrong_partition_count_is_refused,
        a_changelog_of_another_app_is_refused,
        an_entry_that_is_too_large_is_refused_for_good,
        a_transaction_that_outlived_a_standstill_is_no_takeover,
        stores_are_listed_and_read_by_anybody,
    );
    trials.extend(trials!(alone: a_flush_that_a_stopped_broker_has_cut_off_is_tried_again_by_the_next_generation));
    trials
}

fn connection(broker: &Broker) -> Connection {
    Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() }
}

/// An app with stores of its own.
struct App {
    options: ChangelogOptions,
    stores: Vec<StoreFormat>,
    factory: ChangelogFactory,
}

/// Store, key group and key -> value.
type Entries = BTreeMap<(usize, u16, Vec<u8>), Vec<u8>>;

impl App {
    fn new(broker: &Broker, name: &str, stores: &[&str]) -> Self {
        let stores = stores.iter().map(|store| format(&broker.unique(store), 8)).collect();
        Self::with(broker, &broker.unique(name), stores, Duration::from_secs(45))
    }

    fn with(broker: &Broker, app: &str, stores: Vec<StoreFormat>, session_timeout: Duration) -> Self {
        let options = ChangelogOptions::new(broker.bootstrap(), app, "0", session_timeout);
        let (admin, consumer, producer) = (connection(broker), connection(broker), connection(broker));
        let clients = ChangelogConnections { admin, consumer, producer }.clients(Clock::system());
        let factory = KafkaChangelog::factory(options.clone(), clients, Clock::system());
        Self { options, stores, factory }
    }

    fn topic(&self, store: usize) -> String {
        let StoreFormat { component, store, .. } = &self.stores[store];
        self.options.topic(component, store)
    }

    fn open(&self) -> ComponentResult<Box<dyn Changelog>> {
        let mut changelog = self.factory.make(&self.stores)?;
        while !changelog.open(STEP)? {}
        Ok(changelog)
    }

    fn start(&self) -> ComponentResult<(Box<dyn Changelog>, Entries, Option<Position>)> {
        let mut changelog = self.open()?;
        let (entries, position) = restore(&mut *changelog)?;
        Ok((changelog, entries, position))
    }

    /// Why it cannot be restored: a person has to decide.
    fn refusal(&self) -> String {
        let error = self.start().err().expect("a refusal");
        assert!(error.is_refusal(), "{error}");
        error.to_string()
    }
}

fn format(store: &str, key_groups: u16) -> StoreFormat {
    let (component, store) = ("count".to_owned(), store.to_owned());
    StoreFormat { component, store, key: "text".to_owned(), value: "text".to_owned(), key_groups }
}

fn restore(changelog: &mut dyn Changelog) -> ComponentResult<(Entries, Option<Position>)> {
    let mut entries = Entries::new();
    loop {
        match changelog.restore(STEP)? {
            Restored::Nothing => {}
            Restored::Done(position) => return Ok((entries, position)),
            Restored::Entries { store, entries: batch, .. } => take(&mut entries, store, &batch),
        }
    }
}

fn take(entries: &mut Entries, store: StoreId, changes: &Changes) {
    for change in changes.iter() {
        let place = (store.0, change.group, change.key.to_vec());
        match change.value {
            Some(value) => entries.insert(place, value.to_vec()),
            None => entries.remove(&place),
        };
    }
}

fn flush(number: u64, changes: Changes) -> Flush {
    Flush { position: Position { commit: number, sources: Vec::new() }, changes: vec![(StoreId(0), changes)] }
}

/// `keys` entries over 8 key groups; values say which flush they are of.
fn changes(keys: u32, number: u64) -> Changes {
    let mut changes = Changes::default();
    for key in 0..keys {
        let group = u16::try_from(key % 8).unwrap();
        assert!(changes.push(group, format!("key {key}").as_bytes(), Some(number.to_string().as_bytes())));
    }
    changes
}

fn write(changelog: &mut dyn Changelog, flush: Flush) -> ComponentResult {
    let number = CommitNumber(flush.position.commit);
    changelog.write(flush)?;
    loop {
        if let Some(durable) = changelog.poll(STEP)? {
            assert_eq!(durable, number);
            return Ok(());
        }
    }
}

fn the_changelog_in_kafka_keeps_the_contract(broker: &Broker) {
    let app = App::new(broker, "contract", &[]);
    assert_eq!(check_changelog(&app.factory), Ok(()));
}

fn a_flush_of_100_000_entries_comes_back_whole(broker: &Broker) {
    let app = App::new(broker, "large", &["counts", "seen"]);
    let (mut changelog, ..) = app.start().unwrap();
    let mut flush = flush(1, changes(100_000, 1));
    flush.changes.push((StoreId(1), changes(10, 1)));
    let mut model = Entries::new();
    for (store, changes) in &flush.changes {
        take(&mut model, *store, changes);
    }
    write(&mut *changelog, flush).unwrap();
    changelog.close(STEP);
    let (_, entries, position) = app.start().unwrap();
    assert!(entries == model, "{} entries of {}", entries.len(), model.len());
    assert_eq!(position.map(|position| position.commit), Some(1));
}

fn a_half_written_flush_of_a_zombie_is_invisible_and_the_zombie_is_told(broker: &Broker) {
    let app = App::new(broker, "zombie", &["counts"]);
    let (mut zombie, ..) = app.start().unwrap();
    write(&mut *zombie, flush(1, changes(10, 1))).unwrap();
    // More than the client's queue holds: a part of it is in the log, and no commit was asked for.
    zombie.write(flush(2, changes(200_000, 2))).unwrap();
    eventually("a part of the flush is in the log", || {
        let written = broker.read(&app.topic(0), Isolation::ReadUncommitted).len();
        written > 100
    });

    let (mut successor, entries, position) = app.start().unwrap();
    assert_eq!(position.map(|position| position.commit), Some(1));
    assert!(entries.values().all(|value| value == b"1") && entries.len() == 10);

    let told = until_it_fails(&mut *zombie);
    assert!(!told.is_retriable(), "{told}");
    assert!(told.to_string().contains("another process with the same identity took over"), "{told}");
    write(&mut *successor, flush(2, changes(1, 3))).unwrap();
    let (_, entries, _) = app.start().unwrap();
    assert_eq!(entries[&(0, 0, b"key 0".to_vec())], b"3");
    assert_eq!(entries.len(), 10);
}

fn until_it_fails(changelog: &mut dyn Changelog) -> ComponentError {
    loop {
        match changelog.poll(STEP) {
            Ok(None) => {}
            Ok(Some(number)) => panic!("flush {number:?} was written"),
            Err(error) => return error,
        }
    }
}

fn a_predecessor_that_died_in_a_flush_keeps_nobody_waiting(broker: &Broker) {
    let app = App::new(broker, "died", &["counts"]);
    let (mut died, ..) = app.start().unwrap();
    died.write(flush(1, changes(200_000, 1))).unwrap();
    eventually("a part of the flush is in the log", || {
        let written = broker.read(&app.topic(0), Isolation::ReadUncommitted).len();
        written > 100
    });
    drop(died);
    // The transaction's timeout is 30 seconds.
    let clock = Clock::system();
    let (_, entries, position) = app.start().unwrap();
    assert!(clock.now().nanos() < 15_000_000_000, "waited {:?}", clock.now());
    assert!(entries.is_empty() && position.is_none());
}

fn compaction_keeps_every_entry(broker: &Broker) {
    // The cleaner looks every 15 seconds otherwise.
    let often =
        ["--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.cleaner.backoff.ms=100"];
    broker.tool("kafka-configs", &often);
    let app = App::new(broker, "compacted", &["counts"]);
    let admin = Admin::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    let small = [("cleanup.policy", "compact"), ("segment.ms", "200"), ("min.cleanable.dirty.ratio", "0.001")];
    admin.ensure_topic(&app.topic(0), 8, &small).unwrap();

    let (mut changelog, ..) = app.start().unwrap();
    let mut model = Entries::new();
    let mut number = 0;
    let mut next = |model: &mut Entries, changelog: &mut dyn Changelog| {
        number += 1;
        let mut changes = changes(1000, number);
        // One key comes and goes.
        let value = Some(&b"odd"[..]).filter(|_| number % 2 == 1);
        assert!(changes.push(3, b"now and then", value));
        take(model, StoreId(0), &changes);
        write(changelog, flush(number, changes)).unwrap();
        number
    };
    let mut kept = 0;
    eventually("the log is compacted", || {
        let written = next(&mut model, &mut *changelog) * 1001;
        kept = broker.read(&app.topic(0), Isolation::ReadCommitted).len() as u64;
        kept * 2 < written
    });
    changelog.close(STEP);
    let (_, entries, position) = app.start().unwrap();
    assert!(entries == model, "{} entries of {}, {kept} records", entries.len(), model.len());
    assert_eq!(position.map(|position| position.commit), Some(number));
}

fn a_deleted_topic_of_a_state_is_refused(broker: &Broker) {
    let app = App::new(broker, "deleted", &["counts", "seen"]);
    let (mut changelog, ..) = app.start().unwrap();
    write(&mut *changelog, flush(3, changes(10, 1))).unwrap();
    changelog.close(STEP);
    let admin = Admin::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    admin.delete_topic(&app.topic(1)).unwrap();
    let told = app.refusal();
    assert!(
        told.contains(&format!("{:?} is empty, but the other stores have a state, of commit 3", app.topic(1))),
        "{told}"
    );
    // It is made anew by then, and still the state is not whole.
    assert_eq!(app.refusal(), told);
}

fn a_changed_compaction_policy_is_refused_until_it_is_set_back_as_told(broker: &Broker) {
    let app = App::new(broker, "policy", &["counts"]);
    let (mut changelog, ..) = app.start().unwrap();
    write(&mut *changelog, flush(1, changes(10, 1))).unwrap();
    changelog.close(STEP);
    let alter = |setting: &str| {
        let topic = app.topic(0);
        let of_topic = ["--entity-type", "topics", "--entity-name", &topic];
        broker.tool("kafka-configs", &[&of_topic[..], &["--alter", "--add-config", setting]].concat());
        // The controller has it then; the broker hears of it a moment later.
        eventually("the broker knows the setting", || {
            broker
                .tool("kafka-configs", &[&of_topic[..], &["--describe"]].concat())
                .contains(&format!("{setting} sensitive"))
        });
    };
    alter("cleanup.policy=delete");
    let told = app.refusal();
    assert!(told.contains("has cleanup.policy=delete"), "{told}");
    let (_, command) = told.split_once("--alter ").unwrap();
    assert!(command.starts_with(&format!(
        "--entity-type topics --entity-name {} --add-config cleanup.policy=compact",
        app.topic(0)
    )));
    alter("cleanup.policy=compact");
    assert_eq!(app.start().unwrap().1.len(), 10);
}

fn a_wrong_partition_count_is_refused(broker: &Broker) {
    let app = App::new(broker, "count", &["counts"]);
    let admin = Admin::new(&connection(broker), PATIENCE, Clock::system()).unwrap();
    admin.ensure_topic(&app.topic(0), 3, &[("cleanup.policy", "compact")]).unwrap();
    let told = app.refusal();
    assert!(told.contains("has 3 partitions, but its store has 8 key groups"), "{told}");
}

fn a_changelog_of_another_app_is_refused(broker: &Broker) {
    // App `x`, component `count-a` and app `x-count`, component `a` mean the same topic.
    let name = broker.unique("x");
    let first = App::with(broker, &name, vec![format("a-b", 8)], Duration::from_secs(45));
    let (mut changelog, ..) = first.start().unwrap();
    write(&mut *changelog, flush(1, changes(10, 1))).unwrap();
    let other = StoreFormat { component: "a".to_owned(), ..format("b", 8) };
    let second = App::with(broker, &format!("{name}-count"), vec![other], Duration::from_secs(45));
    assert_eq!(first.topic(0), second.topic(0));
    let told = second.refusal();
    assert!(told.contains(&format!("is of app {name:?}, but this is app \"{name}-count\"")), "{told}");
    // It is told for a type too.
    let ints = App::with(broker, &name, vec![StoreFormat { value: "int".to_owned(), ..format("a-b", 8) }], PATIENCE);
    assert!(ints.refusal().contains("value type text, but this is value type int"));
}

fn an_entry_that_is_too_large_is_refused_for_good(broker: &Broker) {
    let app = App::new(broker, "too-large", &["counts"]);
    let (mut changelog, ..) = app.start().unwrap();
    let mut large = Changes::default();
    assert!(large.push(0, b"key", Some(&vec![b'x'; 5_000_000])));
    let told = write(&mut *changelog, flush(1, large)).unwrap_err();
    assert!(!told.is_retriable());
    assert!(told.to_string().contains("bytes of key and value is too large"), "{told}");
}

/// The broker ends it, and then refuses it as it refuses a producer that was replaced.
fn a_transaction_that_outlived_a_standstill_is_no_takeover(broker: &Broker) {
    let app = App::with(broker, &broker.unique("standstill"), vec![format("counts", 8)], Duration::from_secs(2));
    let (mut changelog, ..) = app.start().unwrap();
    // More than the client's queue holds, so that it does not commit before it stands still.
    changelog.write(flush(1, changes(200_000, 1))).unwrap();
    eventually("a part of the flush is in the log", || {
        broker.read(&app.topic(0), Isolation::ReadUncommitted).len() > 100
    });
    // Committed records behind an open transaction are seen when it has ended.
    let mark = Record { partition: Some(0), ..Record::from(("mark", "behind it")) };
    broker.produce(&app.topic(0), [mark]);
    eventually("the broker has ended the transaction", || {
        !broker.read(&app.topic(0), Isolation::ReadCommitted).is_empty()
    });
    let told = until_it_fails(&mut *changelog);
    assert!(told.is_retriable(), "{told}");
}

fn stores_are_listed_and_read_by_anybody(broker: &Broker) {
    let app = App::new(broker, "looked-at", &["counts", "seen"]);
    let (counts, seen) = (&app.stores[0].store, &app.stores[1].store);
    let (mut changelog, ..) = app.start().unwrap();
    let mut first = flush(1, changes(20, 1));
    first.changes.push((StoreId(1), changes(3, 1)));
    write(&mut *changelog, first).unwrap();
    let mut gone = Changes::default();
    assert!(gone.push(7, b"key 7", None));
    write(&mut *changelog, flush(2, gone)).unwrap();

    let state = |arguments: &[&str]| {
        let arguments = [&["--group", app.options.app.as_str()], arguments].concat();
        stormglass(broker, "state", &arguments)
    };
    let listed = state(&["list", "--json"]).succeeded().json();
    let facts = |at: usize| ["store", "entries", "commit", "key", "key_groups"].map(|field| listed[at][field].clone());
    assert_eq!(facts(0), [json!(counts), json!(19), json!(2), json!("text"), json!(8)]);
    assert_eq!(facts(1), [json!(seen), json!(3), json!(2), json!("text"), json!(8)]);
    assert!(state(&["list"]).succeeded().stdout.contains(&format!("count/{counts}: text -> text, 19 entries, ")));

    let which = format!("count/{counts}");
    let read = |arguments: &[&str]| state(&[arguments, &["--store", &which]].concat());
    assert_eq!(read(&["get", "key 3"]).succeeded().stdout, "1\n");
    let absent = read(&["get", "key 7"]);
    assert_eq!(absent.code, Some(1));
    assert!(absent.stderr.contains(&format!("store \"{which}\" has no key \"key 7\"")), "{absent:?}");
    assert_eq!(read(&["scan", "--prefix", "key 1", "--limit", "2"]).succeeded().stdout, "key 1\t1\nkey 10\t1\n");
    let all = read(&["scan", "--json"]).succeeded().json();
    assert_eq!((all.as_array().map(Vec::len), &all[0]), (Some(19), &json!({ "key": "key 0", "value": "1" })));

    let unnamed = state(&["get", "key 3"]);
    assert_eq!(unnamed.code, Some(64));
    assert!(unnamed.stderr.contains("has several stores"), "{unnamed:?}");
    let nobody = stormglass(broker, "state", &["--group", "nobody", "scan"]);
    assert_eq!(nobody.code, Some(66));
    assert!(nobody.stderr.contains("has no changelog"), "{nobody:?}");
}

fn a_flush_that_a_stopped_broker_has_cut_off_is_tried_again_by_the_next_generation(broker: &mut Broker) {
    let session_timeout = Duration::from_secs(3);
    let app = App::with(broker, &broker.unique("outage"), vec![format("counts", 8)], session_timeout);
    let (mut changelog, ..) = app.start().unwrap();
    write(&mut *changelog, flush(1, changes(10, 1))).unwrap();
    broker.stop();
    changelog.write(flush(2, changes(10, 2))).unwrap();
    let told = until_it_fails(&mut *changelog);
    assert!(told.is_retriable(), "{told}");
    changelog.close(STEP);
    drop(changelog);
    broker.start();
    let (mut next, entries, position) = app.start().unwrap();
    // Whether it was written in the last moment or not: whole.
    let seen = position.unwrap().commit;
    assert!(entries.len() == 10 && entries.values().all(|value| *value == seen.to_string().as_bytes()));
    write(&mut *next, flush(seen + 1, changes(10, seen + 1))).unwrap();
}
