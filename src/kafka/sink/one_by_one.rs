//! Records whose request was refused for its size, sent again one a request: only the one that is too large is given up.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    kafka::{
        client::{DeliveryReport, ProduceBatch, SinkClient, produce::ProduceRecord},
        dead_letters::{SinkFactory, component_error},
    },
    topology::ComponentResult,
};

/// Sends records one a request. Its client is made for the first: most runs have none.
pub(super) struct OneByOne {
    factory: SinkFactory,
    client: Option<Box<dyn SinkClient>>,
    batch: ProduceBatch,
    /// How much of the batch the client has taken.
    taken: usize,
}

impl fmt::Debug for OneByOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneByOne").field("waiting", &(self.batch.len() - self.taken)).finish_non_exhaustive()
    }
}

impl OneByOne {
    /// `factory` makes clients that send one record a request.
    pub(super) fn new(topic: Arc<str>, factory: SinkFactory) -> Self {
        Self { factory, client: None, batch: ProduceBatch::new(topic), taken: 0 }
    }

    /// Takes a record; it is reported by [`OneByOne::poll`].
    pub(super) fn send(&mut self, record: &ProduceRecord<'_>) -> ComponentResult {
        if self.client.is_none() {
            let client = (self.factory)().map_err(component_error)?;
            self.client = Some(client);
        }
        self.batch.push(record);
        self.offer();
        Ok(())
    }

    fn offer(&mut self) {
        let Some(client) = &mut self.client else { return };
        if self.taken < self.batch.len() {
            self.taken += client.produce(&self.batch, self.taken);
        }
        if self.taken >= self.batch.len() {
            self.batch.clear();
            self.taken = 0;
        }
    }

    /// Whether all that was to be sent again has its answer.
    pub(super) fn is_idle(&self) -> bool {
        self.taken >= self.batch.len() && self.client.as_ref().is_none_or(|client| client.in_flight() == 0)
    }

    /// Adds what has become of the records.
    pub(super) fn poll(&mut self, reports: &mut Vec<DeliveryReport>) -> ComponentResult {
        self.offer();
        let Some(client) = &mut self.client else { return Ok(()) };
        client.poll(Duration::ZERO, reports).map_err(component_error)
    }
}
