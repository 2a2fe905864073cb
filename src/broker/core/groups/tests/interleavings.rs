//! Clients that join, sync, heartbeat, leave and die in any order, against what a group promises: a generation gives no part
//! to two members, generations only grow, and nobody waits for ever.

use std::{collections::BTreeMap, time::Duration};

use kafka_protocol::error::{ParseResponseErrorCode, ResponseError};
use proptest::{collection::vec, prelude::*};

use super::history::{History, Join, REBALANCE};
use crate::{
    broker::core::{Ticket, agenda::Kept},
    clock::Instant,
};

const PARTS: usize = 6;

/// What a client is about; its life begins anew when it is fenced or unknown.
#[derive(Clone, Debug, Default)]
struct Client {
    name: String,
    generation: i32,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
    /// The names that it is to assign parts to.
    led: Vec<String>,
    /// It is to sync.
    joined: bool,
    parts: Option<String>,
}

#[derive(Clone, Debug)]
enum Event {
    Go(usize),
    Heartbeat(usize),
    Leave(usize),
    Die(usize),
    Restart(usize),
    Change(usize),
    Pass(u64),
}

struct World {
    history: History,
    clients: Vec<Client>,
    /// Who was told to be a member of which generation with which part.
    told: BTreeMap<i32, BTreeMap<String, String>>,
    newest: i32,
}

impl World {
    fn new(clients: usize) -> Self {
        Self { history: History::new(), clients: vec![Client::default(); clients], told: BTreeMap::new(), newest: 0 }
    }

    /// The last two clients are static members.
    fn join_of(&self, which: usize, metadata: &'static str) -> Join {
        let instance = [None, None, None, Some("x"), Some("y")][which];
        Join { instance, ..Join::protocols(&[("range", metadata)]) }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Go(which) => self.go(which, ""),
            Event::Change(which) => self.go(which, "changed"),
            Event::Heartbeat(which) => self.heartbeat(which),
            Event::Leave(which) => {
                let name = std::mem::take(&mut self.clients[which]).name;
                let instance = self.join_of(which, "").instance;
                self.history.leave(&[(&name, instance)]);
            }
            // Its requests may be answered, and nobody hears it.
            Event::Die(which) => self.clients[which] = Client::default(),
            Event::Restart(which) => {
                self.clients[which] = Client::default();
                self.go(which, "");
            }
            Event::Pass(ms) => self.history.pass(Duration::from_millis(ms)),
        }
        (0..self.clients.len()).for_each(|which| self.hear(which));
    }

    fn go(&mut self, which: usize, metadata: &'static str) {
        let client = self.clients[which].clone();
        if client.joining.is_some() || client.syncing.is_some() {
            return;
        }
        if client.joined {
            let parts: Vec<(String, String)> = assigned(&client.led);
            let given: Vec<(&str, &str)> = parts.iter().map(|(m, p)| (m.as_str(), p.as_str())).collect();
            let ticket = self.history.sync(&client.name, client.generation, &given);
            self.clients[which].syncing = Some(ticket);
        } else {
            let join = self.join_of(which, metadata);
            self.clients[which].joining = Some(self.history.join(&client.name, &join));
        }
    }

    fn heartbeat(&mut self, which: usize) {
        let client = &self.clients[which];
        if client.parts.is_none() {
            return;
        }
        let code = self.history.heartbeat(&client.name.clone(), client.generation);
        self.obey(which, code);
    }

    fn obey(&mut self, which: usize, code: i16) {
        let client = &mut self.clients[which];
        match code.err() {
            None => {}
            Some(ResponseError::RebalanceInProgress | ResponseError::IllegalGeneration) => {
                (client.joined, client.parts) = (false, None);
            }
            Some(ResponseError::UnknownMemberId | ResponseError::FencedInstanceId) => *client = Client::default(),
            Some(error) => panic!("nothing here leads to {error}"),
        }
    }

    fn hear(&mut self, which: usize) {
        let client = self.clients[which].clone();
        if let Some(response) = client.joining.and_then(|ticket| self.history.joined(ticket).cloned()) {
            self.clients[which].joining = None;
            if response.error_code == ResponseError::MemberIdRequired.code() {
                self.clients[which].name = response.member_id.to_string();
            } else if response.error_code == 0 {
                self.newest = self.newest.max(response.generation_id);
                let client = &mut self.clients[which];
                assert!(response.generation_id >= client.generation, "generations only grow");
                client.name = response.member_id.to_string();
                client.generation = response.generation_id;
                client.led = response.members.iter().map(|member| member.member_id.to_string()).collect();
                client.joined = true;
                // A leader that came back does not assign.
                if response.skip_assignment {
                    client.led.clear();
                }
            } else {
                self.obey(which, response.error_code);
            }
        }
        if let Some(response) = client.syncing.and_then(|ticket| self.history.synced(ticket).cloned()) {
            self.clients[which].syncing = None;
            if response.error_code == 0 {
                let parts = String::from_utf8(response.assignment.to_vec()).unwrap();
                let member = self.join_of_name(which, &client.name);
                self.told.entry(client.generation).or_default().insert(member, parts.clone());
                self.clients[which].parts = Some(parts);
            } else {
                self.obey(which, response.error_code);
            }
        }
    }

    /// An instance is one member whatever it is called.
    fn join_of_name(&self, which: usize, name: &str) -> String {
        self.join_of(which, "").instance.map_or_else(|| name.to_owned(), str::to_owned)
    }

    /// What is due first is what asking every group finds.
    fn check_due(&self) {
        let groups = self.history.groups.groups.iter().map(|(_, group)| group.due());
        let due = groups.fold(Instant::FAR_FUTURE, Instant::min);
        assert_eq!(self.history.groups.groups.first_due(), due);
    }

    /// No part of a generation was given to two.
    fn check(&self) {
        for (generation, told) in &self.told {
            let mut owner: BTreeMap<char, &str> = BTreeMap::new();
            for (member, part) in told.iter().flat_map(|(member, parts)| parts.chars().map(move |part| (member, part)))
            {
                let other = owner.insert(part, member);
                assert!(other.is_none(), "generation {generation}: part {part} has {member} and {other:?}");
            }
        }
    }
}

