//! What a bolt reports into when it works on a whole batch.

use super::{ComponentError, Output, trees::Trees};
use crate::tuple::Tuple;

/// The rows of a batch are reported one after the other: [`BatchOutput::begin`], emits, then [`BatchOutput::done`] or
/// [`BatchOutput::failed`].
#[derive(Debug)]
pub struct BatchOutput<'a> {
    output: &'a mut Output,
    /// The trees of the executor that the task is on.
    trees: Option<&'a mut Trees>,
    next: usize,
}

impl<'a> BatchOutput<'a> {
    pub(crate) const fn new(output: &'a mut Output, trees: Option<&'a mut Trees>, first_row: usize) -> Self {
        Self { output, trees, next: first_row }
    }

    /// The row that is reported next: not 0 if the batch's first rows were reported before a panic.
    #[must_use]
    #[inline]
    pub const fn next_row(&self) -> usize {
        self.next
    }

    /// Work on `tuple` begins: what is emitted from here on is anchored to it.
    #[inline]
    pub fn begin(&mut self, tuple: &Tuple<'_>) {
        debug_assert_eq!(tuple.index(), self.next, "rows are reported in order");
        self.output.begin(tuple);
    }

    /// Where to emit.
    #[inline]
    pub fn output(&mut self) -> &mut Output {
        self.output
    }

    /// The row was worked on.
    #[inline]
    pub fn done(&mut self) {
        self.next += 1;
        self.output.succeed(self.trees.as_deref_mut());
    }

    /// The row has failed.
    #[inline]
    pub fn failed(&mut self, error: ComponentError) {
        self.next += 1;
        self.output.fail_call(error);
    }
}
