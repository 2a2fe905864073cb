//! One request from its arrival to its response.

use std::{
    collections::{BTreeMap, VecDeque},
    net::IpAddr,
};

use kafka_protocol::{
    messages::{ApiKey, BrokerId, RequestKind, ResponseKind, TopicName},
    protocol::StrBytes,
};

use super::{
    apis,
    coordinators::{Coordinates, Coordinators},
    groups::{Caller, GroupOptions},
    logs::{LogOptions, Logs},
    request::{Answers, ConnectionId, Effect, Reply, Request, Response, Ticket},
    transactions::TransactionOptions,
};
use crate::clock::Instant;

/// The one node of the cluster; 1 as in Kafka's own examples.
pub(super) const NODE: BrokerId = BrokerId(1);

/// Where a client is of which nothing is known.
const LOOPBACK: StrBytes = StrBytes::from_static_str("/127.0.0.1");

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// The host that clients are told to connect to.
    pub host: String,
    /// The port that clients are told to connect to.
    pub port: u16,
    /// Milliseconds since 1970 at [`Instant::ZERO`]: records are dated by it.
    pub epoch_ms: i64,
    /// Seeds the names that the broker gives to members and the ids of topics.
    pub seed: u64,
    /// Of topics and their logs.
    pub logs: LogOptions,
    /// Of consumer groups.
    pub groups: GroupOptions,
    /// Of transactions.
    pub transactions: TransactionOptions,
}

impl Default for BrokerOptions {
    /// Kafka's defaults on the loopback, at a time that starts with 1970.
    fn default() -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 9092,
            epoch_ms: 0,
            seed: 0,
            logs: LogOptions::default(),
            groups: GroupOptions::default(),
            transactions: TransactionOptions::default(),
        }
    }
}

/// A request that has no response yet.
#[derive(Debug)]
struct Open {
    connection: ConnectionId,
    correlation: i32,
    api: ApiKey,
    version: i16,
}

/// The broker.
#[derive(Debug)]
pub struct Broker {
    logs: Logs,
    coordinators: Coordinators,
    /// Requests that wait for the response of the one before, by connection; a connection that works on one is here.
    waiting: BTreeMap<ConnectionId, VecDeque<Request>>,
    open: BTreeMap<Ticket, Open>,
    /// Where clients are, of those of which it is known.
    hosts: BTreeMap<ConnectionId, StrBytes>,
    next_ticket: u64,
    /// Responses that were found and are not sent yet.
    answers: Answers,
}

impl Broker {
    /// A broker without topics.
    #[must_use]
    pub fn new(options: BrokerOptions) -> Self {
        Self {
            logs: Logs::new(&options),
            coordinators: Coordinators::new(&options),
            waiting: BTreeMap::new(),
            open: BTreeMap::new(),
            hosts: BTreeMap::new(),
            next_ticket: 0,
            answers: Answers::new(),
        }
    }

    /// Says where a client is: an address, which tools are shown with the members of groups. Of a connection of which nothing
    /// is said it is the loopback's.
    pub fn connected(&mut self, connection: ConnectionId, address: IpAddr) {
        self.hosts.insert(connection, StrBytes::from_string(format!("/{address}")));
    }

    /// Takes a request; its response, and others that it makes possible, come as `effects`, now or later.
    pub fn handle(&mut self, request: Request, now: Instant, effects: &mut Vec<Effect>) {
        let connection = request.connection;
        if let Some(waiting) = self.waiting.get_mut(&connection) {
            waiting.push_back(request);
            return;
        }
        self.waiting.insert(connection, VecDeque::from([request]));
        self.go_on(connection, now, effects);
        self.settle(now, effects);
    }

