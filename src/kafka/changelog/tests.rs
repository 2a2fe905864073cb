//! The changelog over a cluster in memory.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    ChangelogOptions, KafkaChangelog, StoreReader, StoreTopic,
    fake::{FakeCluster, FakeTopic, Fate, Record},
};
use crate::{
    clock::Clock,
    kafka::client::ErrorKind,
    state::{Changes, FormatRecord, Position, RecordKey},
    topology::{
        CommitNumber, ComponentError, ComponentResult,
        changelog::{Changelog, ChangelogFactory, Flush, Restored, StoreFormat, StoreId},
        testkit::check_changelog,
    },
};

const COUNTS: &str = "app-count-counts-changelog";
const SEEN: &str = "app-count-seen-changelog";
const NOW: Duration = Duration::ZERO;

fn store(name: &str) -> StoreFormat {
    StoreFormat {
        component: "count".to_owned(),
        store: name.to_owned(),
        key: "text".to_owned(),
        value: "text".to_owned(),
        key_groups: 4,
    }
}

/// An app with two stores, its cluster, and its time.
struct App {
    cluster: FakeCluster,
    clock: Clock,
    options: ChangelogOptions,
    stores: Vec<StoreFormat>,
}

/// Store and key -> value, and the position.
type State = (BTreeMap<(usize, Vec<u8>), Vec<u8>>, Option<Position>);

impl App {
    fn new() -> Self {
        Self {
            cluster: FakeCluster::default(),
            clock: Clock::manual(),
            options: ChangelogOptions::new("kafka:9092", "app", "0", Duration::from_secs(45)),
            stores: vec![store("counts"), store("seen")],
        }
    }

    /// One that has committed flush 1: an entry in each store.
    fn with_a_state() -> Self {
        let app = Self::new();
        let mut changelog = app.start();
        assert_eq!(drive(&mut *changelog, flush(1, &[(0, 2, "a", "1"), (1, 3, "b", "2")])).unwrap(), CommitNumber(1));
        app
    }

    fn factory(&self) -> ChangelogFactory {
        KafkaChangelog::factory(self.options.clone(), self.cluster.clients(), self.clock.clone())
    }

    fn open(&self) -> ComponentResult<Box<dyn Changelog>> {
        let mut changelog = self.factory().make(&self.stores)?;
        while !changelog.open(NOW)? {}
        Ok(changelog)
    }

    fn restore(&self) -> ComponentResult<(Box<dyn Changelog>, State)> {
        let mut changelog = self.open()?;
        let mut entries = BTreeMap::new();
        loop {
            match changelog.restore(NOW)? {
                Restored::Nothing => {}
                Restored::Done(position) => return Ok((changelog, (entries, position))),
                Restored::Entries { store, entries: batch, .. } => {
                    for change in batch.iter() {
                        let key = (store.0, change.key.to_vec());
                        match change.value {
                            Some(value) => entries.insert(key, value.to_vec()),
                            None => entries.remove(&key),
                        };
                    }
                }
            }
        }
    }

    /// A restored changelog.
    fn start(&self) -> Box<dyn Changelog> {
        self.restore().unwrap().0
    }

    fn state(&self) -> State {
        self.restore().unwrap().1
    }

    /// Why it cannot be restored: a person has to decide.
    fn refusal(&self) -> String {
        let error = self.restore().err().expect("a refusal");
        assert!(error.is_refusal(), "{error}");
        error.to_string()
    }
}

/// Entries as (store, key group, key, value).
fn flush(number: u64, entries: &[(usize, u16, &str, &str)]) -> Flush {
    let of = |store: usize| {
        let mut changes = Changes::default();
        for (_, group, key, value) in entries.iter().filter(|entry| entry.0 == store) {
            changes.push(*group, key.as_bytes(), Some(value.as_bytes()));
        }
        (StoreId(store), changes)
    };
    Flush { position: Position { commit: number, sources: Vec::new() }, changes: vec![of(0), of(1)] }
}

