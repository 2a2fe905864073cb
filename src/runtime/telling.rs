//! How trees have ended, told to whom it concerns.

use std::sync::{Arc, atomic::Ordering};

use super::{
    error::EngineError,
    executor::Executor,
    task::{Kind, SpoutTask, Task, guarded},
};
use crate::{
    clock::Instant,
    topology::{Ended, Ending, Failure, Owner, TreeFailure},
};

impl Executor {
    /// Tells spouts, and a flush, how their trees have ended.
    pub(super) fn tell_ended(&mut self, now: Instant) -> Result<bool, EngineError> {
        if !self.trees.has_ended() {
            return Ok(false);
        }
        let mut ended = self.trees.take_ended(std::mem::take(&mut self.state.ended));
        let of_spouts = ended.iter().filter(|end| end.owner != Owner::Flush).count() as u64;
        self.own.moves.fetch_add(of_spouts, Ordering::Relaxed);
        for end in ended.drain(..) {
            match end.owner {
                Owner::Flush => self.end_flush(end)?,
                Owner::Spout { task, .. } => {
                    let failures = &mut self.state.failures;
                    let failure = if failures.is_empty() { None } else { failures.remove(&end.root) };
                    if let Some(Task { kind: Kind::Spout(spout), context, .. }) = self.tasks.get_mut(task) {
                        guarded(context, || {
                            tell_spout(spout, end, failure.as_ref(), now, &self.names);
                            Ok(())
                        })?;
                    }
                }
            }
        }
        self.state.failures.clear();
        self.state.ended = ended;
        Ok(true)
    }
}

/// Tells a spout how one of its trees has ended.
fn tell_spout(task: &mut SpoutTask, end: Ended, failure: Option<&TreeFailure>, now: Instant, names: &[Arc<str>]) {
    let Owner::Spout { id, .. } = end.owner else { return };
    match end.ending {
        Ending::Completed => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.acked.add(1);
            task.spout.ack(id);
        }
        Ending::Failed { effects } => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.failed.add(1);
            let error = failure.map_or_else(|| "no reason was given".to_owned(), |f| f.error.to_string());
            let component = failure.and_then(|f| names.get(f.task.index()));
            let failure = Failure::Failed {
                component: component.map_or("", |name| name),
                error: &error,
                retriable: failure.is_none_or(|f| f.error.is_retriable()),
            };
            task.spout.fail(now, id, failure, effects);
        }
        Ending::TimedOut { effects } => {
            task.pending = task.pending.saturating_sub(1);
            task.trees.timed_out.add(1);
            task.spout.fail(now, id, Failure::TimedOut, effects);
        }
        Ending::Late { effects } => task.spout.late_effects(id, effects),
    }
}
