//! One call of a component, from its input to its ack: what it emits is anchored, and appears all or not at all.

use std::{ops::Range, sync::atomic::Ordering};

use super::{
    ComponentError,
    held::{Fate, HeldEntry, Place},
    lane::{Lane, Outbox},
    output::{Output, OutputSettings, Staged},
    trees::Trees,
};
use crate::{
    ack::AckBuffer,
    clock::Instant,
    tuple::{Anchor, BatchFull, Edge, KeyHash, RootId, TaskId, Tuple, Value},
};

/// Why a tree fails, on its way to the spout that emitted its root.
#[derive(Debug)]
pub(crate) struct TreeFailure {
    pub(crate) root: RootId,
    pub(crate) task: TaskId,
    pub(crate) error: ComponentError,
}

/// What the tuples of a call have in common, and what changes with each: small enough to stay in registers while many are
/// emitted one after the other.
#[derive(Copy, Clone, Debug)]
pub(super) struct Run {
    /// Counts calls: a lane that was not touched in this one has nothing to take back.
    number: u64,
    root: RootId,
    edge: Edge,
    /// Whether tuples have edges of their own: in a tree, or for their lineages.
    has_edges: bool,
    /// XOR of the edges emitted.
    xor: u64,
    emitted: u32,
    batch_rows: usize,
    now: Instant,
}

impl Run {
    /// Puts a tuple into a lane.
    #[expect(clippy::inline_always, reason = "see Output::emit_on")]
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        lane: &mut Lane,
        key: KeyHash,
        values: &[Value<'_>],
        outbox: &mut Outbox,
    ) -> Result<(), BatchFull> {
        self.touch(lane, outbox);
        let edge = self.next_edge();
        lane.push(self.root, edge, key, values)
    }

    /// Readies a lane for parts of a text.
    #[inline]
    pub(super) fn share(&self, lane: &mut Lane, text: &str, outbox: &mut Outbox) -> Result<(), BatchFull> {
        lane.forget_text();
        self.touch(lane, outbox);
        lane.share(text)
    }

    /// Puts these bytes of the text that the lane was given last into it.
    #[inline]
    pub(super) fn send_part(&mut self, lane: &mut Lane, key: KeyHash, part: Range<usize>) {
        let edge = self.next_edge();
        lane.push_part(self.root, edge, key, part);
    }

    #[inline]
    fn touch(&self, lane: &mut Lane, outbox: &mut Outbox) {
        lane.touch(self.number, self.batch_rows, self.now, outbox);
    }

    #[inline]
    fn next_edge(&mut self) -> Edge {
        if !self.has_edges {
            return Edge::UNTRACKED;
        }
        let edge = self.edge.child(self.emitted);
        self.emitted += 1;
        self.xor ^= edge.bits();
        edge
    }
}

/// The call that is going on.
#[derive(Debug)]
pub(super) struct Execution {
    run: Run,
    /// Tells the calls of this task from those of others that share the pulse.
    pulse_base: u64,
    /// Further trees of the input.
    further: Vec<Place>,
    /// Tuples emitted outside every tree, over the task's life.
    unanchored: u64,
    /// True where edges are needed though there is no tree: for lineages.
    lineage: bool,
    task: TaskId,
}

impl Execution {
    pub(super) fn new(settings: &OutputSettings) -> Self {
        let run = Run {
            number: 1,
            root: RootId::NONE,
            edge: Edge::UNTRACKED,
            has_edges: settings.lineage,
            xor: 0,
            emitted: 0,
            batch_rows: settings.batch_rows,
            now: Instant::ZERO,
        };
        Self {
            run,
            pulse_base: u64::from(settings.task.0) << 48,
            further: Vec::new(),
            unanchored: 0,
            lineage: settings.lineage,
            task: settings.task,
        }
    }

    /// The call that is going on, by its number.
    #[inline]
    pub(super) const fn call(&self) -> u64 {
        self.run.number
    }

    #[inline]
    fn start(&mut self, root: RootId, edge: Edge, anchors: &[Anchor]) {
        let has_edges = self.lineage || !root.is_none();
        self.run = Run { root, edge, has_edges, xor: 0, emitted: 0, ..self.run };
        if !self.further.is_empty() || !anchors.is_empty() {
            self.further.clear();
            self.further.extend(anchors.iter().map(|anchor| Place::new(*anchor)));
        }
    }

    /// Puts a tuple that is anchored to the input into a lane.
    #[expect(clippy::inline_always, reason = "see Output::emit_on")]
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        lane: &mut Lane,
        key: KeyHash,
        values: &[Value<'_>],
        outbox: &mut Outbox,
    ) -> Result<(), BatchFull> {
        if !self.further.is_empty() {
            // The lane's mark is set before the anchors come.
            self.run.touch(lane, outbox);
            let index = self.run.emitted;
            for place in &mut self.further {
                lane.push_anchor(place.child(index));
                place.emitted(index);
            }
        }
        self.run.send(lane, key, values, outbox)
    }

