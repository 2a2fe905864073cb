//! What transactional ids take together has a bound, and whoever has begun a transaction ends it.

use std::{collections::BTreeSet, time::Duration};

use kafka_protocol::{
    error::ResponseError,
    messages::{
        AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId, InitProducerIdRequest, ProducerId,
        TopicName, TransactionalId, add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    },
};
use proptest::{collection::vec, prelude::*};

use super::{
    super::{
        TransactionOptions,
        coordinator::{Participants, Transactions},
        transaction::{Identity, State, Transaction},
    },
    cluster::{id, text},
};
use crate::{
    broker::core::{
        BrokerOptions,
        groups::{Groups, Partition},
        logs::Logs,
        sizes::{self, entries, map},
    },
    clock::Instant,
};

const MAX_BYTES: usize = 20_000;
const NO_ROOM: i16 = ResponseError::UnknownServerError.code();

struct World {
    transactions: Transactions,
    logs: Logs,
    groups: Groups,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let BrokerOptions { groups, seed, .. } = BrokerOptions::default();
        let options = TransactionOptions { max_bytes: MAX_BYTES, ..TransactionOptions::default() };
        Self {
            transactions: Transactions::new(options),
            logs: Logs::new(&BrokerOptions::default()),
            groups: Groups::new(groups, seed),
            now: Instant::ZERO,
        }
    }

    fn taken(&self) -> usize {
        self.transactions.known.bytes()
    }

    fn init(&mut self, name: &str) -> i16 {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id(name)))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let participants = &mut Participants { logs: &mut self.logs, groups: &mut self.groups };
        self.transactions.init_producer(4, &request, participants, self.now).error_code
    }

    /// Whoever has the id now, or nobody.
    fn producer(&self, name: &str) -> Identity {
        self.transactions.known.get(&id(name)).map_or(Identity { id: -1, epoch: -1 }, |known| known.producer)
    }

    fn add(&mut self, name: &str, topic: &str, partitions: &[i32]) -> i16 {
        let Identity { id: producer, epoch } = self.producer(name);
        let topic =
            AddPartitionsToTxnTopic::default().with_name(TopicName(text(topic))).with_partitions(partitions.to_vec());
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id(name))
            .with_v3_and_below_producer_id(ProducerId(producer))
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(vec![topic]);
        let response = self.transactions.add_partitions(3, &request, &|_, _| true, self.now);
        response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    }

    fn add_group(&mut self, name: &str, group: &str) -> i16 {
        let Identity { id: producer, epoch } = self.producer(name);
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_group_id(GroupId(text(group)));
        self.transactions.add_offsets(4, &request, self.now).error_code
    }

    fn end(&mut self, name: &str, committed: bool) -> i16 {
        let Identity { id: producer, epoch } = self.producer(name);
        let request = EndTxnRequest::default()
            .with_transactional_id(id(name))
            .with_producer_id(ProducerId(producer))
            .with_producer_epoch(epoch)
            .with_committed(committed);
        let participants = &mut Participants { logs: &mut self.logs, groups: &mut self.groups };
        self.transactions.end(4, &request, participants, self.now).error_code
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        let participants = &mut Participants { logs: &mut self.logs, groups: &mut self.groups };
        self.transactions.tick(participants, self.now);
    }
}

#[test]
fn an_id_for_which_there_is_no_room_is_refused_and_those_that_are_there_go_on() {
    let mut w = World::new();
    assert_eq!(w.init("a"), 0);
    let codes: Vec<i16> = (0..1_000).map(|which| w.init(&which.to_string())).collect();
    let taken = codes.iter().take_while(|code| **code == 0).count();
    assert!((5..1_000).contains(&taken), "{taken}");
    assert!(codes[taken..].iter().all(|code| *code == NO_ROOM));
    assert_eq!(w.init("a"), 0);
    assert_eq!(w.init(&"x".repeat(MAX_BYTES)), NO_ROOM);
    assert_eq!(w.transactions.known.iter().count(), taken + 1);
}

