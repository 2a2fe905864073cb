//! Where tuples come from.

use std::time::Duration;

use super::{ComponentResult, SpoutOutput, TaskContext};
use crate::{
    clock::Instant,
    state::{SourcePosition, SourceStart},
};

/// The spout's own name for what it emitted, given back in [`Spout::ack`] and [`Spout::fail`].
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId(pub u64);

/// One round of the commit protocol. In a topology with stores the numbers rise over the whole life of an app, restarts
/// included; else they are counted from 1 in each generation.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CommitNumber(pub u64);

/// What [`Spout::next`] found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Next {
    /// Emitted something; there may be more at once.
    Emitted,
    /// Nothing to emit now. Call again when woken, or at the instant named, whichever is first.
    Idle {
        /// When something is due (a retry, say); `None`: only a wake-up brings news.
        until: Option<Instant>,
    },
    /// Everything was emitted *and* is done: a bounded source at its end.
    Exhausted,
}

/// Why a tree did not complete.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Failure<'a> {
    /// A bolt failed one of its tuples.
    Failed {
        /// The bolt's component.
        component: &'a str,
        /// What the bolt said.
        error: &'a str,
        /// False if the bolt said that no replay can cure it.
        retriable: bool,
    },
    /// The tree made no progress for the tree timeout.
    TimedOut,
}

/// How far a commit has come.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum CommitState {
    /// The broker has not answered yet.
    Pending,
    /// The frozen values are committed (or there was nothing new to commit).
    Done,
    /// The values were refused in a way that leaves the generation alive (a rebalance took the partitions): they will
    /// be part of a later commit or of another member's.
    Refused,
}

/// A source of tuples (Storm's `ISpout`), with the commit of what is done.
///
/// # Contract
/// 1. All calls come from one thread, in this order: `open`, then any others, then `close`. No call blocks.
/// 2. After each tuple emitted with a [`MessageId`], exactly one of `ack(id)` and `fail(id)` follows; a spout may then
///    emit the id again. Ids of trees that are open are distinct.
/// 3. `next` is called only while the task is active, its pending trees are below the cap and what follows it takes tuples;
///    it emits at most `budget` tuples. `poll` is called whatever stands still, before the first `activate` too.
/// 4. `freeze(n)` copies what is done *now*; `commit(n)` then commits exactly these values, never newer ones. Freezes
///    come in rising order, one at a time.
/// 5. `commit(n)` comes only after every output of the trees done at `freeze(n)` was acknowledged by its sink.
/// 6. An error from any call ends the generation: nothing is committed any more, and the spout is made anew.
///
/// # Threads
/// What emits is borrowed for one call and one thread. Storm found out at run time that two threads had emitted at once
/// (STORM-3620); here that does not compile:
/// ```compile_fail,E0499
/// fn from_two_threads(out: &mut stormglass::topology::Output) {
///     std::thread::scope(|threads| {
///         threads.spawn(|| out.emit(&[]));
///         threads.spawn(|| out.emit(&[]));
///     });
/// }
/// ```
pub trait Spout: Send {
    /// Called once, before everything else.
    ///
    /// # Errors
    /// If the spout cannot work at all; the sentence is for the user.
    fn open(&mut self, context: &TaskContext) -> ComponentResult {
        let _: &TaskContext = context;
        Ok(())
    }

    /// Emits up to `budget` tuples.
    ///
    /// # Errors
    /// If the source is broken for good; passing troubles are waited out.
    fn next(&mut self, now: Instant, budget: usize, out: &mut SpoutOutput<'_>) -> ComponentResult<Next>;

    /// Hears what the outside has to say that cannot wait until tuples are wanted again: a rebalance, for which the rest of
    /// the group waits. By default nothing.
    ///
    /// # Errors
    /// Ends the generation.
    fn poll(&mut self, _now: Instant) -> ComponentResult {
        Ok(())
    }

    /// The tree of `id` is complete.
    fn ack(&mut self, id: MessageId);

    /// The tree of `id` failed or timed out; `effects` executions of it have had an effect that a replay repeats.
    fn fail(&mut self, now: Instant, id: MessageId, failure: Failure<'_>, effects: u64);

    /// Executions that had an effect in a tree that was no longer open: they came after its failure was reported.
    fn late_effects(&mut self, _id: MessageId, _effects: u64) {}

    /// Emission may start (again). Called once before the first `next`.
    fn activate(&mut self) {}

    /// `next` will not be called until `activate`: trees in flight go on.
    fn deactivate(&mut self) {}

    /// Remembers what is done now under `number`.
    fn freeze(&mut self, _number: CommitNumber) {}

    /// Where the group has committed the partitions that this spout will read, once that is known. In a topology with
    /// stores it is asked for before the first `next`, until it is known: the stores are restored to match.
    ///
    /// # Errors
    /// Ends the generation.
    fn begins_at(&mut self, _now: Instant) -> ComponentResult<Option<Vec<SourceStart>>> {
        Ok(Some(Vec::new()))
    }

    /// Whether this spout may still go on from what [`Spout::begins_at`] has told. In a topology with stores it is asked
    /// for once they are restored and before the first `next`, until it is `true`: the changelog is this process's by then,
    /// and a process that has lost its partitions meanwhile must hear it before it writes a flush.
    ///
    /// # Errors
    /// It may not. Ends the generation.
    fn confirms(&mut self, _now: Instant) -> ComponentResult<bool> {
        Ok(true)
    }

    /// Where every partition stood at the last `freeze`, and how far it has been started *by now*: what the stores' flush
    /// is written with. It is asked for after every store was handed over, so that no record has left its traces in one
    /// that is not below `started`.
    ///
    /// # Errors
    /// A partition has left whose records have left their traces: the flush must not be written, or the state would not
    /// know the partition any more. Ends the generation.
    fn frozen(&mut self) -> ComponentResult<Vec<SourcePosition>> {
        Ok(Vec::new())
    }

    /// Starts to commit what was frozen under `number`.
    ///
    /// # Errors
    /// If committing is impossible for good (fenced).
    fn commit(&mut self, _number: CommitNumber) -> ComponentResult {
        Ok(())
    }

    /// How the commit that was started last stands.
    ///
    /// # Errors
    /// If the commit failed in a way that ends the generation.
    fn commit_state(&mut self, _now: Instant) -> ComponentResult<CommitState> {
        Ok(CommitState::Done)
    }

    /// A part of the spout that wants a thread of its own (the polling of a client that blocks). Asked for once, after
    /// `open`.
    fn companion(&mut self) -> Option<Box<dyn Companion>> {
        None
    }

    /// The last call. In-flight trees are abandoned.
    fn close(&mut self) {}
}

/// A part of a component that runs on a thread of its own: the runtime owns the thread and steps the value.
pub trait Companion: Send {
    /// The thread's name, at most 15 bytes.
    fn name(&self) -> &str;

    /// Works a little; may block for up to `max_wait` while there is nothing to do, and not otherwise. Under
    /// simulation `max_wait` is zero.
    ///
    /// # Errors
    /// An error ends the generation.
    fn step(&mut self, now: Instant, max_wait: Duration) -> ComponentResult<CompanionStep>;

    /// Called once when no step will follow; may take up to `max_wait`.
    fn close(&mut self, _max_wait: Duration) {}
}

/// What a companion wants next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum CompanionStep {
    /// To be stepped again.
    Continue,
    /// Nothing any more.
    Finished,
}
