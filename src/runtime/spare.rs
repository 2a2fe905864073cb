//! Emptied batches: lent to each task while it runs, and given back to the executor that they came from.

use super::executor::Executor;

/// Emptied batches with which a task is called, if there are as many: what it fills in one call.
const ENOUGH: usize = 16;

impl Executor {
    /// Lends emptied batches to a task that is about to run, until [`Executor::take_spare`].
    pub(super) fn lend_spare(&mut self, index: usize) {
        let links = self.outgoing.iter_mut().flatten();
        let back = links.flat_map(|link| std::iter::from_fn(|| link.take_emptied()));
        self.state.spare.extend(back.take(ENOUGH.saturating_sub(self.state.spare.len())));
        self.take_spare(index);
    }

    /// Takes back what a task has not filled, and what it has emptied: both are one exchange, of which this is the second.
    pub(super) fn take_spare(&mut self, index: usize) {
        if let Some(task) = self.tasks.get_mut(index) {
            task.output.swap_spare(&mut self.state.spare);
        }
    }

    /// Gives other executors back as many batches as they have sent.
    pub(super) fn give_back(&mut self) {
        for link in &mut self.incoming {
            link.give_back(&mut self.state.spare);
        }
    }
}
