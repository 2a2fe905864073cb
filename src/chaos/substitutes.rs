//! Parts of a process that a run has others for: how deliberate bugs come into it. None is the product.

use std::{fmt, sync::Arc};

use super::host::HostId;
use crate::{
    kafka::client::{SinkClient, SourceClient, scan::ScanClient},
    topology::{Spout, changelog::Changelog},
};

/// Puts something around a part.
type Around<T> = Option<Arc<dyn Fn(Box<T>) -> Box<T> + Send + Sync>>;

/// What stands around the parts of every process; by default nothing.
#[derive(Clone, Default)]
pub struct Substitutes {
    /// Around the spout.
    pub spout: Around<dyn Spout>,
    /// Around the source's client.
    pub source: Around<dyn SourceClient>,
    /// Around the sinks' clients.
    pub sink: Around<dyn SinkClient>,
    /// Around whoever reads the changelog.
    pub scan: Around<dyn ScanClient>,
    /// Around the changelog.
    pub changelog: Around<dyn Changelog>,
    /// Each life of a process has a `transactional.id` of its own.
    #[cfg(test)]
    pub unfenced: bool,
    /// Commits are sent whatever assignment they were reached under.
    #[cfg(test)]
    pub ignores_epochs: bool,
    /// An executor that hangs is made anew while the others go on.
    #[cfg(test)]
    pub starts_executors_alone: bool,
}

impl fmt::Debug for Substitutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Substitutes")
    }
}

fn around<T: ?Sized>(what: &Around<T>, part: Box<T>) -> Box<T> {
    match what {
        Some(around) => around(part),
        None => part,
    }
}

impl Substitutes {
    pub(super) fn spout(&self, part: Box<dyn Spout>) -> Box<dyn Spout> {
        around(&self.spout, part)
    }

    pub(super) fn source(&self, part: Box<dyn SourceClient>) -> Box<dyn SourceClient> {
        around(&self.source, part)
    }

    pub(super) fn sink(&self, part: Box<dyn SinkClient>) -> Box<dyn SinkClient> {
        around(&self.sink, part)
    }

    pub(super) fn scan(&self, part: Box<dyn ScanClient>) -> Box<dyn ScanClient> {
        around(&self.scan, part)
    }

    pub(super) fn changelog(&self, part: Box<dyn Changelog>) -> Box<dyn Changelog> {
        around(&self.changelog, part)
    }

    #[cfg(test)]
    pub(super) fn transactional_id(&self, id: String, host: HostId) -> String {
        if self.unfenced { format!("{id}-{}", host.0) } else { id }
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "a test has another")]
    pub(super) fn transactional_id(&self, id: String, _: HostId) -> String {
        id
    }

    /// Whether commits are sent whatever assignment they were reached under.
    #[cfg(test)]
    pub(super) const fn ignores_epochs(&self) -> bool {
        self.ignores_epochs
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "a test has another")]
    pub(super) const fn ignores_epochs(&self) -> bool {
        false
    }
}
