//! What goes wrong at the edge of the core, by plan: requests and responses that are lost, late or doubled, and answers that
//! no broker in good health would give. Pure, as the core is.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{ApiKey, RequestKind, ResponseKind},
    protocol::StrBytes,
};

use super::{
    broker::Broker,
    partitions::{names, put, split},
    refusals::refusal,
    request::{ConnectionId, Effect, Request, Response},
};
use crate::clock::Instant;

/// What happens to a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// It is answered with this error code and nothing is done. A request whose response has no place for an error, as the
    /// older ones about the metadata of all topics, has its connection closed.
    Refuse(i16),
    /// What it asks is done, and it is answered with this error code all the same.
    Deny(i16),
    /// It never arrives.
    LoseRequest,
    /// What it asks is done, and the response never arrives.
    LoseResponse,
    /// The response comes later by so many nanoseconds.
    Delay(u64),
    /// The response comes twice.
    Double,
    /// What it asks is done, and then its connection is closed.
    Close,
}

impl Mishap {
    /// Its name, whatever the code or the time.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse(_) => "Refuse",
            Self::Deny(_) => "Deny",
            Self::LoseRequest => "LoseRequest",
            Self::LoseResponse => "LoseResponse",
            Self::Delay(_) => "Delay",
            Self::Double => "Double",
            Self::Close => "Close",
        }
    }
}

/// A mishap, and whom it meets.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Requests of this API; `None`: of all.
    pub api: Option<ApiKey>,
    /// Requests that name this partition of a topic; `None`: all. If they produce, fetch, list or commit offsets,
    /// [`Mishap::Refuse`] and [`Mishap::Deny`] meet what they ask of this one, and what they ask of others is done and
    /// answered in truth. Any other mishap meets a request as a whole.
    pub partition: Option<(StrBytes, i32)>,
    /// Requests that arrive from now on,
    pub from: Instant,
    /// and before then.
    pub until: Instant,
    /// The most requests that it meets.
    pub times: u32,
    /// What happens to them.
    pub mishap: Mishap,
}

impl Rule {
    fn meets(&self, request: &Request, now: Instant) -> bool {
        (self.from..self.until).contains(&now)
            && self.times > 0
            && self.api.is_none_or(|api| api == request.api)
            && self.partition.as_ref().is_none_or(|(topic, partition)| names(&request.body, topic, *partition))
    }
}

/// What becomes of a response that is on its way.
#[derive(Clone, PartialEq, Debug)]
struct Expected {
    mishap: Mishap,
    /// What is answered where it is refused or denied,
    instead: Option<ResponseKind>,
    /// of one of its partitions only: the others have what the broker answers.
    partly: bool,
}

/// A broker and what goes wrong in front of it; with no rule it is the broker alone.
#[derive(Debug)]
pub struct FaultyBroker {
    /// The broker.
    pub broker: Broker,
    rules: Vec<Rule>,
    expected: BTreeMap<(ConnectionId, i32), Expected>,
    late: BTreeMap<(Instant, u64), Effect>,
    next: u64,
    scratch: Vec<Effect>,
    met: Vec<(ApiKey, Mishap)>,
}

impl FaultyBroker {
    /// Nothing goes wrong yet.
    #[must_use]
    pub const fn new(broker: Broker) -> Self {
        Self {
            broker,
            rules: Vec::new(),
            expected: BTreeMap::new(),
            late: BTreeMap::new(),
            next: 0,
            scratch: Vec::new(),
            met: Vec::new(),
        }
    }

    /// From now on this goes wrong too. Of several rules the oldest that meets a request is the one that happens to it.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// What has happened to requests so far: to one of which API, and what.
    #[must_use]
    pub fn met(&self) -> &[(ApiKey, Mishap)] {
        &self.met
    }

