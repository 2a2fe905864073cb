//! The driver's side of a task's output: what is ready to be sent, and to whom.

use super::{Output, execution::TreeFailure, output::OutputCounts};
use crate::{
    ack::AckBuffer,
    clock::Instant,
    tuple::{Batch, StreamId, TaskId},
};

impl Output {
    /// Seals the batches in the making of those lanes that `due` names by target and age.
    pub(crate) fn seal_lanes(&mut self, due: impl Fn(TaskId, Instant) -> bool) {
        let rows = self.settings.batch_rows;
        let lanes = self.streams.iter_mut().flat_map(|s| &mut s.readers).flat_map(|r| &mut r.lanes);
        for lane in lanes {
            if let Some(born) = lane.born()
                && due(lane.target(), born)
            {
                lane.seal(&mut self.outbox, rows);
            }
        }
    }

    /// When the oldest tuple was emitted that is not in a sealed batch.
    pub(crate) fn oldest_lane(&self) -> Option<Instant> {
        let mut oldest: Option<Instant> = None;
        for readers in self.streams.iter().map(|stream| &stream.readers) {
            for lane in readers.iter().flat_map(|reader| &reader.lanes) {
                oldest = lane.born().map(|born| oldest.map_or(born, |oldest| oldest.min(born))).or(oldest);
            }
        }
        oldest
    }

    /// Batches to send, oldest first.
    pub(crate) fn take_sealed(&mut self) -> std::vec::Drain<'_, Batch> {
        self.outbox.sealed.drain(..)
    }

    /// Acks for the ledger of executor `shard`.
    pub(crate) fn acks_for(&mut self, shard: usize) -> Option<&mut AckBuffer> {
        self.acks.get_mut(shard)
    }

    /// Why trees failed since the last look.
    pub(crate) fn take_failures(&mut self) -> Vec<TreeFailure> {
        std::mem::take(&mut self.failures)
    }

    /// What became of inputs since the last look, and how many tuples were sent.
    pub(crate) fn take_counts(&mut self) -> (OutputCounts, Vec<(StreamId, u64)>) {
        (std::mem::take(&mut self.counts), std::mem::take(&mut self.outbox.emitted))
    }

    /// Takes back the memory of a batch that was worked on.
    pub(crate) fn recycle(&mut self, batch: Batch) {
        self.outbox.recycle(batch);
    }

    /// Exchanges the emptied batches to fill for others: those that one task has emptied are for the next to fill.
    pub(crate) fn swap_spare(&mut self, spare: &mut Vec<Batch>) {
        std::mem::swap(&mut self.outbox.spare, spare);
    }
}