    /// For many tuples one after the other, if they hang in one tree at most; to be given back.
    #[inline]
    pub(super) fn run(&self) -> Option<Run> {
        self.further.is_empty().then_some(self.run)
    }

    /// Goes on from where a run has ended.
    #[inline]
    pub(super) const fn has_run(&mut self, run: Run) {
        self.run = run;
    }

    /// [`Execution::send`], out of line: for groupings that choose several lanes.
    pub(super) fn send_cold(
        &mut self,
        lane: &mut Lane,
        key: KeyHash,
        values: &[Value<'_>],
        outbox: &mut Outbox,
    ) -> Result<(), BatchFull> {
        self.send(lane, key, values, outbox)
    }

    /// Puts a tuple that is in no tree into a lane.
    pub(super) fn send_unanchored(
        &mut self,
        lane: &mut Lane,
        key: KeyHash,
        values: &[Value<'_>],
        outbox: &mut Outbox,
    ) -> Result<(), BatchFull> {
        self.run.touch(lane, outbox);
        self.unanchored += 1;
        let edge = Edge::root(u64::from(self.task.0) << 40 ^ self.unanchored);
        lane.push(RootId::NONE, edge, key, values)
    }

    /// Puts a tuple that hangs at these places into a lane.
    #[expect(clippy::too_many_arguments, reason = "a tuple in its parts, on the way into a batch")]
    pub(super) fn send_to_places(
        &mut self,
        lane: &mut Lane,
        key: KeyHash,
        values: &[Value<'_>],
        places: &[Anchor],
        outbox: &mut Outbox,
    ) -> Result<(), BatchFull> {
        let Some((first, further)) = places.split_first() else {
            return self.send_unanchored(lane, key, values, outbox);
        };
        self.run.touch(lane, outbox);
        for place in further {
            lane.push_anchor(*place);
        }
        lane.push(first.root, first.edge, key, values)
    }
}

/// The driver's side of a task's output.
impl Output {
    /// A call starts, with `tuple` as its input.
    #[inline]
    pub(crate) fn begin(&mut self, tuple: &Tuple<'_>) {
        let row = tuple.row();
        self.execution.start(row.root, row.edge, tuple.anchors());
    }

    /// A call without an input starts: what it emits is in no tree.
    pub(crate) fn begin_unanchored(&mut self) {
        self.execution.start(RootId::NONE, Edge::UNTRACKED, &[]);
    }

    /// A call starts whose input is the root itself: a spout's emission or a flush.
    #[inline]
    pub(crate) fn begin_root(&mut self, root: RootId, edge: Edge) {
        self.execution.start(root, edge, &[]);
    }

    /// The call has succeeded and its input was a root: the XOR of the edges emitted.
    ///
    /// # Errors
    /// If the call emitted what cannot be emitted; it was then taken back.
    pub(crate) fn end_root(&mut self) -> Result<u64, ComponentError> {
        if let Some(misuse) = self.misuse.take() {
            self.take_back();
            return Err(misuse);
        }
        let xor = self.execution.run.xor;
        self.next_call();
        self.apply_staged();
        Ok(xor)
    }

    /// The call has succeeded: its input is acked and what it emitted will be sent. The ack goes straight to `trees`, if
    /// they are at hand and the input is of one of them.
    #[inline]
    pub(crate) fn succeed(&mut self, trees: Option<&mut Trees>) {
        if self.misuse.is_some() {
            return self.fail_misused();
        }
        self.counts.executed += 1;
        self.counts.acked += 1;
        self.ack_input(trees);
        self.end_call();
    }

    #[inline]
    fn end_call(&mut self) {
        self.next_call();
        if !self.staged.is_empty() {
            self.apply_staged();
        }
    }

    /// What comes next is another call; and whoever looks for one that does not come back sees that this one did.
    #[inline]
    fn next_call(&mut self) {
        self.execution.run.number += 1;
        // Only this thread writes it: no need for an atomic addition.
        self.settings.pulse.store(self.execution.pulse_base | self.execution.run.number, Ordering::Relaxed);
    }

    #[inline]
    fn ack_input(&mut self, trees: Option<&mut Trees>) {
        let Run { root, edge, xor, .. } = self.execution.run;
        if root.is_none() {
            return;
        }
        let xor = edge.bits() ^ xor;
        let effects = u32::from(self.settings.effects);
        let direct = trees.is_some_and(|trees| trees.ack(root, xor, u16::from(self.settings.effects)));
        if !direct && let Some(acks) = self.acks.get_mut(root.shard()) {
            acks.ack(root, xor, effects);
        }
        for place in &self.execution.further {
            ack_place(&mut self.acks, place, effects);
        }
    }

    #[cold]
    fn fail_misused(&mut self) {
        if let Some(error) = self.misuse.take() {
            self.fail_call(error);
        }
    }

    /// The call has failed: nothing of it becomes visible, and the trees of its input fail.
    #[cold]
    pub(crate) fn fail_call(&mut self, error: ComponentError) {
        self.counts.executed += 1;
        self.counts.failed += 1;
        self.misuse = None;
        let roots = self.input_roots();
        self.take_back();
        self.fail_trees(&roots, error);
    }

    fn input_roots(&self) -> Vec<RootId> {
        let further = self.execution.further.iter().map(|place| place.root);
        std::iter::once(self.execution.run.root).chain(further).filter(|root| !root.is_none()).collect()
    }

    /// The call has failed and had no input: nothing of it becomes visible.
    pub(crate) fn discard_call(&mut self) {
        self.misuse = None;
        self.take_back();
    }

    /// The call of an acking bolt has ended.
    pub(crate) fn settle(&mut self, fate: Fate) {
        if self.misuse.is_some() {
            return self.fail_misused();
        }
        match fate {
            Fate::Ack => self.succeed(None),
            // The call itself has succeeded: what it did to other inputs is in force.
            Fate::Fail(error) => {
                self.counts.executed += 1;
                self.counts.failed += 1;
                let roots = self.input_roots();
                self.fail_trees(&roots, error);
                self.end_call();
            }
            Fate::Hold(id) => {
                self.counts.executed += 1;
                let Execution { run, further, .. } = &self.execution;
                self.held.keep(id, std::iter::once(run.xor).chain(further.iter().map(|place| place.xor)));
                self.end_call();
            }
        }
    }

    /// Takes back what the call has emitted, held and written to stores; inputs held before that it acked or failed, fail.
    fn take_back(&mut self) {
        let number = self.execution.run.number;
        for lane in self.streams.iter_mut().flat_map(|s| &mut s.readers).flat_map(|r| &mut r.lanes) {
            lane.take_back(number);
        }
        self.stores.take_back(number);
        self.next_call();
        self.held.forget_not_kept();
        for staged in std::mem::take(&mut self.staged) {
            match staged {
                Staged::Emitted { id, .. } => self.held.take_back(id),
                Staged::Acked { id } => {
                    let error = ComponentError::new("acked by a call that failed");
                    self.fail_held(id, error);
                }
                Staged::Failed { id, error } => self.fail_held(id, error),
            }
        }
    }

    fn apply_staged(&mut self) {
        for staged in std::mem::take(&mut self.staged) {
            match staged {
                Staged::Emitted { id, index } => self.held.emitted(id, index),
                Staged::Acked { id } => self.ack_held(id),
                Staged::Failed { id, error } => self.fail_held(id, error),
            }
        }
    }

    fn ack_held(&mut self, id: u64) {
        let Some(HeldEntry { places, .. }) = self.held.remove(id) else { return };
        self.counts.acked += 1;
        let effects = u32::from(self.settings.effects);
        for place in &places {
            ack_place(&mut self.acks, place, effects);
        }
    }

    fn fail_held(&mut self, id: u64, error: ComponentError) {
        let Some(entry) = self.held.remove(id) else { return };
        self.counts.failed += 1;
        let roots: Vec<_> = entry.places.iter().map(|place| place.root).collect();
        self.fail_trees(&roots, error);
    }

    /// Fails everything that is held: the instance that held it is gone.
    pub(crate) fn fail_all_held(&mut self, message: &str) {
        for entry in self.held.take_all() {
            self.counts.failed += 1;
            let roots: Vec<_> = entry.places.iter().map(|place| place.root).collect();
            self.fail_trees(&roots, ComponentError::new(message));
        }
    }

    fn fail_trees(&mut self, roots: &[RootId], error: ComponentError) {
        for &root in roots {
            if let Some(acks) = self.acks.get_mut(root.shard()) {
                acks.fail(root, 0);
            }
            let (task, error) = (self.settings.task, error.clone());
            self.failures.push(TreeFailure { root, task, error });
        }
    }

    /// Sets the time that batches are stamped with.
    #[inline]
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.execution.run.now = now;
    }
}

fn ack_place(acks: &mut [AckBuffer], place: &Place, effects: u32) {
    if let Some(acks) = acks.get_mut(place.root.shard()) {
        acks.ack(place.root, place.edge.bits() ^ place.xor, effects);
    }
}