/// Writes until it is durable.
fn drive(changelog: &mut dyn Changelog, flush: Flush) -> ComponentResult<CommitNumber> {
    changelog.write(flush)?;
    loop {
        if let Some(number) = changelog.poll(NOW)? {
            return Ok(number);
        }
    }
}

/// What the next flush, the second, ends with.
fn failure(app: &App) -> ComponentError {
    drive(&mut *app.start(), flush(2, &[(0, 0, "c", "3")])).expect_err("a failed flush")
}

#[test]
fn the_changelog_in_kafka_keeps_the_contract() {
    assert_eq!(check_changelog(&App::new().factory()), Ok(()));
}

#[test]
fn each_store_has_a_compacted_topic_with_a_partition_for_each_key_group() {
    let mut app = App::new();
    app.options.replication = Some(3);
    drop(app.start());
    let made = app.cluster.get().made.clone();
    assert_eq!(made.iter().map(|topic| &*topic.name).collect::<Vec<_>>(), [COUNTS, SEEN]);
    for topic in made {
        assert_eq!((topic.partitions, topic.replication), (4, Some(3)));
        assert!(topic.settings.contains(&("cleanup.policy", "compact")));
    }
}

#[test]
fn a_flush_is_one_transaction_of_all_stores_and_the_position() {
    let app = App::with_a_state();
    drive(&mut *app.start(), flush(2, &[(0, 0, "c", "3"), (0, 1, "a", "4"), (1, 3, "b", "5")])).unwrap();
    let places = |records: &[(String, i32)]| {
        let mut places: Vec<_> = records.iter().map(|(topic, n)| format!("{topic}-{n}")).collect();
        places.sort();
        places
    };
    let committed = app.cluster.get().committed.clone();
    let (counts, seen) = (|n: i32| format!("{COUNTS}-{n}"), |n: i32| format!("{SEEN}-{n}"));
    assert_eq!(committed.len(), 2);
    // The first says in each topic's partition 0 what it is; each one has a position record.
    assert_eq!(places(&committed[0]), [counts(0), counts(0), counts(2), seen(0), seen(3)]);
    assert_eq!(places(&committed[1]), [counts(0), counts(0), counts(1), seen(3)]);
}

#[test]
fn a_flush_that_is_larger_than_the_clients_queue_arrives_whole() {
    let app = App::new();
    app.cluster.get().room = Some(7);
    let keys: Vec<_> = (0..3000_u32).map(|n| n.to_string()).collect();
    let entries: Vec<_> = keys.iter().map(|key| (0, 1, key.as_str(), "x")).collect();
    drive(&mut *app.start(), flush(1, &entries)).unwrap();
    let (restored, position) = app.state();
    assert_eq!(restored.len(), keys.len());
    assert_eq!(position.map(|position| position.commit), Some(1));
}

#[test]
fn one_flush_is_on_its_way_at_a_time() {
    let app = App::with_a_state();
    let mut changelog = app.start();
    changelog.write(flush(2, &[])).unwrap();
    assert!(changelog.write(flush(3, &[])).is_err());
}

#[test]
fn a_flush_that_failed_ends_the_generation_and_is_not_seen_by_the_next() {
    let app = App::with_a_state();
    let before = app.state();
    app.cluster.get().fates.push_back(Fate::Fails(ErrorKind::Other));
    assert!(failure(&app).is_retriable());
    assert_eq!(app.state(), before);
}

#[test]
fn a_flush_whose_answer_was_lost_ends_the_generation_and_is_seen_by_the_next() {
    let app = App::with_a_state();
    app.cluster.get().fates.push_back(Fate::LosesItsAnswer(ErrorKind::TimedOut));
    assert!(failure(&app).is_retriable());
    let (entries, position) = app.state();
    assert_eq!(entries[&(0, b"c".to_vec())], b"3");
    assert_eq!(position.map(|position| position.commit), Some(2));
}

