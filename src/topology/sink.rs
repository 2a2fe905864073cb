//! Where tuples leave the topology.

use super::{ComponentResult, TaskContext};
use crate::{
    clock::Instant,
    tuple::{Batch, Tuple},
};

/// What a sink still owes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct InFlight {
    /// Records that were taken and not yet acknowledged by the outside.
    pub records: usize,
}

/// The end of a topology's branch: takes tuples out of the process.
///
/// # Contract
/// 1. All calls come from one thread: `open`, then any others, then `close`. No call blocks.
/// 2. A tuple's edge ends when `write` returns `Ok`: the sink has taken it and answers for it. The acknowledgement of
///    the outside gates the *commit*, not the tree.
/// 3. `ready` is asked before each batch; while it is false, batches wait in front of the sink.
/// 4. `flush` hands everything taken so far to the outside (what is coalesced too). `poll` then counts down: the commit
///    goes on when `records` was 0 for everything taken before `flush`.
/// 5. An error from `flush` or `poll` poisons the generation: a record was not delivered, so nothing may be committed.
///    A record that can never be delivered (too large) is no such error: it goes to the dead-letter topic, and counts
///    as in flight until it is there.
pub trait Sink: Send {
    /// Called once, before everything else.
    ///
    /// # Errors
    /// If the sink cannot work at all; the sentence is for the user.
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        let _: &TaskContext = context;
        Ok(())
    }

    /// False while the sink cannot take a batch.
    fn ready(&mut self) -> bool {
        true
    }

    /// Takes one tuple.
    ///
    /// # Errors
    /// Fails the tuple's tree.
    fn write(&mut self, input: &Tuple<'_>) -> ComponentResult;

    /// Takes a batch, by default tuple after tuple; says of each row, in order, how it went.
    fn write_batch(&mut self, batch: &Batch, report: &mut dyn FnMut(ComponentResult)) {
        for tuple in batch.tuples_from(0) {
            report(self.write(&tuple));
        }
    }

    /// Starts to hand over everything taken so far.
    ///
    /// # Errors
    /// Ends the generation.
    fn flush(&mut self, now: Instant) -> ComponentResult;

    /// Serves acknowledgements and says how many of the records taken before the last `flush` are still open.
    ///
    /// # Errors
    /// Ends the generation: a record was not delivered.
    fn poll(&mut self, now: Instant) -> ComponentResult<InFlight>;

    /// The last call; what is in flight may be lost.
    fn close(&mut self) {}
}
