//! An executor's part in a commit: each step is begun when the supervisor says so, and answered when it is done.

use super::{
    commit::CommitStep,
    error::EngineError,
    executor::{Executor, POLL_INTERVAL, Report},
    task::{Kind, Task, guarded},
};
use crate::{
    clock::Instant,
    topology::{CommitNumber, CommitState, ComponentError, Ended, Ending, Owner},
    tuple::{Edge, mix},
};

impl Executor {
    pub(super) fn begin_commit_step(&mut self, step: CommitStep, now: Instant) -> Result<(), EngineError> {
        self.state.commit = Some(step);
        match step {
            CommitStep::Freeze(n) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind {
                        guarded(&task.context, || {
                            spout.spout.freeze(n);
                            Ok(())
                        })?;
                    }
                }
                self.answer(step);
            }
            CommitStep::Flush(n, depth) => self.flush(n, depth, now)?,
            CommitStep::HandOver(_) => {
                self.hand_over();
                self.answer(step);
            }
            CommitStep::Deliver(_) => {
                self.tell_positions()?;
                for task in &mut self.tasks {
                    if let Kind::Sink(sink) = &mut task.kind {
                        guarded(&task.context, || sink.sink.flush(now))?;
                        sink.in_flight = usize::MAX;
                    }
                }
                self.state.last_poll = Instant::ZERO;
            }
            CommitStep::Commit(n) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind {
                        guarded(&task.context, || spout.spout.commit(n))?;
                    }
                }
                self.state.last_poll = Instant::ZERO;
            }
        }
        Ok(())
    }

    /// A flush is a tree: its root is the commit, and it is done when the sinks have taken what the bolts emitted.
    fn flush(&mut self, number: CommitNumber, depth: usize, now: Instant) -> Result<(), EngineError> {
        let Some(root) = self.trees.open(Owner::Flush) else {
            let error = ComponentError::new("no room for the tree of a flush");
            return Err(EngineError::component("flush", error));
        };
        let mut xor = 0;
        for index in 0..self.tasks.len() {
            let Some(task) = self.tasks.get_mut(index) else { continue };
            if task.depth == depth && matches!(task.kind, Kind::Bolt(_) | Kind::AckingBolt(_)) {
                let edge = Edge::root(mix(number.0) ^ u64::from(task.id.0));
                xor ^= task.flush((root, edge), now)?;
                self.collect(index);
            }
        }
        self.trees.begin(root, xor);
        Ok(())
    }

    fn answer(&mut self, step: CommitStep) {
        self.state.commit = None;
        // The supervisor hangs up only when it has given the generation up.
        drop(self.reports.send(Report::Done(step)));
    }

    /// Serves what the outside has to say: sinks' acknowledgements, what spouts hear, and their commits.
    pub(super) fn poll_outside(&mut self, now: Instant, busy: bool) -> Result<bool, EngineError> {
        if busy && now - self.state.last_poll < POLL_INTERVAL {
            return Ok(false);
        }
        self.state.last_poll = now;
        for task in &mut self.tasks {
            match &mut task.kind {
                Kind::Sink(sink) => sink.in_flight = guarded(&task.context, || sink.sink.poll(now))?.records,
                Kind::Spout(spout) => guarded(&task.context, || spout.spout.poll(now))?,
                Kind::Bolt(_) | Kind::AckingBolt(_) => {}
            }
        }
        match self.state.commit {
            Some(step @ CommitStep::Deliver(_)) => {
                let open = |task: &Task| matches!(&task.kind, Kind::Sink(sink) if sink.in_flight > 0);
                if self.tasks.iter().any(open) {
                    return Ok(false);
                }
                self.answer(step);
                Ok(true)
            }
            Some(step @ CommitStep::Commit(_)) => {
                for task in &mut self.tasks {
                    if let Kind::Spout(spout) = &mut task.kind
                        && guarded(&task.context, || spout.spout.commit_state(now))? == CommitState::Pending
                    {
                        return Ok(false);
                    }
                }
                self.answer(step);
                Ok(true)
            }
            Some(CommitStep::Freeze(_) | CommitStep::Flush(..) | CommitStep::HandOver(_)) | None => Ok(false),
        }
    }

    pub(super) fn end_flush(&mut self, end: Ended) -> Result<(), EngineError> {
        let failure = self.state.failures.remove(&end.root);
        match end.ending {
            Ending::Completed => {
                if let Some(step @ CommitStep::Flush(..)) = self.state.commit {
                    self.answer(step);
                }
                Ok(())
            }
            Ending::Late { .. } => Ok(()),
            Ending::Failed { .. } | Ending::TimedOut { .. } => {
                let name = failure.as_ref().and_then(|f| self.names.get(f.task.index()));
                let error = failure.as_ref().map_or_else(
                    || ComponentError::new("what a flush emitted made no progress for the tree timeout"),
                    |f| ComponentError::new(format!("what a flush emitted has failed: {}", f.error)),
                );
                Err(EngineError::component(name.map_or("flush", |n| n), error))
            }
        }
    }
}
