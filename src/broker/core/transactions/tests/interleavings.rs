//! Producers that share transactional ids, in any order, against a reference that keeps lists: what is committed is seen
//! whole, what is not is not seen, and an identity that was fenced never succeeds again.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proptest::{collection::vec, prelude::*};

use super::cluster::{Cluster, Identity};

/// What one process that produces has in hand.
#[derive(Clone, Debug, Default)]
struct Client {
    identity: Option<Identity>,
    sequences: BTreeMap<i32, i32>,
    /// Taken by the broker in the transaction that it has open.
    written: Vec<(i32, String)>,
    /// The number of the write, and the offset.
    offset: Option<(u64, i64)>,
}

#[derive(Clone, Debug)]
enum Event {
    Init(usize),
    Renew(usize),
    Add(usize, i32),
    AddGroup(usize),
    Write(usize, i32),
    Offset(usize),
    End(usize, bool),
    Pass(u64),
}

/// Clients 0 and 1 share an id, 2 and 3 another.
fn name(client: usize) -> &'static str {
    ["a", "a", "b", "b"][client]
}

struct World {
    cluster: Cluster,
    clients: Vec<Client>,
    /// The last identity that was given out by an id.
    newest: BTreeMap<&'static str, Identity>,
    committed: BTreeSet<(i32, String)>,
    offset: (u64, i64),
    writes: u64,
}

impl World {
    fn new() -> Self {
        Self {
            cluster: Cluster::new(),
            clients: vec![Client::default(); 4],
            newest: BTreeMap::new(),
            committed: BTreeSet::new(),
            offset: (0, -1),
            writes: 0,
        }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Init(which) => self.init(which, None),
            Event::Renew(which) => self.init(which, self.clients[which].identity),
            Event::Pass(ms) => self.cluster.pass(Duration::from_millis(ms)),
            Event::Add(which, partition) => {
                self.act(which, |cluster, identity| cluster.add(name(which), identity, partition));
            }
            Event::AddGroup(which) => {
                self.act(which, |cluster, identity| cluster.add_group(name(which), identity));
            }
            Event::Write(which, partition) => self.write(which, partition),
            Event::Offset(which) => self.commit_offset(which),
            Event::End(which, commit) => self.end(which, commit),
        }
    }

    /// Whether it succeeds; only the newest of an id may.
    fn act(&mut self, which: usize, act: impl FnOnce(&mut Cluster, Identity) -> i16) -> bool {
        let Some(identity) = self.clients[which].identity else { return false };
        let succeeded = act(&mut self.cluster, identity) == 0;
        assert!(!succeeded || self.newest[name(which)] == identity, "{which} was fenced and succeeds");
        succeeded
    }

    fn init(&mut self, which: usize, was: Option<Identity>) {
        if let Ok(identity) = self.cluster.init(name(which), was) {
            let before = self.newest.insert(name(which), identity);
            assert!(before.is_none_or(|before| before < identity || (was.is_some() && before == identity)));
            self.clients[which] = Client { identity: Some(identity), ..Client::default() };
        }
    }

    fn write(&mut self, which: usize, partition: i32) {
        self.writes += 1;
        let value = self.writes.to_string();
        let sequence = self.clients[which].sequences.get(&partition).copied().unwrap_or(0);
        let record = (sequence, value.as_str());
        if self.act(which, |cluster, identity| cluster.write(name(which), identity, partition, record)) {
            self.clients[which].sequences.insert(partition, sequence + 1);
            self.clients[which].written.push((partition, value));
        }
    }

    fn commit_offset(&mut self, which: usize) {
        self.writes += 1;
        let offset = i64::try_from(self.writes).unwrap();
        if self.act(which, |cluster, identity| cluster.commit_in(4, name(which), identity, offset)) {
            self.clients[which].offset = Some((self.writes, offset));
        }
    }

    fn end(&mut self, which: usize, commit: bool) {
        if self.act(which, |cluster, identity| cluster.end(name(which), identity, commit)) {
            let client = &mut self.clients[which];
            let (written, offset) = (std::mem::take(&mut client.written), client.offset.take());
            if commit {
                self.committed.extend(written);
                self.offset = self.offset.max(offset.unwrap_or((0, -1)));
            }
        }
    }

    fn seen(&mut self) -> BTreeSet<(i32, String)> {
        let mut seen = BTreeSet::new();
        for partition in 0..2 {
            for value in self.cluster.committed(partition) {
                assert!(seen.insert((partition, value)), "seen twice");
            }
        }
        seen
    }
}

fn event() -> impl Strategy<Value = Event> {
    let client = 0..4_usize;
    prop_oneof![
        3 => client.clone().prop_map(Event::Init),
        1 => client.clone().prop_map(Event::Renew),
        6 => (client.clone(), 0..2_i32).prop_map(|(client, partition)| Event::Add(client, partition)),
        3 => client.clone().prop_map(Event::AddGroup),
        8 => (client.clone(), 0..2_i32).prop_map(|(client, partition)| Event::Write(client, partition)),
        3 => client.clone().prop_map(Event::Offset),
        5 => (client, any::<bool>()).prop_map(|(client, commit)| Event::End(client, commit)),
        1 => (0..90_000_u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_committed_is_seen_whole_and_nothing_else_is(events in vec(event(), 1..100)) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
            prop_assert!(world.seen().is_subset(&world.committed), "seen and not committed");
            prop_assert_eq!(world.cluster.offset(false), (world.offset.1, 0));
        }
        // What is open holds up what is behind it, until it has lasted too long.
        world.cluster.pass(Duration::from_mins(2));
        prop_assert_eq!(world.seen(), world.committed);
        prop_assert_eq!(world.cluster.offset(true), (world.offset.1, 0));
    }
}
