//! Where tuples are worked on.

use super::{BatchOutput, ComponentResult, Handled, Input, Output, TaskContext};
use crate::{
    clock::Instant,
    tuple::{Batch, Tuple},
};

/// A bolt whose inputs are acked when `execute` returns `Ok` and failed when it does not (Storm's `IBasicBolt`). What
/// it emits is anchored to the input.
///
/// # Contract
/// 1. All calls come from one thread: `prepare`, then any others, then `cleanup`.
/// 2. `execute` is atomic towards the outside: its emits become visible and its writes to stores stay only when it returns
///    `Ok`; an `Err` or a panic discards them and fails the input.
/// 3. What the bolt itself remembers, outside of its stores, is not rolled back. After a panic the instance is dropped and
///    a new one made, with the same stores.
/// 4. The same tuple may come again after a failure somewhere in its tree ([`Tuple::lineage`] is then equal).
/// 5. `flush` is called once in each commit, after every tuple of the trees to be committed was executed; what it emits
///    is in the sinks' hands before the commit. What it emits is anchored to the commit itself.
/// 6. `execute` blocks nobody but the tasks of its own executor, and for less than the hang timeout.
pub trait Bolt: Send {
    /// Called once, before everything else. Field names are resolved to positions here.
    ///
    /// # Errors
    /// If the bolt cannot work at all; the sentence is for the user.
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        let _: &TaskContext = context;
        Ok(())
    }

    /// Works on one tuple.
    ///
    /// # Errors
    /// Fails the tuple's tree: it will be replayed, or go to the dead-letter topic.
    fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult;

    /// Works on a batch: by default tuple after tuple. A bolt that overrides it reports on every row, in order, with
    /// [`BatchOutput::done`] or [`BatchOutput::failed`].
    fn execute_batch(&mut self, batch: &Batch, out: &mut BatchOutput<'_>) {
        for tuple in batch.tuples_from(out.next_row()) {
            out.begin(&tuple);
            match self.execute(&tuple, out.output()) {
                Ok(()) => out.done(),
                Err(error) => out.failed(error),
            }
        }
    }

    /// A tick (Storm's tick tuple), at the interval that the component's declaration asks for. What it emits is
    /// unanchored.
    ///
    /// # Errors
    /// Logged and counted; nothing else follows from it.
    fn tick(&mut self, now: Instant, out: &mut Output) -> ComponentResult {
        let (_, _): (Instant, &mut Output) = (now, out);
        Ok(())
    }

    /// Hands over what has changed since the last flush ([`Output::scan_changed`] shows it of a store).
    ///
    /// # Errors
    /// Ends the generation: what was not handed over must not be committed.
    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        let _: &mut Output = out;
        Ok(())
    }

    /// The last call of an instance that did not panic.
    fn cleanup(&mut self) {}
}

/// A bolt that acks, fails or holds its inputs itself (Storm's `IRichBolt`): for joins, buffers and batches.
///
/// # Contract
/// Rules 1 to 6 of [`Bolt`], and:
/// 7. Every input is a linear token: `execute` must give it back as [`Handled`], which only [`Input::ack`],
///    [`Input::fail`] and [`Input::hold`] make. A held input is owned, and is acked or failed exactly once through
///    [`Output::ack`] or [`Output::fail`], by any later call.
/// 8. A held input that is dropped is never acked: its tree times out, and the task's `held` gauge shows it.
/// 9. When the instance panics, all inputs that it held fail.
pub trait AckingBolt: Send {
    /// See [`Bolt::prepare`].
    ///
    /// # Errors
    /// If the bolt cannot work at all; the sentence is for the user.
    fn prepare(&mut self, context: &TaskContext) -> ComponentResult {
        let _: &TaskContext = context;
        Ok(())
    }

    /// Works on one tuple and says what becomes of it.
    ///
    /// # Errors
    /// Fails the input and discards what this call emitted, acked, failed and held.
    fn execute<'a>(&mut self, input: Input<'a>, out: &mut Output) -> ComponentResult<Handled<'a>>;

    /// See [`Bolt::tick`]; may ack and fail what is held, and emit anchored to it.
    ///
    /// # Errors
    /// Logged and counted; nothing else follows from it.
    fn tick(&mut self, now: Instant, out: &mut Output) -> ComponentResult {
        let (_, _): (Instant, &mut Output) = (now, out);
        Ok(())
    }

    /// See [`Bolt::flush`].
    ///
    /// # Errors
    /// Ends the generation.
    fn flush(&mut self, out: &mut Output) -> ComponentResult {
        let _: &mut Output = out;
        Ok(())
    }

    /// The last call of an instance that did not panic.
    fn cleanup(&mut self) {}
}
