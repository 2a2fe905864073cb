//! A bug in what a sink says.

use std::{sync::Arc, time::Duration};

use crate::{
    chaos::substitutes::Substitutes,
    kafka::client::{ClientError, DeliveryReport, ProduceBatch, SinkClient},
};

/// Says that records are acknowledged as soon as they are taken.
struct HastySink {
    inner: Box<dyn SinkClient>,
    early: Vec<DeliveryReport>,
}

impl SinkClient for HastySink {
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> usize {
        let taken = self.inner.produce(batch, from);
        let rows = batch.rows().iter().skip(from).take(taken);
        self.early.extend(rows.map(|row| DeliveryReport::Acked { flush: row.flush, records: 1 }));
        taken
    }

    fn poll(&mut self, wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.inner.poll(wait, reports)?;
        reports.retain(|report| !matches!(report, DeliveryReport::Acked { .. }));
        reports.append(&mut self.early);
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }

    fn flush_hint(&mut self) {
        self.inner.flush_hint();
    }

    fn close(&mut self, wait: Duration, reports: &mut Vec<DeliveryReport>) -> Result<(), ClientError> {
        self.inner.close(wait, reports)
    }
}

pub(super) fn sink() -> Substitutes {
    let around = |inner| -> Box<dyn SinkClient> { Box::new(HastySink { inner, early: Vec::new() }) };
    Substitutes { sink: Some(Arc::new(around)), ..Substitutes::default() }
}