#[test]
fn a_slow_commit_is_waited_for() {
    let app = App::with_a_state();
    app.cluster.get().fates.extend([Fate::Slow, Fate::Slow]);
    let mut changelog = app.start();
    changelog.write(flush(2, &[])).unwrap();
    let polled: Vec<_> = (0..4).map(|_| changelog.poll(NOW).unwrap()).collect();
    assert_eq!(polled, [None, None, Some(CommitNumber(2)), None]);
}

#[test]
fn a_writer_that_was_replaced_is_told_so_for_good() {
    let app = App::with_a_state();
    let mut changelog = app.start();
    let successor = app.open().unwrap();
    let error = drive(&mut *changelog, flush(2, &[])).unwrap_err();
    assert!(!error.is_retriable());
    insta::assert_snapshot!(error, @"flush 2: another process with the same identity took over");
    drop(successor);
}

#[test]
fn an_entry_that_is_too_large_is_refused_for_good() {
    let app = App::with_a_state();
    app.cluster.get().refuses = Some(ErrorKind::TooLarge);
    assert!(!failure(&app).is_retriable());
}

#[test]
fn a_flush_that_is_waited_for_too_long_ends_the_generation() {
    let app = App::with_a_state();
    app.cluster.get().fates.extend((0..100).map(|_| Fate::Slow));
    let mut changelog = app.start();
    changelog.write(flush(2, &[])).unwrap();
    for _ in 0..29 {
        app.clock.advance(Duration::from_secs(1));
        assert_eq!(changelog.poll(NOW).unwrap(), None);
    }
    app.clock.advance(Duration::from_secs(1));
    let error = changelog.poll(NOW).unwrap_err();
    assert!(error.is_retriable());
    insta::assert_snapshot!(error, @"flush 2 was not acknowledged within 30.0s; the next start finds out whether it was written");
}

/// The broker refuses a transaction that outlived its timeout as if another process had taken over.
#[test]
fn a_process_that_stood_still_listens_for_its_successor_before_it_goes_on() {
    let app = App::with_a_state();
    app.cluster.get().fates.push_back(Fate::Fails(ErrorKind::Fenced));
    let mut changelog = app.start();
    changelog.write(flush(2, &[])).unwrap();
    app.clock.advance(Duration::from_secs(40));
    assert_eq!(changelog.poll(NOW).unwrap(), None);
    app.clock.advance(app.options.takeover_notice.checked_sub(Duration::from_millis(1)).unwrap());
    assert_eq!(changelog.poll(NOW).unwrap(), None);
    app.clock.advance(Duration::from_millis(1));
    let error = changelog.poll(NOW).unwrap_err();
    assert!(error.is_retriable());
    insta::assert_snapshot!(error, @"flush 2 was not acknowledged within 40.0s; the next start finds out whether it was written: it was ordered to fail");
}