    /// When [`Broker::tick`] is due; [`Instant::FAR_FUTURE`] if nothing waits for the time.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.logs.due().min(self.coordinators.due())
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.logs.tick(now, &mut self.answers);
        if self.coordinators.due() <= now {
            self.coordinators.tick(&mut self.logs, now, &mut self.answers);
        }
        self.settle(now, effects);
    }

    /// A fault: a coordinator moves away and is back at `until`. Whoever waits for it is told so; what a group had not
    /// written down is lost, as at Kafka.
    pub fn move_coordinator(&mut self, what: Coordinates, until: Instant, now: Instant, effects: &mut Vec<Effect>) {
        self.coordinators.move_away(what, until, &mut self.answers);
        self.settle(now, effects);
    }

    /// A fault: every transaction that is open now has lasted too long, whatever its timeout. It is aborted, and its
    /// producer is fenced. How many there were.
    pub fn time_out_transactions(&mut self, now: Instant, effects: &mut Vec<Effect>) -> usize {
        let count = self.coordinators.time_out_transactions(&mut self.logs, now);
        self.settle(now, effects);
        count
    }

    /// A fault: a partition loses what it holds from an offset on, as after an unclean election. `false`: there is no such
    /// partition.
    pub fn lose_tail(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
        (now, effects): (Instant, &mut Vec<Effect>),
    ) -> bool {
        let lost = self.logs.lose_tail(&TopicName(StrBytes::from_string(topic.to_owned())), partition, from);
        self.settle(now, effects);
        lost
    }

    /// A fault: everything in a topic that can be compacted is, whatever its configs say of when. `false`: there is no
    /// such topic.
    pub fn compact(&mut self, topic: &str, now: Instant) -> bool {
        self.logs.compact_now(&TopicName(StrBytes::from_string(topic.to_owned())), now)
    }

    /// A fault: the broker has died and is back at `until`, with what it has acknowledged. Both coordinators read what they
    /// had written down, and nothing else; every partition has a new leader epoch. Connections are to be given up before.
    pub fn restart(&mut self, until: Instant, now: Instant, effects: &mut Vec<Effect>) {
        for what in [Coordinates::Groups, Coordinates::Transactions] {
            self.coordinators.move_away(what, until, &mut self.answers);
        }
        self.logs.elect_leaders();
        self.settle(now, effects);
    }

    /// Forgets a connection: its requests have no response any more. What they have begun goes on.
    pub fn disconnected(&mut self, connection: ConnectionId) {
        self.hosts.remove(&connection);
        self.waiting.remove(&connection);
        for (ticket, _) in self.open.extract_if(.., |_, open| open.connection == connection) {
            self.logs.forget(ticket);
        }
    }

    /// Works on what a connection has asked until one of its requests has to wait.
    fn go_on(&mut self, connection: ConnectionId, now: Instant, effects: &mut Vec<Effect>) {
        while let Some(waiting) = self.waiting.get_mut(&connection) {
            let Some(request) = waiting.pop_front() else {
                self.waiting.remove(&connection);
                return;
            };
            let ticket = Ticket(self.next_ticket);
            self.next_ticket += 1;
            let Request { api, correlation, version, .. } = request;
            match self.work_on(ticket, &request, now) {
                Reply::Now(body) => {
                    effects.push(Effect::Respond(Response { connection, correlation, api, version, body }));
                }
                Reply::Later => {
                    self.open.insert(ticket, Open { connection, correlation, api, version });
                    return;
                }
                Reply::Nothing => {}
                Reply::Close => {
                    self.disconnected(connection);
                    effects.push(Effect::Close(connection));
                }
            }
        }
    }

    fn work_on(&mut self, ticket: Ticket, request: &Request, now: Instant) -> Reply {
        let Request { connection, api, version, body, client_id, .. } = request;
        let known = apis::versions(*api).is_some_and(|range| (range.min..=range.max).contains(version));
        match body {
            RequestKind::ApiVersions(_) => Reply::Now(ResponseKind::ApiVersions(apis::answer(*version))),
            // As Kafka does: the client was told which versions there are.
            _ if !known => Reply::Close,
            RequestKind::FindCoordinator(find) => Reply::Now(self.coordinators.find(*version, find, now).into()),
            _ => {
                let client_host = self.hosts.get(connection).cloned().unwrap_or(LOOPBACK);
                let client_id = client_id.clone().unwrap_or_default();
                let caller = Caller { ticket, version: *version, client_id, client_host };
                let reply = self.coordinators.handle(&caller, body, &mut self.logs, (now, &mut self.answers));
                let reply =
                    reply.or_else(|| self.logs.handle((ticket, *version), body, &self.coordinators.transactions, now));
                if matches!(body, RequestKind::DeleteTopics(_)) {
                    self.coordinators.groups.forget_deleted(|topic| self.logs.topic(topic).is_some());
                }
                reply.unwrap_or(Reply::Close)
            }
        }
    }

    /// Sends what was found for requests that had to wait; their connections go on, which may answer yet others.
    fn settle(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        loop {
            self.logs.wake(&mut self.answers);
            let Some((ticket, body)) = self.answers.pop_front() else { return };
            // Whoever asked may have gone.
            let Some(Open { connection, correlation, api, version }) = self.open.remove(&ticket) else { continue };
            effects.push(Effect::Respond(Response { connection, correlation, api, version, body }));
            self.go_on(connection, now, effects);
        }
    }
}