#[test]
fn parts_for_which_there_is_no_room_are_refused_and_those_that_are_there_end() {
    let mut w = World::new();
    assert_eq!(w.init("a"), 0);
    let before = w.taken();
    let many: Vec<i32> = (0..1_000).collect();
    assert_eq!(w.add("a", "t", &many), NO_ROOM);
    assert_eq!(w.add_group("a", &"x".repeat(MAX_BYTES)), NO_ROOM);
    assert_eq!(w.end("a", true), ResponseError::InvalidTxnState.code(), "nothing has begun by it");
    assert_eq!((w.add("a", "t", &[0, 1]), w.add_group("a", "g")), (0, 0));
    assert_eq!((w.add("a", "t", &many), w.add("a", "t", &[1, 0]), w.add_group("a", "g")), (NO_ROOM, 0, 0));
    assert_eq!((w.end("a", true), w.taken()), (0, before));
}

#[test]
fn ids_that_are_forgotten_make_room() {
    let mut w = World::new();
    let long = "x".repeat(MAX_BYTES / 2);
    assert_eq!((w.init(&long), w.init(&format!("{long}y"))), (0, NO_ROOM));
    w.pass(TransactionOptions::default().id_expiration);
    assert_eq!((w.taken(), w.init(&format!("{long}y"))), (0, 0));
}

/// By a look at everything.
fn recount(name: &TransactionalId, transaction: &Transaction) -> usize {
    let parts = &transaction.parts;
    let topics = parts.partitions.iter().map(|(topic, _)| sizes::text(topic.len())).sum::<usize>();
    let groups = parts.groups.iter().map(|group| sizes::text(group.len())).sum::<usize>();
    let places = map::<Partition>(parts.partitions.len()) + map::<GroupId>(parts.groups.len());
    let place = entries::<(TransactionalId, Transaction, Instant, TransactionalId)>(1) + sizes::text(name.len());
    place + places + topics + groups
}

#[derive(Clone, Debug)]
enum Event {
    Init(usize),
    Add(usize, usize, BTreeSet<i32>),
    AddGroup(usize, usize),
    End(usize, bool),
    Pass(u64),
}

const NAMES: [usize; 5] = [1, 2, 300, 301, 5_000];

fn name(which: usize) -> String {
    "x".repeat(NAMES[which])
}

fn event() -> impl Strategy<Value = Event> {
    let which = || 0..NAMES.len();
    let partitions = || prop::collection::btree_set(0..40, 1..20);
    prop_oneof![
        4 => which().prop_map(Event::Init),
        6 => (which(), which(), partitions()).prop_map(|(id, topic, parts)| Event::Add(id, topic, parts)),
        3 => (which(), which()).prop_map(|(id, group)| Event::AddGroup(id, group)),
        3 => (which(), any::<bool>()).prop_map(|(id, commit)| Event::End(id, commit)),
        1 => (0..700_000_u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_ids_take_is_counted_right_and_has_its_bound(events in vec(event(), 1..80)) {
        let mut w = World::new();
        for event in &events {
            match event {
                Event::Init(which) => drop(w.init(&name(*which))),
                Event::Add(which, topic, partitions) => {
                    w.add(&name(*which), &name(*topic), &partitions.iter().copied().collect::<Vec<_>>());
                }
                Event::AddGroup(which, group) => drop(w.add_group(&name(*which), &name(*group))),
                Event::End(which, commit) => {
                    let of = id(&name(*which));
                    let open = w.transactions.known.get(&of).is_some_and(|known| known.state == State::Ongoing);
                    let ended = w.end(&name(*which), *commit);
                    prop_assert!(!open || ended == 0);
                }
                Event::Pass(seconds) => w.pass(Duration::from_secs(*seconds)),
            }
            let known = &w.transactions.known;
            prop_assert_eq!(known.bytes(), known.iter().map(|(name, one)| recount(name, one)).sum::<usize>());
            prop_assert!(known.bytes() <= MAX_BYTES, "{} bytes after {event:?}", known.bytes());
        }
    }
}
