//! One broker, the connections to it, and what lies between: every packet takes its time, drawn from the seed, and a
//! direction can be cut.

use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use kafka_protocol::messages::{ApiKey, RequestKind};

use super::{bites::Bites, dice::Dice, host::HostId, log::Log};
use crate::{
    broker::core::{
        Broker, BrokerOptions, ConnectionId, Coordinates, Effect, Request, Response,
        faults::{FaultyBroker, Rule},
    },
    clock::{Clock, Instant},
};

/// The shortest and the longest time that a packet takes, in microseconds.
const LATENCY_US: (u64, u64) = (50, 1_500);

/// Which way a packet goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Way {
    /// From a host to the broker.
    Up,
    /// From the broker to a host.
    Down,
}

/// What a packet holds.
enum Packet {
    Request {
        request: Box<Request>,
        sent: Instant,
    },
    Response(Box<Response>),
    /// The host has closed the connection.
    Gone(ConnectionId),
    /// The broker has.
    Closed(ConnectionId),
}

/// One connection.
struct Connection {
    host: HostId,
    /// When the last packet of each way arrives: none overtakes it.
    last: [Instant; 2],
    inbox: VecDeque<Response>,
    closed: bool,
    /// The host waits for the answer to this last request only, and closes then.
    last_request: Option<i32>,
}

struct State {
    clock: Clock,
    broker: FaultyBroker,
    /// When the broker is due, since it was touched last: it is asked for far more often than that.
    broker_due: Cell<Option<Instant>>,
    dice: Dice,
    packets: BTreeMap<(Instant, u64), Packet>,
    next_packet: u64,
    next_connection: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Until when a direction of a host is cut.
    cuts: BTreeMap<(HostId, u8), Instant>,
    /// Until when the broker is not there, and until when it does nothing.
    down_until: Instant,
    paused_until: Instant,
    /// When those commits were sent that have no answer yet: one waits at the broker behind a join, for example.
    commits: BTreeMap<(ConnectionId, i32), Instant>,
    /// When the commit was sent that may just have been done.
    committed: Option<Instant>,
    /// Hosts that something has come for.
    woken: Vec<HostId>,
    effects: Vec<Effect>,
    log: Log,
    bites: Bites,
}

/// The network with the broker at its end; clones are the same one.
#[derive(Clone)]
pub struct Network(Arc<Mutex<State>>);

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Network")
    }
}

