//! What goes wrong at the edge of the core, by plan: requests and responses that are lost, late or doubled, and answers that
//! no broker in good health would give. Pure, as the core is.

use std::collections::BTreeMap;

use kafka_protocol::{
    messages::{ApiKey, RequestKind},
    protocol::StrBytes,
};

use super::{
    broker::Broker,
    refusals::{names, refusal},
    request::{ConnectionId, Effect, Request, Response},
};
use crate::clock::Instant;

/// What happens to a request.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mishap {
    /// It is answered with this error code and nothing is done. A request whose response has no place for an error has
    /// its connection closed.
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
    /// Requests that name this partition of a topic; `None`: all.
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
    /// The request, where its answer is made from it.
    request: Option<RequestKind>,
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
    pub fn handle(&mut self, request: Request, now: Instant, effects: &mut Vec<Effect>) {
        self.rules.retain(|rule| rule.times > 0 && now < rule.until);
        let key = (request.connection, request.correlation);
        let met = self.rules.iter_mut().find(|rule| rule.meets(&request, now)).map(|rule| {
            rule.times -= 1;
            rule.mishap
        });
        self.met.extend(met.map(|mishap| (request.api, mishap)));
        match met {
            None => {}
            Some(Mishap::LoseRequest) => return,
            Some(Mishap::Refuse(code)) => return effects.push(refuse(&request, code)),
            Some(mishap) => {
                let request = matches!(mishap, Mishap::Deny(_)).then(|| request.body.clone());
                self.expected.insert(key, Expected { mishap, request });
            }
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

    fn meet(&mut self, expected: Expected, response: Response, now: Instant, effects: &mut Vec<Effect>) {
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
            Mishap::Deny(code) | Mishap::Refuse(code) => {
                let denied = expected.request.and_then(|request| refusal(&request, response.version, code));
                effects.push(match denied {
                    Some(body) => Effect::Respond(Response { body, ..response }),
                    None => Effect::Close(response.connection),
                });
            }
        }
    }
}

fn refuse(request: &Request, code: i16) -> Effect {
    let &Request { connection, correlation, api, version, .. } = request;
    match refusal(&request.body, version, code) {
        Some(body) => Effect::Respond(Response { connection, correlation, api, version, body }),
        None => Effect::Close(connection),
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::{
        error::ResponseError,
        messages::{ApiVersionsRequest, HeartbeatRequest, ResponseKind},
    };

    use super::*;
    use crate::broker::core::BrokerOptions;

    const fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn ask(correlation: i32, api: ApiKey, body: RequestKind) -> Request {
        Request { connection: ConnectionId(7), correlation, api, version: 0, client_id: None, body }
    }

    fn broker(mishap: Mishap) -> FaultyBroker {
        let mut broker = FaultyBroker::new(Broker::new(BrokerOptions::default()));
        broker.add(Rule { api: None, partition: None, from: at(10), until: at(20), times: 1, mishap });
        broker
    }

    /// The numbers of the requests that are answered.
    fn answered(effects: &[Effect]) -> Vec<i32> {
        let of = |effect: &Effect| match effect {
            Effect::Respond(response) => response.correlation,
            Effect::Close(_) => -1,
        };
        effects.iter().map(of).collect()
    }

    fn versions(correlation: i32) -> Request {
        ask(correlation, ApiKey::ApiVersions, ApiVersionsRequest::default().into())
    }

    #[test]
    fn a_rule_meets_as_many_requests_as_it_says_within_its_time() {
        let mut broker = broker(Mishap::LoseResponse);
        let mut effects = Vec::new();
        for (n, now) in [(0, 9), (1, 10), (2, 11)] {
            broker.handle(versions(n), at(now), &mut effects);
        }
        assert_eq!(answered(&effects), [0, 2]);
    }

    #[test]
    fn each_mishap_does_to_a_response_what_it_says() {
        let cases = [
            (Mishap::Double, vec![3, 3]),
            (Mishap::Close, vec![-1]),
            (Mishap::LoseRequest, vec![]),
            (Mishap::Delay(5), vec![]),
            (Mishap::Refuse(1), vec![3]),
        ];
        for (mishap, expected) in cases {
            let (mut broker, mut effects) = (broker(mishap), Vec::new());
            broker.handle(versions(3), at(10), &mut effects);
            assert_eq!(answered(&effects), expected, "{mishap:?}");
        }
    }

    #[test]
    fn a_late_response_is_due_when_its_time_has_come() {
        let (mut broker, mut effects) = (broker(Mishap::Delay(5)), Vec::new());
        broker.handle(versions(3), at(10), &mut effects);
        assert_eq!(broker.due(), at(15));
        broker.tick(at(14), &mut effects);
        assert!(effects.is_empty());
        broker.tick(at(15), &mut effects);
        assert_eq!(answered(&effects), [3]);
    }

    #[test]
    fn a_refusal_holds_the_code() {
        let code = ResponseError::NotCoordinator.code();
        let (mut broker, mut effects) = (broker(Mishap::Refuse(code)), Vec::new());
        broker.handle(ask(3, ApiKey::Heartbeat, HeartbeatRequest::default().into()), at(10), &mut effects);
        let [Effect::Respond(Response { body: ResponseKind::Heartbeat(answer), .. })] = &effects[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(answer.error_code, code);
    }
}
