//! What goes wrong in a run, and when: drawn from the seed, and short enough to be read.

use std::{fmt, time::Duration};

use kafka_protocol::{error::ResponseError as E, messages::ApiKey};

use super::{dice::Dice, network::Way};
use crate::{broker::core::faults::Mishap, clock::Instant};

/// One thing that goes wrong.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// A process dies after so many further calls of its clients, and is started again.
    Kill {
        /// Which.
        process: usize,
        /// After how many calls.
        calls: u64,
        /// How long until it is there again.
        down: Duration,
    },
    /// A process is told to stop, does so, and is started again.
    Stop {
        /// Which.
        process: usize,
        /// How long until it is there again.
        down: Duration,
    },
    /// A process stands still, and its place is taken by another one meanwhile.
    Replace {
        /// Which.
        process: usize,
        /// For how long it stands still.
        span: Duration,
    },
    /// A process stands still.
    Pause {
        /// Which.
        process: usize,
        /// For how long.
        span: Duration,
    },
    /// Nothing of a process arrives at the broker, or nothing of the broker at the process.
    Cut {
        /// Which.
        process: usize,
        /// Which way.
        way: Way,
        /// For how long.
        span: Duration,
    },
    /// A call of a bolt does not come back.
    Hang {
        /// Of which process.
        process: usize,
        /// On which of its executors.
        executor: usize,
    },
    /// Calls of bolts fail and panic.
    Bolts {
        /// Of which process.
        process: usize,
        /// How many fail,
        failures: u32,
        /// and how many panic.
        panics: u32,
    },
    /// The broker answers nobody.
    PauseBroker {
        /// For how long.
        span: Duration,
    },
    /// The broker dies and comes back with everything that it had acknowledged.
    CrashBroker {
        /// After how long.
        down: Duration,
    },
    /// The group throws a member out.
    Expel {
        /// Which of its members.
        member: usize,
    },
    /// The topic that is read has more partitions.
    Grow,
    /// Something happens to requests of an API.
    Requests {
        /// Which API.
        api: ApiKey,
        /// What.
        mishap: Mishap,
        /// To how many,
        times: u32,
        /// and for how long.
        span: Duration,
    },
}

impl Fault {
    /// Whether a request may arrive after one that was sent later, over another connection.
    pub(super) const fn holds_requests_back(&self) -> bool {
        matches!(self, Self::Cut { .. } | Self::PauseBroker { .. })
    }
}

/// A fault and when it comes.
#[derive(Clone, PartialEq, Debug)]
pub struct Planned {
    /// When.
    pub at: Instant,
    /// What.
    pub fault: Fault,
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.4} s  {:?}", self.at.nanos() as f64 / 1e9, self.fault)
    }
}

/// What is drawn: how many processes there are, and how long things go wrong for.
#[derive(Copy, Clone, Debug)]
pub(super) struct Scope {
    pub(super) processes: usize,
    pub(super) executors: usize,
    pub(super) faults: usize,
    pub(super) span: Duration,
    pub(super) stores: bool,
    pub(super) is_static: bool,
}

/// The APIs that something happens to.
const APIS: [ApiKey; 13] = [
    ApiKey::Produce,
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::OffsetCommit,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::JoinGroup,
    ApiKey::SyncGroup,
    ApiKey::Heartbeat,
    ApiKey::FindCoordinator,
    ApiKey::Metadata,
    ApiKey::ListOffsets,
    ApiKey::InitProducerId,
];
const TRANSACTION_APIS: [ApiKey; 4] =
    [ApiKey::AddPartitionsToTxn, ApiKey::EndTxn, ApiKey::InitProducerId, ApiKey::Produce];

/// The faults of a run, in the order of their times.
pub(super) fn draw(dice: &mut Dice, scope: &Scope) -> Vec<Planned> {
    let one = |_| {
        let at = Instant::ZERO + micros(dice, 100_000, u64::try_from(scope.span.as_micros()).unwrap_or(u64::MAX));
        Planned { at, fault: fault(dice, scope) }
    };
    let mut plan: Vec<_> = (0..scope.faults).map(one).collect();
    plan.sort_by_key(|planned| planned.at);
    plan
}

