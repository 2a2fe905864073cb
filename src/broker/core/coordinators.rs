//! Who coordinates a group or a transaction: in a cluster of one always this broker, unless it is just moving.

use kafka_protocol::{
    error::ResponseError,
    messages::{
        BrokerId, FindCoordinatorRequest, FindCoordinatorResponse, RequestKind, ResponseKind, TopicName,
        find_coordinator_response::Coordinator,
    },
    protocol::StrBytes,
};

use super::{
    BrokerOptions,
    broker::NODE,
    groups::{Caller, Groups},
    logs::Logs,
    refusals::refusal,
    request::{Answers, Reply},
    transactions::{Participants, Transactions},
};
use crate::clock::Instant;

/// From this version on FindCoordinator asks for several at a time (KIP-699).
const SEVERAL: i16 = 4;

/// What a coordinator coordinates.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Coordinates {
    /// Consumer groups and their offsets.
    Groups,
    /// Transactions and their producers.
    Transactions,
}

/// The coordinators of groups and of transactions.
#[derive(Debug)]
pub(super) struct Coordinators {
    pub(super) groups: Groups,
    pub(super) transactions: Transactions,
    host: StrBytes,
    port: i32,
    epoch_ms: i64,
    /// Until when the coordinator of groups is found nowhere.
    groups_away: Instant,
    /// Until when that of transactions is.
    transactions_away: Instant,
}

impl Coordinators {
    pub(super) fn new(options: &BrokerOptions) -> Self {
        Self {
            groups: Groups::new(options.groups.clone(), options.seed),
            transactions: Transactions::new(options.transactions.clone()),
            host: StrBytes::from_string(options.host.clone()),
            port: i32::from(options.port),
            epoch_ms: options.epoch_ms,
            groups_away: Instant::ZERO,
            transactions_away: Instant::ZERO,
        }
    }

    /// A fault: a coordinator moves away and comes back at `until`. Meanwhile it answers NOT_COORDINATOR, and whoever looks
    /// for it is told that there is none.
    pub(super) fn move_away(&mut self, what: Coordinates, until: Instant, answers: &mut Answers) {
        match what {
            Coordinates::Groups => {
                self.groups_away = until;
                self.groups.reload(until, answers);
            }
            Coordinates::Transactions => {
                self.transactions_away = until;
                self.transactions.moved();
            }
        }
    }

    /// A fault: every transaction that is open has lasted too long. How many.
    pub(super) fn time_out_transactions(&mut self, logs: &mut Logs, now: Instant) -> usize {
        self.transactions.time_out(&mut Participants { logs, groups: &mut self.groups }, now)
    }

    /// Works on a request; `None`: it is not about groups or transactions.
    pub(super) fn handle(
        &mut self,
        caller: &Caller,
        request: &RequestKind,
        logs: &mut Logs,
        (now, answers): (Instant, &mut Answers),
    ) -> Option<Reply> {
        let what = coordinated(request)?;
        if now < self.away(what)
            && let Some(refused) = refusal(request, caller.version, ResponseError::NotCoordinator.code())
        {
            return Some(refused.into());
        }
        match what {
            Coordinates::Groups => self.about_groups(caller, request, logs, (now, answers)),
            Coordinates::Transactions => self.about_transactions(caller.version, request, logs, now),
        }
    }

    const fn away(&self, what: Coordinates) -> Instant {
        match what {
            Coordinates::Groups => self.groups_away,
            Coordinates::Transactions => self.transactions_away,
        }
    }

    fn about_groups(
        &mut self,
        caller: &Caller,
        request: &RequestKind,
        logs: &Logs,
        (now, answers): (Instant, &mut Answers),
    ) -> Option<Reply> {
        let exists = |topic: &TopicName, partition| logs.partition(topic, partition).is_some();
        let (groups, version) = (&mut self.groups, caller.version);
        let response: ResponseKind = match request {
            RequestKind::JoinGroup(request) => {
                groups.join(caller, request, now, answers);
                return Some(Reply::Later);
            }
            RequestKind::SyncGroup(request) => {
                groups.sync(caller, request, now, answers);
                return Some(Reply::Later);
            }
            RequestKind::Heartbeat(request) => groups.heartbeat(request, now).into(),
            RequestKind::LeaveGroup(request) => groups.leave(version, request, now, answers).into(),
            RequestKind::OffsetCommit(request) => groups.commit(version, request, &exists, now).into(),
            RequestKind::TxnOffsetCommit(request) => {
                let verified = self.transactions.verify_commit(version, request);
                groups.commit_in_transaction(request, verified, &exists, now).into()
            }
            RequestKind::OffsetFetch(request) => groups.offsets(version, request).into(),
            RequestKind::OffsetDelete(request) => groups.delete_offsets(request, &exists).into(),
            RequestKind::DescribeGroups(request) => groups.describe(version, request).into(),
            RequestKind::ListGroups(request) => groups.list(request).into(),
            RequestKind::DeleteGroups(request) => groups.delete(request).into(),
            _ => return None,
        };
        Some(response.into())
    }

