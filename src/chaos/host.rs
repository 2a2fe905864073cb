//! One life of a process as its clients know it: its place in the network, and how many calls it has left.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{link::Link, network::Network};
use crate::{
    clock::{Clock, Instant},
    kafka::client::{ClientError, ErrorKind},
};

/// A life of a process. A process that is started again is another host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostId(pub u32);

/// Where the clients of one process live. After its last call nothing of them reaches the network: so a process dies between
/// two calls of its clients, wherever in its own code that is.
#[derive(Clone, Debug)]
pub struct Host {
    id: HostId,
    network: Network,
    clock: Clock,
    calls_left: Arc<AtomicU64>,
}

impl Host {
    /// A process that lives until it is told otherwise.
    #[must_use]
    pub fn new(id: HostId, network: Network, clock: Clock) -> Self {
        Self { id, network, clock, calls_left: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Its name in the network.
    #[must_use]
    pub const fn id(&self) -> HostId {
        self.id
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    pub(super) const fn network(&self) -> &Network {
        &self.network
    }

    /// A client of this process without connection.
    pub(super) fn link(&self) -> Link {
        Link::new(self.clone())
    }

    /// The process dies after so many further calls of its clients.
    pub fn die_after(&self, calls: u64) {
        self.calls_left.store(calls, Ordering::Relaxed);
    }

    /// Whether it has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.calls_left.load(Ordering::Relaxed) == 0
    }

    /// Counts a call of a client.
    ///
    /// # Errors
    /// The process is dead: nothing may happen any more.
    pub(super) fn call(&self) -> Result<(), ClientError> {
        match self.calls_left.load(Ordering::Relaxed) {
            0 => Err(ClientError::new(ErrorKind::Other, "this process is dead")),
            u64::MAX => Ok(()),
            left => {
                self.calls_left.store(left - 1, Ordering::Relaxed);
                if left == 1 { Err(ClientError::new(ErrorKind::Other, "this process is dead")) } else { Ok(()) }
            }
        }
    }
}