#[test]
fn what_is_no_changelog_topic_is_refused_with_what_to_do() {
    let with = |change: &dyn Fn(&mut FakeTopic)| {
        let app = App::with_a_state();
        change(app.cluster.get().topics.get_mut(COUNTS).unwrap());
        app.refusal()
    };
    insta::assert_snapshot!(with(&|topic| topic.partitions.push(Vec::new())), @r#"the changelog topic "app-count-counts-changelog" has 5 partitions, but its store has 4 key groups, one for each: their number is fixed for the life of a state. Go back to 5 key groups; or, if partitions were added to the topic, start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);
    insta::assert_snapshot!(with(&|topic| topic.policy = Some("delete".to_owned())), @r#"the changelog topic "app-count-counts-changelog" has cleanup.policy=delete, so that its entries are deleted when they are old: set it back with `kafka-configs --bootstrap-server kafka:9092 --alter --entity-type topics --entity-name app-count-counts-changelog --add-config cleanup.policy=compact`"#);
    insta::assert_snapshot!(with(&|topic| topic.policy = Some("compact,delete".to_owned())), @r#"the changelog topic "app-count-counts-changelog" has cleanup.policy=compact,delete, so that its entries are deleted when they are old: set it back with `kafka-configs --bootstrap-server kafka:9092 --alter --entity-type topics --entity-name app-count-counts-changelog --add-config cleanup.policy=compact`"#);
}

#[test]
fn a_name_that_no_topic_can_have_is_refused() {
    let mut app = App::new();
    app.options.app = "my app".to_owned();
    insta::assert_snapshot!(app.refusal(), @r#"a store's changelog would be the topic "my app-count-counts-changelog", which Kafka does not take: names have at most 249 letters (a-z, A-Z), digits, dots, underscores and hyphens. Choose another group, or another name for the component or the store"#);
    app.options.app = "a".repeat(240);
    assert!(app.refusal().contains("at most 249"));
}

#[test]
fn a_changelog_of_another_is_refused_with_both_names() {
    let with = |change: &dyn Fn(&mut FormatRecord)| {
        let app = App::with_a_state();
        let mut format = FormatRecord {
            app: "app".to_owned(),
            component: "count".to_owned(),
            store: "counts".to_owned(),
            key: "text".to_owned(),
            value: "text".to_owned(),
            key_groups: 4,
        };
        change(&mut format);
        put(&app, COUNTS, RecordKey::Format, &format.encode());
        app.refusal()
    };
    insta::assert_snapshot!(with(&|format| format.app = "other".to_owned()), @r#"topic "app-count-counts-changelog": the changelog is of app "other", but this is app "app": two apps must not share a changelog. Use another group"#);
    insta::assert_snapshot!(with(&|format| format.value = "int".to_owned()), @r#"topic "app-count-counts-changelog": the changelog is of value type int, but this is value type text: its entries cannot be read so. Go back to the former type, or give the store another name"#);
}

fn put(app: &App, topic: &str, key: RecordKey<'_>, value: &[u8]) {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    app.cluster.put(topic, 0, &bytes, Some(value));
}

#[test]
fn a_changelog_that_a_later_program_has_written_is_refused() {
    let app = App::with_a_state();
    put(&app, COUNTS, RecordKey::Position, br#"{"version":2}"#);
    insta::assert_snapshot!(app.refusal(), @r#"topic "app-count-counts-changelog": the changelog's position record is of version 2, this program knows versions up to 1: a later stormglass has written it. Use that one"#);
}

#[test]
fn a_record_of_another_program_is_refused() {
    let app = App::with_a_state();
    app.cluster.put(SEEN, 3, b"hello", Some(b"world"));
    insta::assert_snapshot!(app.refusal(), @r#"topic "app-count-seen-changelog" has a record in partition 3 that is none of a changelog: another program has written to it. Stop that program. Restore the topic from a copy, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);
}

#[test]
fn a_state_of_which_a_part_is_gone_is_refused() {
    let app = App::with_a_state();
    app.cluster.empty(SEEN);
    insta::assert_snapshot!(app.refusal(), @r#"the changelog topic "app-count-seen-changelog" is empty, but the other stores have a state, of commit 1: it was deleted, or its store is new and would begin in the middle. Restore the topic from a copy, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);

    let app = App::with_a_state();
    app.cluster.empty(COUNTS);
    insta::assert_snapshot!(app.refusal(), @r#"the changelog topic "app-count-counts-changelog" is empty, but others are not: it was deleted. Restore the topic from a copy, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);

    let app = App::with_a_state();
    app.cluster.get().topics.get_mut(COUNTS).unwrap().partitions[0].clear();
    insta::assert_snapshot!(app.refusal(), @r#"the changelog topic "app-count-counts-changelog" has entries, but no format record says whose they are. Restore the topic from a copy, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);

    let app = App::with_a_state();
    let position = |record: &Record| record.0.as_deref() == Some(b"\0position");
    app.cluster.get().topics.get_mut(COUNTS).unwrap().partitions[0].retain(|record| !position(record));
    insta::assert_snapshot!(app.refusal(), @r#"there is a state in "app-count-counts-changelog", "app-count-seen-changelog", but no position record says how far it has come. Restore the topic from a copy, or start anew: `stormglass reset --to earliest`, or `--to latest|OFFSETS|TIME --discard-state`, moves offsets and state together"#);
}

#[test]
fn a_store_that_comes_to_stand_first_takes_the_position_over() {
    let mut app = App::with_a_state();
    app.stores.reverse();
    let (mut changelog, (_, position)) = app.restore().unwrap();
    assert_eq!(position.map(|position| position.commit), Some(1));
    drive(&mut *changelog, flush(2, &[])).unwrap();
    // Two topics have a position record now, and the newer one counts, in whatever order.
    assert_eq!(app.state().1.map(|position| position.commit), Some(2));
    app.stores.reverse();
    assert_eq!(app.state().1.map(|position| position.commit), Some(2));
}

#[test]
fn a_store_is_looked_at_from_outside() {
    let app = App::with_a_state();
    let other = App { cluster: app.cluster.clone(), ..App::new() };
    // Another app whose topics begin alike, and a topic that only has such a name.
    let other = App { options: ChangelogOptions { app: "app-count".to_owned(), ..other.options.clone() }, ..other };
    drive(&mut *other.start(), flush(1, &[(0, 1, "not", "ours")])).unwrap();
    let strange = FakeTopic { partitions: vec![Vec::new()], policy: None };
    app.cluster.get().topics.insert("app-strange-changelog".to_owned(), strange);

    let (clients, options) = (app.cluster.clients(), app.options.clone());
    let reader = StoreReader::new(Arc::new(move || Ok(clients(&options)?.scan)));
    let topics: Vec<_> = app.cluster.get().topics.keys().cloned().collect();
    let stores = reader.stores("app", topics).unwrap();
    assert_eq!(stores.iter().map(StoreTopic::name).collect::<Vec<_>>(), ["count/counts", "count/seen"]);
    let mut entries = Vec::new();
    let position = reader.read(&stores, &mut |record| {
        entries.push((record.store, record.group, record.key.to_vec(), record.value.map(<[u8]>::to_vec)));
    });
    assert_eq!(entries, [(0, 2, b"a".to_vec(), Some(b"1".to_vec())), (1, 3, b"b".to_vec(), Some(b"2".to_vec()))]);
    assert_eq!(position.unwrap().map(|position| position.commit), Some(1));
    assert_eq!(reader.stores("nobody", ["app-count-seen-changelog".to_owned()]), Ok(Vec::new()));
}

#[test]
fn progress_is_told_while_it_is_restored() {
    let app = App::with_a_state();
    let mut changelog = app.open().unwrap();
    let mut told = vec![changelog.remaining()];
    while !matches!(changelog.restore(NOW).unwrap(), Restored::Done(_)) {
        told.push(changelog.remaining());
    }
    assert_eq!(told.first(), Some(&None));
    assert_eq!(told.get(1), Some(&Some(5)));
    assert_eq!(changelog.remaining(), Some(0));
}

#[test]
fn closing_undoes_what_is_open() {
    let app = App::with_a_state();
    let mut changelog = app.start();
    changelog.close(NOW);
    assert_eq!(app.cluster.get().closed, 1);
    assert!(changelog.write(flush(2, &[])).is_err());
}

#[test]
fn entries_of_no_store_are_no_flush() {
    let app = App::with_a_state();
    let mut strange = flush(2, &[]);
    strange.changes.push((StoreId(7), Changes::default()));
    assert!(app.start().write(strange).is_err());
}
