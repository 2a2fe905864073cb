//! What goes wrong in a run, and when: drawn from the seed, and short enough to be read.

use std::{fmt, time::Duration};

use kafka_protocol::{error::ResponseError as E, messages::ApiKey};

use super::{dice::Dice, network::Way};
use crate::{
    broker::core::{Coordinates, faults::Mishap},
    clock::Instant,
};

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
        /// Calls of the last bolt, which has the stores if there are any; else of the first.
        last: bool,
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
    /// The broker dies and comes back. With its machine, what was not on disk yet is gone: from the end of every partition
    /// that is written to as output.
    CrashBroker {
        /// After how long.
        down: Duration,
        /// How many records of each partition were not on disk.
        unflushed: i64,
    },
    /// A coordinator moves: it is found nowhere for a while, and has forgotten what it had not written down.
    MoveCoordinator {
        /// Which.
        what: Coordinates,
        /// How long it is found nowhere.
        span: Duration,
    },
    /// Every transaction that is open has lasted too long.
    TimeOutTransactions,
    /// The topics of the changelog are compacted.
    Compact,
    /// Records of the input are deleted, read or not.
    DeleteRecords {
        /// Of which partition.
        partition: i32,
        /// How many that are not committed yet.
        uncommitted: i64,
    },
    /// The topic that is written to is deleted and made anew.
    MakeAnew,
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
        /// Only those that name this partition of the topic that it is about.
        partition: Option<i32>,
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

    /// Whether nothing goes wrong by it: no record may be repeated for it.
    #[must_use]
    pub const fn is_orderly(&self) -> bool {
        matches!(self, Self::Stop { .. } | Self::Grow)
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
const APIS: [ApiKey; 14] = [
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
    ApiKey::LeaveGroup,
];
const CHANGELOG_APIS: [ApiKey; 6] = [
    ApiKey::AddPartitionsToTxn,
    ApiKey::EndTxn,
    ApiKey::InitProducerId,
    ApiKey::Produce,
    ApiKey::CreateTopics,
    ApiKey::DescribeConfigs,
];

/// The faults of a run, in the order of their times. In some runs there are none: processes only come and go, as an update
/// of the program makes them. In some only bolts are at fault, and every process lives from the beginning to the end.
pub(super) fn draw(dice: &mut Dice, scope: &Scope) -> Vec<Planned> {
    let draw = match dice.between(1, 16) {
        1 => stop,
        2 => inner,
        _ => fault,
    };
    let one = |_| {
        let at = Instant::ZERO + micros(dice, 100_000, u64::try_from(scope.span.as_micros()).unwrap_or(u64::MAX));
        Planned { at, fault: draw(dice, scope) }
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

fn stop(dice: &mut Dice, scope: &Scope) -> Fault {
    Fault::Stop { process: dice.below(scope.processes), down: millis(dice, 1, 2_000) }
}

fn inner(dice: &mut Dice, scope: &Scope) -> Fault {
    Fault::Bolts {
        process: dice.below(scope.processes),
        last: scope.stores && dice.once_in(2),
        failures: u32::try_from(dice.between(1, 20)).unwrap_or(1),
        panics: u32::try_from(dice.between(0, 3)).unwrap_or(0),
    }
}

fn fault(dice: &mut Dice, scope: &Scope) -> Fault {
    let process = dice.below(scope.processes);
    match dice.between(1, 25) {
        1..=4 => Fault::Kill { process, calls: dice.between(1, 60), down: millis(dice, 1, 3_000) },
        5 => stop(dice, scope),
        6 if scope.stores => Fault::Replace { process, span: millis(dice, 500, 8_000) },
        6 | 7 => Fault::Pause { process, span: millis(dice, 100, 6_000) },
        8 | 9 => {
            let way = if dice.once_in(2) { Way::Up } else { Way::Down };
            Fault::Cut { process, way, span: millis(dice, 100, 5_000) }
        }
        10 if dice.once_in(4) => Fault::Hang { process, executor: dice.below(scope.executors) },
        10 | 11 => inner(dice, scope),
        12 => Fault::PauseBroker { span: millis(dice, 50, 3_000) },
        13 => {
            let unflushed = if dice.once_in(2) { 0 } else { i64::try_from(dice.between(1, 40)).unwrap_or(1) };
            Fault::CrashBroker { down: millis(dice, 50, 2_000), unflushed }
        }
        14 => Fault::Expel { member: dice.below(scope.processes) },
        // A static member that is started again within its session gets the partitions that it had, and nobody notices those
        // that were added meanwhile until the group rebalances for another reason (KIP-814 has why).
        15 if !scope.is_static && dice.once_in(3) => Fault::Grow,
        16 => {
            let what = if scope.stores && dice.once_in(2) { Coordinates::Transactions } else { Coordinates::Groups };
            Fault::MoveCoordinator { what, span: millis(dice, 0, 2_000) }
        }
        17 if scope.stores => Fault::TimeOutTransactions,
        18 if scope.stores => Fault::Compact,
        17..=19 => {
            let uncommitted = if dice.once_in(2) { 0 } else { i64::try_from(dice.between(1, 100)).unwrap_or(1) };
            Fault::DeleteRecords { partition: i32::try_from(dice.below(6)).unwrap_or(0), uncommitted }
        }
        20 if dice.once_in(3) => Fault::MakeAnew,
        _ => requests(dice, scope),
    }
}

fn requests(dice: &mut Dice, scope: &Scope) -> Fault {
    let apis: &[ApiKey] = if scope.stores && dice.once_in(2) { &CHANGELOG_APIS } else { &APIS };
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
    let of_partition = matches!(api, ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetCommit);
    let partition = (of_partition && dice.once_in(3)).then(|| i32::try_from(dice.below(3)).unwrap_or(0));
    Fault::Requests { api, partition, mishap, times, span: millis(dice, 100, 3_000) }
}

/// An error that Kafka gives to requests of this API, and that is true of a broker that has trouble for a while.
fn code(dice: &mut Dice, api: ApiKey) -> i16 {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the APIs of the list above")]
    let codes: &[E] = match api {
        ApiKey::Produce => &[
            E::NotLeaderOrFollower,
            E::NotEnoughReplicas,
            E::NotEnoughReplicasAfterAppend,
            E::RequestTimedOut,
            E::KafkaStorageError,
            E::UnknownTopicOrPartition,
            E::UnknownServerError,
        ],
        ApiKey::Fetch | ApiKey::ListOffsets => &[
            E::NotLeaderOrFollower,
            E::KafkaStorageError,
            E::ReplicaNotAvailable,
            E::UnknownTopicOrPartition,
            E::OffsetNotAvailable,
            E::UnknownLeaderEpoch,
            E::UnknownServerError,
        ],
        ApiKey::Metadata => &[E::LeaderNotAvailable],
        ApiKey::JoinGroup | ApiKey::SyncGroup | ApiKey::Heartbeat => &[
            E::NotCoordinator,
            E::CoordinatorNotAvailable,
            E::CoordinatorLoadInProgress,
            E::RebalanceInProgress,
            E::UnknownMemberId,
            E::IllegalGeneration,
        ],
        ApiKey::InitProducerId | ApiKey::AddPartitionsToTxn | ApiKey::EndTxn => {
            &[E::NotCoordinator, E::CoordinatorNotAvailable, E::CoordinatorLoadInProgress, E::ConcurrentTransactions]
        }
        ApiKey::CreateTopics => &[E::NotController, E::RequestTimedOut, E::UnknownServerError],
        ApiKey::DescribeConfigs => &[E::UnknownTopicOrPartition, E::UnknownServerError],
        _ => &[E::NotCoordinator, E::CoordinatorNotAvailable, E::CoordinatorLoadInProgress],
    };
    codes.get(dice.below(codes.len())).map_or(0, |code| code.code())
}