/// Parts are letters, dealt in turn.
fn assigned(members: &[String]) -> Vec<(String, String)> {
    let dealt = |at: usize| ('a'..).take(PARTS).skip(at).step_by(members.len()).collect();
    members.iter().enumerate().map(|(at, member)| (member.clone(), dealt(at))).collect()
}

fn event() -> impl Strategy<Value = Event> {
    let client = 0..5_usize;
    prop_oneof![
        12 => client.clone().prop_map(Event::Go),
        6 => client.clone().prop_map(Event::Heartbeat),
        2 => client.clone().prop_map(Event::Leave),
        1 => client.clone().prop_map(Event::Die),
        2 => client.clone().prop_map(Event::Restart),
        1 => client.prop_map(Event::Change),
        4 => (0..7_000_u64).prop_map(Event::Pass),
        1 => (0..70_000_u64).prop_map(Event::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_part_has_two_owners_in_one_generation_and_nobody_waits_for_ever(events in vec(event(), 1..120)) {
        let mut world = World::new(5);
        for event in &events {
            let before = world.newest;
            world.happen(event);
            world.check();
            world.check_due();
            prop_assert!(world.newest >= before);
        }
        // Whatever waits, waits for members that are silent now: they are given up.
        world.history.pass(REBALANCE * 4);
        (0..5).for_each(|which| world.hear(which));
        for client in &world.clients {
            prop_assert!(client.joining.is_none() && client.syncing.is_none(), "{client:?} waits for ever");
        }
        // And the group is there for whoever comes.
        world.clients[0] = Client::default();
        (0..3).for_each(|_| world.happen(&Event::Go(0)));
        prop_assert_eq!(world.clients[0].parts.as_deref(), Some("abcdef"));
    }
}