fn micros(dice: &mut Dice, low: u64, high: u64) -> Duration {
    Duration::from_micros(dice.between(low, high))
}

fn millis(dice: &mut Dice, low: u64, high: u64) -> Duration {
    micros(dice, low * 1_000, high * 1_000)
}

fn fault(dice: &mut Dice, scope: &Scope) -> Fault {
    let process = dice.below(scope.processes);
    match dice.between(1, 20) {
        1..=4 => Fault::Kill { process, calls: dice.between(1, 60), down: millis(dice, 1, 3_000) },
        5 => Fault::Stop { process, down: millis(dice, 1, 2_000) },
        6 if scope.stores => Fault::Replace { process, span: millis(dice, 500, 8_000) },
        6 | 7 => Fault::Pause { process, span: millis(dice, 100, 6_000) },
        8 | 9 => {
            let way = if dice.once_in(2) { Way::Up } else { Way::Down };
            Fault::Cut { process, way, span: millis(dice, 100, 5_000) }
        }
        10 if dice.once_in(4) => Fault::Hang { process, executor: dice.below(scope.executors) },
        10 | 11 => Fault::Bolts {
            process,
            failures: u32::try_from(dice.between(1, 20)).unwrap_or(1),
            panics: u32::try_from(dice.between(0, 3)).unwrap_or(0),
        },
        12 => Fault::PauseBroker { span: millis(dice, 50, 3_000) },
        13 => Fault::CrashBroker { down: millis(dice, 50, 2_000) },
        14 => Fault::Expel { member: dice.below(scope.processes) },
        // A static member that is started again within its session gets the partitions that it had, and nobody notices those
        // that were added meanwhile until the group rebalances for another reason (KIP-814 has why).
        15 if !scope.is_static && dice.once_in(3) => Fault::Grow,
        _ => requests(dice, scope),
    }
}

fn requests(dice: &mut Dice, scope: &Scope) -> Fault {
    let apis: &[ApiKey] = if scope.stores && dice.once_in(2) { &TRANSACTION_APIS } else { &APIS };
    let api = apis.get(dice.below(apis.len())).copied().unwrap_or(ApiKey::Fetch);
    let code = code(dice, api);
    let mishap = match dice.between(1, 8) {
        1 | 2 => Mishap::LoseResponse,
        3 => Mishap::LoseRequest,
        4 => Mishap::Delay(dice.between(1_000_000, 1_500_000_000)),
        5 => Mishap::Double,
        6 => Mishap::Close,
        7 => Mishap::Deny(code),
        _ => Mishap::Refuse(code),
    };
    let times = u32::try_from(dice.between(1, 6)).unwrap_or(1);
    Fault::Requests { api, mishap, times, span: millis(dice, 100, 3_000) }
}

/// An error that Kafka gives to requests of this API, and that is true of a broker that has trouble for a while.
fn code(dice: &mut Dice, api: ApiKey) -> i16 {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the APIs of the list above")]
    let codes: &[E] = match api {
        ApiKey::Produce => &[E::NotLeaderOrFollower, E::NotEnoughReplicas, E::RequestTimedOut, E::KafkaStorageError],
        ApiKey::Fetch | ApiKey::ListOffsets => &[E::NotLeaderOrFollower, E::KafkaStorageError, E::ReplicaNotAvailable],
        ApiKey::Metadata => &[E::LeaderNotAvailable],
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat => {
            &[E::NotCoordinator, E::CoordinatorNotAvailable, E::CoordinatorLoadInProgress, E::RebalanceInProgress]
        }
        ApiKey::InitProducerId | ApiKey::AddPartitionsToTxn | ApiKey::EndTxn => {
            &[E::NotCoordinator, E::CoordinatorNotAvailable, E::CoordinatorLoadInProgress, E::ConcurrentTransactions]
        }
        _ => &[E::NotCoordinator, E::CoordinatorNotAvailable, E::CoordinatorLoadInProgress],
    };
    codes.get(dice.below(codes.len())).map_or(0, |code| code.code())
}