impl Network {
    /// A network with a new broker.
    #[must_use]
    pub fn new(options: BrokerOptions, clock: Clock, dice: Dice, log: Log) -> Self {
        Self(Arc::new(Mutex::new(State {
            clock,
            broker: FaultyBroker::new(Broker::new(options)),
            broker_due: Cell::new(None),
            dice,
            packets: BTreeMap::new(),
            next_packet: 0,
            next_connection: 0,
            connections: BTreeMap::new(),
            cuts: BTreeMap::new(),
            down_until: Instant::ZERO,
            paused_until: Instant::ZERO,
            commits: BTreeMap::new(),
            committed: None,
            woken: Vec::new(),
            effects: Vec::new(),
            log,
            bites: Bites::default(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection. Whether anybody is there shows with the first answer.
    pub(super) fn connect(&self, host: HostId) -> ConnectionId {
        let mut state = self.state();
        let id = ConnectionId(state.next_connection);
        state.next_connection += 1;
        let connection =
            Connection { host, last: [Instant::ZERO; 2], inbox: VecDeque::new(), closed: false, last_request: None };
        state.connections.insert(id, connection);
        id
    }

    /// Sends a request.
    pub(super) fn send(&self, request: Request) {
        let (connection, mut state) = (request.connection, self.state());
        let packet = Packet::Request { request: Box::new(request), sent: state.clock.now() };
        state.post(connection, Way::Up, packet);
    }

    /// The next response on a connection; `Err` once the broker has closed it.
    pub(super) fn receive(&self, connection: ConnectionId) -> Result<Option<Response>, ()> {
        match self.state().connections.get_mut(&connection) {
            None => Err(()),
            Some(open) => match open.inbox.pop_front() {
                None if open.closed => Err(()),
                response => Ok(response),
            },
        }
    }

    /// Closes a connection. What was sent before still arrives; what comes is dropped.
    pub(super) fn disconnect(&self, connection: ConnectionId) {
        let mut state = self.state();
        state.post(connection, Way::Up, Packet::Gone(connection));
        state.connections.remove(&connection);
    }

    /// Closes a connection behind the answer to this request, or when it was waited for as long as that.
    pub(super) fn disconnect_after(&self, connection: ConnectionId, correlation: i32, patience: Duration) {
        let mut state = self.state();
        let key = (state.clock.now() + patience, state.next_packet);
        let Some(open) = state.connections.get_mut(&connection) else { return };
        open.last_request = Some(correlation);
        state.packets.insert(key, Packet::Gone(connection));
        state.next_packet += 1;
    }

    /// Closes every connection of a host, as the end of its process does. What it still waits for is waited for by its end.
    pub(super) fn disconnect_all(&self, host: HostId) {
        let open: Vec<_> = {
            let state = self.state();
            let of_host = state.connections.iter().filter(|(_, c)| c.host == host && c.last_request.is_none());
            of_host.map(|(id, _)| *id).collect()
        };
        open.into_iter().for_each(|connection| self.disconnect(connection));
    }

    /// When [`Network::deliver`] has something to do.
    pub(super) fn due(&self) -> Instant {
        let state = self.state();
        let packet = state.packets.keys().next().map_or(Instant::FAR_FUTURE, |(due, _)| *due);
        packet.min(state.broker_due().max(state.stands_until()))
    }

    /// Delivers what has arrived by now, and lets the broker do what is due. Adds the hosts that something came for. As soon as
    /// offsets may have been committed, when the request was sent: then there may be more to deliver.
    pub(super) fn deliver(&self, woken: &mut Vec<HostId>) -> Option<Instant> {
        let mut state = self.state();
        let now = state.clock.now();
        while let Some(entry) = state.packets.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            state.arrive(packet, now);
            if state.committed.is_some() {
                break;
            }
        }
        if state.committed.is_none() && now >= state.stands_until() && state.broker_due() <= now {
            let mut effects = std::mem::take(&mut state.effects);
            state.broker().tick(now, &mut effects);
            state.carry_out(effects);
        }
        woken.append(&mut state.woken);
        state.committed.take()
    }

    /// From now on this goes wrong.
    pub(super) fn add_rule(&self, rule: Rule) {
        self.state().broker().add(rule);
    }

    /// A direction of a host is cut for so long: its packets come afterwards. If it is cut already, until the later end.
    pub(super) fn cut(&self, host: HostId, way: Way, span: Duration) {
        let mut state = self.state();
        let until = state.clock.now() + span;
        let end = state.cuts.entry((host, way as u8)).or_insert(until);
        *end = until.max(*end);
    }

    /// What could be noticed of what went wrong here.
    pub(super) fn bites(&self) -> Bites {
        let state = self.state();
        let mut bites = state.bites.clone();
        for (api, mishap) in state.broker.met() {
            bites.note(mishap.name(), true);
            bites.note(format!("{api:?}"), true);
        }
        bites
    }

    /// A coordinator moves away for so long.
    pub(super) fn move_coordinator(&self, what: Coordinates, span: Duration) {
        self.harm(|broker, now, effects| broker.move_coordinator(what, now + span, now, effects));
    }

    /// Every open transaction has lasted too long. How many there are.
    pub(super) fn time_out_transactions(&self) -> usize {
        self.harm(Broker::time_out_transactions)
    }

    /// Everything in a topic that can be compacted is. False if there is no such topic.
    pub(super) fn compact(&self, topic: &str) -> bool {
        self.harm(|broker, now, _| broker.compact(topic, now))
    }

    /// A partition loses what it holds from an offset on.
    pub(super) fn lose_tail(&self, topic: &str, partition: i32, from: i64) {
        self.harm(|broker, now, effects| broker.lose_tail(topic, partition, from, (now, effects)));
    }

    fn harm<T>(&self, harm: impl FnOnce(&mut Broker, Instant, &mut Vec<Effect>) -> T) -> T {
        let mut state = self.state();
        let now = state.clock.now();
        let mut effects = std::mem::take(&mut state.effects);
        let result = harm(&mut state.broker.broker, now, &mut effects);
        state.carry_out(effects);
        result
    }

    /// The broker does nothing for so long.
    pub(super) fn pause_broker(&self, span: Duration) {
        let mut state = self.state();
        state.paused_until = state.paused_until.max(state.clock.now() + span);
    }

    /// The broker dies and is back after so long, with everything that it has acknowledged. Meanwhile its timers stand.
    pub(super) fn crash_broker(&self, down: Duration) {
        let mut state = self.state();
        let now = state.clock.now();
        state.down_until = now + down;
        let open: Vec<_> = state.connections.iter().filter(|(_, c)| !c.closed).map(|(id, _)| *id).collect();
        state.bites.note("CrashBroker", !open.is_empty());
        for connection in open {
            state.broker().disconnected(connection);
            state.post(connection, Way::Down, Packet::Closed(connection));
        }
        let lost = |packet: &Packet| matches!(packet, Packet::Request { .. } | Packet::Response(_));
        state.packets.retain(|_, packet| !lost(packet));
        drop(state);
        self.harm(|broker, now, effects| broker.restart(now + down, now, effects));
    }

    /// Asks the broker at once, past the network and what goes wrong: for whoever sets the scene, and whoever looks at it.
    /// `None` if it has no answer now.
    pub(super) fn ask(&self, (api, version): (ApiKey, i16), body: RequestKind) -> Option<Response> {
        let mut state = self.state();
        let (now, connection) = (state.clock.now(), ConnectionId(u64::MAX - state.next_connection));
        state.next_connection += 1;
        let request = Request { connection, correlation: 0, api, version, client_id: None, body };
        let mut effects = Vec::new();
        state.broker().broker.handle(request, now, &mut effects);
        let ours = |effect: &Effect| matches!(effect, Effect::Respond(response) if response.connection == connection);
        let answer = effects.iter().position(ours).map(|at| effects.remove(at));
        state.broker().broker.disconnected(connection);
        state.carry_out(effects);
        match answer {
            Some(Effect::Respond(response)) => Some(response),
            Some(Effect::Close(_)) | None => None,
        }
    }
}

impl State {
    /// The broker, to be touched.
    fn broker(&mut self) -> &mut FaultyBroker {
        self.broker_due.set(None);
        &mut self.broker
    }

    /// Until when the broker does nothing, however much is due: it stands still, or is not there.
    fn stands_until(&self) -> Instant {
        self.paused_until.max(self.down_until)
    }

    fn broker_due(&self) -> Instant {
        let due = self.broker_due.get().unwrap_or_else(|| self.broker.due());
        self.broker_due.set(Some(due));
        due
    }

    /// Puts a packet on its way.
    fn post(&mut self, connection: ConnectionId, way: Way, packet: Packet) {
        let now = self.clock.now();
        let Some(open) = self.connections.get_mut(&connection) else { return };
        let latency = Duration::from_micros(self.dice.between(LATENCY_US.0, LATENCY_US.1));
        let cut = self.cuts.get(&(open.host, way as u8)).copied().unwrap_or_default();
        if cut > now {
            self.bites.note(format!("Cut {way:?}"), true);
        }
        let Some(last) = open.last.get_mut(way as usize) else { return };
        *last = (now.max(cut) + latency).max(*last);
        self.packets.insert((*last, self.next_packet), packet);
        self.next_packet += 1;
    }

    fn arrive(&mut self, packet: Packet, now: Instant) {
        match packet {
            Packet::Request { .. } | Packet::Gone(_) if now < self.paused_until => {
                // It lies in the broker's socket meanwhile.
                self.bites.note("PauseBroker", matches!(packet, Packet::Request { .. }));
                self.packets.insert((self.paused_until, self.next_packet), packet);
                self.next_packet += 1;
            }
            Packet::Request { request, .. } if now < self.down_until => {
                let connection = request.connection;
                self.post(connection, Way::Down, Packet::Closed(connection));
            }
            Packet::Request { request, sent } => {
                self.log.request(now, &request);
                if request.api == ApiKey::OffsetCommit {
                    self.commits.insert((request.connection, request.correlation), sent);
                    self.committed = Some(sent);
                }
                let mut effects = std::mem::take(&mut self.effects);
                self.broker().handle(*request, now, &mut effects);
                self.carry_out(effects);
            }
            Packet::Response(response) => {
                if let Some(open) = self.connections.get_mut(&response.connection) {
                    self.log.response(now, &response);
                    if open.last_request == Some(response.correlation) {
                        self.post(response.connection, Way::Up, Packet::Gone(response.connection));
                        return;
                    }
                    open.inbox.push_back(*response);
                    self.woken.push(open.host);
                }
            }
            Packet::Gone(connection) => {
                self.connections.remove(&connection);
                self.commits.retain(|(of, _), _| *of != connection);
                self.broker().disconnected(connection);
            }
            Packet::Closed(connection) => {
                if let Some(open) = self.connections.get_mut(&connection) {
                    open.closed = true;
                    self.woken.push(open.host);
                }
            }
        }
    }

    /// Does what the broker wants done, and takes the list back.
    fn carry_out(&mut self, mut effects: Vec<Effect>) {
        for effect in effects.drain(..) {
            match effect {
                Effect::Respond(response) => {
                    let connection = response.connection;
                    if let Some(sent) = self.commits.remove(&(connection, response.correlation)) {
                        self.committed = Some(sent);
                    }
                    self.post(connection, Way::Down, Packet::Response(Box::new(response)));
                }
                Effect::Close(connection) => self.post(connection, Way::Down, Packet::Closed(connection)),
            }
        }
        self.effects = effects;
    }
}