    fn about_transactions(
        &mut self,
        version: i16,
        request: &RequestKind,
        logs: &mut Logs,
        now: Instant,
    ) -> Option<Reply> {
        let transactions = &mut self.transactions;
        let exists = |topic: &TopicName, partition| logs.partition(topic, partition).is_some();
        let response: ResponseKind = match request {
            RequestKind::AddPartitionsToTxn(request) => {
                transactions.add_partitions(version, request, &exists, now).into()
            }
            RequestKind::AddOffsetsToTxn(request) => transactions.add_offsets(version, request, now).into(),
            RequestKind::InitProducerId(request) => {
                let participants = &mut Participants { logs, groups: &mut self.groups };
                transactions.init_producer(version, request, participants, now).into()
            }
            RequestKind::EndTxn(request) => {
                let participants = &mut Participants { logs, groups: &mut self.groups };
                transactions.end(version, request, participants, now).into()
            }
            RequestKind::DescribeTransactions(request) => {
                let epoch_ms = self.epoch_ms;
                transactions.describe(request, |at| epoch_ms + millis(at)).into()
            }
            RequestKind::ListTransactions(request) => transactions.list(request, now).into(),
            _ => return None,
        };
        Some(response.into())
    }

    /// FindCoordinator.
    pub(super) fn find(&self, version: i16, request: &FindCoordinatorRequest, now: Instant) -> FindCoordinatorResponse {
        let error = match request.key_type {
            0 if now >= self.groups_away => None,
            1 if now >= self.transactions_away => None,
            0 | 1 => Some(ResponseError::CoordinatorNotAvailable),
            _ => Some(ResponseError::InvalidRequest),
        };
        let code = error.map_or(0, |error| error.code());
        let (node, host, port) = match error {
            None => (NODE, self.host.clone(), self.port),
            Some(_) => (BrokerId(-1), StrBytes::new(), -1),
        };
        if version < SEVERAL {
            return FindCoordinatorResponse::default()
                .with_error_code(code)
                .with_node_id(node)
                .with_host(host)
                .with_port(port);
        }
        let coordinators = request.coordinator_keys.iter().map(|key| {
            Coordinator::default()
                .with_key(key.clone())
                .with_error_code(code)
                .with_node_id(node)
                .with_host(host.clone())
                .with_port(port)
        });
        FindCoordinatorResponse::default().with_coordinators(coordinators.collect())
    }

    /// When [`Coordinators::tick`] is due.
    pub(super) fn due(&self) -> Instant {
        // Nobody's session ends while nobody coordinates it.
        self.groups.due().max(self.groups_away).min(self.transactions.due().max(self.transactions_away))
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, logs: &mut Logs, now: Instant, answers: &mut Answers) {
        if now >= self.groups_away {
            self.groups.tick(now, answers);
        }
        if now >= self.transactions_away {
            self.transactions.tick(&mut Participants { logs, groups: &mut self.groups }, now);
        }
    }
}

fn millis(at: Instant) -> i64 {
    i64::try_from(at.saturating_since(Instant::ZERO).as_millis()).unwrap_or(i64::MAX)
}

/// Which coordinator a request is for; `None`: for neither.
const fn coordinated(request: &RequestKind) -> Option<Coordinates> {
    match request {
        RequestKind::JoinGroup(_)
        | RequestKind::SyncGroup(_)
        | RequestKind::Heartbeat(_)
        | RequestKind::LeaveGroup(_)
        | RequestKind::OffsetCommit(_)
        | RequestKind::TxnOffsetCommit(_)
        | RequestKind::OffsetFetch(_)
        | RequestKind::OffsetDelete(_)
        | RequestKind::DescribeGroups(_)
        | RequestKind::ListGroups(_)
        | RequestKind::DeleteGroups(_) => Some(Coordinates::Groups),
        RequestKind::AddPartitionsToTxn(_)
        | RequestKind::AddOffsetsToTxn(_)
        | RequestKind::EndTxn(_)
        | RequestKind::DescribeTransactions(_)
        | RequestKind::ListTransactions(_) => Some(Coordinates::Transactions),
        // Without an id it is an idempotent producer, which no coordinator knows.
        RequestKind::InitProducerId(request) if request.transactional_id.is_some() => Some(Coordinates::Transactions),
        _ => None,
    }
}
