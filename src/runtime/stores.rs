//! An executor's part in keeping stores: entries go back into them at the start, and out of them at each commit.

use super::{
    error::EngineError,
    executor::{Executor, Report},
    task::{Kind, guarded},
};
use crate::{
    clock::Instant,
    state::{Changes, SourceStart},
    topology::{ComponentError, changelog::StoreId},
};

/// What spouts are asked at the start of a topology with stores.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Where they begin.
    Begins,
    /// Whether they may go on from there.
    Confirms,
}

impl Executor {
    /// Asks the spouts what they are to find out, until all know. A topology without stores does not ask.
    pub(super) fn ask_spouts(&mut self, now: Instant) -> Result<bool, EngineError> {
        let answer = match self.state.asked {
            None => None,
            Some(Asked::Begins) => self.begins_at(now)?.map(Report::Begins),
            Some(Asked::Confirms) => self.confirms(now)?.then_some(Report::Confirmed),
        };
        let Some(answer) = answer else { return Ok(false) };
        self.state.asked = None;
        self.report(answer);
        Ok(true)
    }

    fn begins_at(&mut self, now: Instant) -> Result<Option<Vec<SourceStart>>, EngineError> {
        let mut starts = Vec::new();
        for task in &mut self.tasks {
            if let Kind::Spout(spout) = &mut task.kind {
                match guarded(&task.context, || spout.spout.begins_at(now))? {
                    Some(found) => starts.extend(found),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(starts))
    }

    fn confirms(&mut self, now: Instant) -> Result<bool, EngineError> {
        let mut all = true;
        for task in &mut self.tasks {
            if let Kind::Spout(spout) = &mut task.kind {
                all &= guarded(&task.context, || spout.spout.confirms(now))?;
            }
        }
        Ok(all)
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