    /// Takes a request, see [`Broker::handle`].
    pub fn handle(&mut self, mut request: Request, now: Instant, effects: &mut Vec<Effect>) {
        self.rules.retain(|rule| rule.times > 0 && now < rule.until);
        let met = self.rules.iter_mut().find(|rule| rule.meets(&request, now)).map(|rule| {
            rule.times -= 1;
            (rule.mishap, expect(&request, rule))
        });
        if let Some((mishap, (expected, rest))) = met {
            self.met.push((request.api, mishap));
            match (mishap, rest) {
                (Mishap::LoseRequest, _) => return,
                (Mishap::Refuse(_), None) => return effects.push(answer(&request, expected.instead)),
                (Mishap::Refuse(_), Some(rest)) => request.body = rest,
                _ => {}
            }
            self.expected.insert((request.connection, request.correlation), expected);
        }
        let mut answers = std::mem::take(&mut self.scratch);
        self.broker.handle(request, now, &mut answers);
        self.pass(&mut answers, now, effects);
    }

    /// When [`FaultyBroker::tick`] is due; [`Instant::FAR_FUTURE`] if nothing waits for the time.
    #[must_use]
    pub fn due(&self) -> Instant {
        let late = self.late.keys().next().map_or(Instant::FAR_FUTURE, |(due, _)| *due);
        late.min(self.broker.due())
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        while let Some(entry) = self.late.first_entry().filter(|entry| entry.key().0 <= now) {
            effects.push(entry.remove());
        }
        let mut answers = std::mem::take(&mut self.scratch);
        self.broker.tick(now, &mut answers);
        self.pass(&mut answers, now, effects);
    }

    /// Forgets a connection, see [`Broker::disconnected`].
    pub fn disconnected(&mut self, connection: ConnectionId) {
        self.expected.retain(|(of, _), _| *of != connection);
        self.late.retain(|_, effect| !matches!(effect, Effect::Respond(response) if response.connection == connection));
        self.broker.disconnected(connection);
    }

    /// Lets responses through, or not.
    fn pass(&mut self, answers: &mut Vec<Effect>, now: Instant, effects: &mut Vec<Effect>) {
        for effect in answers.drain(..) {
            let Effect::Respond(response) = effect else {
                effects.push(effect);
                continue;
            };
            match self.expected.remove(&(response.connection, response.correlation)) {
                None => effects.push(Effect::Respond(response)),
                Some(expected) => self.meet(expected, response, now, effects),
            }
        }
        self.scratch = std::mem::take(answers);
    }

    fn meet(&mut self, expected: Expected, mut response: Response, now: Instant, effects: &mut Vec<Effect>) {
        match expected.mishap {
            Mishap::LoseResponse | Mishap::LoseRequest => {}
            Mishap::Delay(nanos) => {
                let due = Instant::from_nanos(now.nanos().saturating_add(nanos));
                self.late.insert((due, self.next), Effect::Respond(response));
                self.next += 1;
            }
            Mishap::Double => effects.extend([Effect::Respond(response.clone()), Effect::Respond(response)]),
            Mishap::Close => {
                let connection = response.connection;
                self.disconnected(connection);
                effects.push(Effect::Close(connection));
            }
            Mishap::Deny(_) | Mishap::Refuse(_) => effects.push(match expected.instead {
                Some(part) if expected.partly => {
                    put(&mut response.body, part);
                    Effect::Respond(response)
                }
                Some(body) => Effect::Respond(Response { body, ..response }),
                None => Effect::Close(response.connection),
            }),
        }
    }
}

/// What is to become of the response to a request that meets a rule; and where the rule is about one of its partitions, what
/// it asks of the others.
fn expect(request: &Request, rule: &Rule) -> (Expected, Option<RequestKind>) {
    let mishap = rule.mishap;
    let (Mishap::Refuse(code) | Mishap::Deny(code)) = mishap else {
        return (Expected { mishap, instead: None, partly: false }, None);
    };
    let refused = |body| refusal(body, request.version, code);
    match rule.partition.as_ref().and_then(|(topic, partition)| split(&request.body, topic, *partition)) {
        Some((part, rest)) => (Expected { mishap, instead: refused(&part), partly: true }, Some(rest)),
        None => (Expected { mishap, instead: refused(&request.body), partly: false }, None),
    }
}

/// Answers a request without a look at it.
fn answer(request: &Request, body: Option<ResponseKind>) -> Effect {
    let &Request { connection, correlation, api, version, .. } = request;
    body.map_or(Effect::Close(connection), |body| {
        Effect::Respond(Response { connection, correlation, api, version, body })
    })
}
