//! An executor's part in keeping stores: entries go back into them at the start, and out of them at each commit.

use super::{
    error::EngineError,
    executor::{Executor, Report},
    task::{Kind, guarded},
};
use crate::{
    clock::Instant,
    state::Changes,
    topology::{ComponentError, changelog::StoreId},
};

impl Executor {
    /// Asks the spouts where they begin, until all know. A topology without stores does not ask.
    pub(super) fn begin(&mut self, now: Instant) -> Result<bool, EngineError> {
        if !self.state.beginning {
            return Ok(false);
        }
        let mut starts = Vec::new();
        for task in &mut self.tasks {
            if let Kind::Spout(spout) = &mut task.kind {
                match guarded(&task.context, || spout.spout.begins_at(now))? {
                    Some(found) => starts.extend(found),
                    None => return Ok(false),
                }
            }
        }
        self.state.beginning = false;
        self.report(Report::Begins(starts));
        Ok(true)
    }

    /// Puts entries back into a store.
    pub(super) fn restore(
        &mut self,
        task: usize,
        store: StoreId,
        group: u16,
        entries: &Changes,
    ) -> Result<(), EngineError> {
        let Some(task) = self.tasks.get_mut(task) else { return Ok(()) };
        task.output.restore(store, group, entries).map_err(|error| task.error(ComponentError::permanent(error)))
    }

    pub(super) fn tell_restored(&self) {
        self.report(Report::Restored(self.tasks.iter().map(|task| task.output.entries()).sum()));
    }

    /// Hands over what has changed in every store. Everything that the frozen frontier covers is in them: what was done
    /// then was executed before.
    pub(super) fn hand_over(&mut self) {
        let mut changed = Vec::new();
        for task in &mut self.tasks {
            task.output.drain_changes(&mut changed);
        }
        self.report(Report::Changed(changed));
    }

    /// Tells where the spouts stood at the freeze. After every store was handed over: so no record that has left its
    /// traces in one was emitted after what is told here as started.
    pub(super) fn tell_positions(&mut self) -> Result<(), EngineError> {
        if !self.keeps {
            return Ok(());
        }
        let mut positions = Vec::new();
        for task in &mut self.tasks {
            if let Kind::Spout(spout) = &mut task.kind {
                positions.extend(guarded(&task.context, || spout.spout.frozen())?);
            }
        }
        self.report(Report::Positions(positions));
        Ok(())
    }

    fn report(&self, report: Report) {
        // The supervisor hangs up only when it has given the generation up.
        drop(self.reports.send(report));
    }
}
