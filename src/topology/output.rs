//! What a component emits into (Storm's `OutputCollector`).

use std::sync::{Arc, atomic::AtomicU64};

use super::{
    ComponentError, OutStream,
    execution::{Execution, TreeFailure},
    grouping::{Choice, Router},
    held::{Held, HeldTable},
    lane::{Lane, Outbox},
    stores::TaskStores,
};
use crate::{
    ack::AckBuffer,
    tuple::{BatchFull, KeyHash, TaskId, Value},
};

/// A task's way out. Emitting never blocks, and nothing emitted is visible before the call that emitted it has returned
/// `Ok`.
#[derive(Debug)]
pub struct Output {
    pub(super) streams: Vec<Stream>,
    pub(super) execution: Execution,
    pub(super) outbox: Outbox,
    pub(super) held: HeldTable,
    pub(super) stores: TaskStores,
    /// What the present call has done to held inputs: in force when it succeeds.
    pub(super) staged: Vec<Staged>,
    /// Acks on their way to each executor's ledger.
    pub(super) acks: Vec<AckBuffer>,
    pub(super) failures: Vec<TreeFailure>,
    /// A mistake of the present call in emitting: fails its input.
    pub(super) misuse: Option<ComponentError>,
    /// Scratch for custom groupings.
    listed: Vec<usize>,
    pub(super) settings: OutputSettings,
    pub(super) counts: OutputCounts,
}

/// How a task's output behaves.
#[derive(Clone, Debug)]
pub(crate) struct OutputSettings {
    pub(crate) task: TaskId,
    /// Tuples at which a batch is sent.
    pub(crate) batch_rows: usize,
    /// True if an execution of this component has an effect that a replay would repeat visibly.
    pub(crate) effects: bool,
    /// True if some sink writes lineages, so that edges are needed even without tracking.
    pub(crate) lineage: bool,
    /// Counts finished calls, for whoever watches for one that hangs.
    pub(crate) pulse: Arc<AtomicU64>,
}

/// What became of a task's inputs since the last look.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct OutputCounts {
    pub(crate) executed: u64,
    pub(crate) acked: u64,
    pub(crate) failed: u64,
}

/// One output stream and the components that read it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) name: String,
    pub(crate) width: usize,
    pub(crate) readers: Vec<Reader>,
}

/// One component that reads a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) router: Router,
    pub(crate) lanes: Vec<Lane>,
}

/// What a call has done to a held input.
#[derive(Debug)]
pub(super) enum Staged {
    Emitted { id: u64, index: u32 },
    Acked { id: u64 },
    Failed { id: u64, error: ComponentError },
}

impl Output {
    pub(crate) fn new(streams: Vec<Stream>, shards: usize, settings: OutputSettings) -> Self {
        Self {
            streams,
            execution: Execution::new(&settings),
            outbox: Outbox::default(),
            held: HeldTable::default(),
            stores: TaskStores::none(),
            staged: Vec::new(),
            acks: (0..shards).map(|_| AckBuffer::default()).collect(),
            failures: Vec::new(),
            misuse: None,
            listed: Vec::new(),
            settings,
            counts: OutputCounts::default(),
        }
    }

    /// Emits on the first declared stream, anchored to the input.
    #[expect(clippy::inline_always, reason = "see emit_on")]
    #[inline(always)]
    pub fn emit(&mut self, values: &[Value<'_>]) {
        self.emit_on(OutStream::DEFAULT, values);
    }

    /// Emits on a stream, anchored to the input. There must be as many values as the stream has fields: anything else
    /// fails the input.
    #[expect(clippy::inline_always, reason = "the values' kinds are known here and nowhere below")]
    #[inline(always)]
    pub fn emit_on(&mut self, stream: OutStream, values: &[Value<'_>]) {
        let Self { streams, listed, execution, outbox, misuse, .. } = self;
        let Some(stream) = checked(streams, stream, values, misuse) else { return };
        for Reader { router, lanes } in &mut stream.readers {
            let choice = router.choose(values, lanes.len(), listed);
            if let Choice::One(lane, key) = choice
                && let Some(lane) = lanes.get_mut(lane)
            {
                if execution.send(lane, key, values, outbox).is_err() {
                    too_large(misuse);
                }
            } else {
                route_to_several(lanes, choice, listed, misuse, |lane| {
                    execution.send_cold(lane, KeyHash(0), values, outbox)
                });
            }
        }
    }

    /// Emits outside every tree: nobody waits for it and nobody replays it.
    pub fn emit_unanchored(&mut self, stream: OutStream, values: &[Value<'_>]) {
        let Self { streams, listed, execution, outbox, misuse, .. } = self;
        let Some(stream) = checked(streams, stream, values, misuse) else { return };
        for reader in &mut stream.readers {
            reader.route(values, listed, misuse, |lane, key| execution.send_unanchored(lane, key, values, outbox));
        }
    }

    /// Emits anchored to held inputs: the tuple belongs to the trees of all of them.
    pub fn emit_anchored(&mut self, stream: OutStream, anchors: &[&Held], values: &[Value<'_>]) {
        let Self { streams, listed, execution, outbox, misuse, held, staged, .. } = self;
        let Some(stream) = checked(streams, stream, values, misuse) else { return };
        for reader in &mut stream.readers {
            reader.route(values, listed, misuse, |lane, key| {
                let places = held.descend(anchors, |id, index| {
                    staged.push(Staged::Emitted { id, index });
                });
                execution.send_to_places(lane, key, values, &places, outbox)
            });
        }
    }

    /// Emits to one task of the components that read the stream with the direct grouping, anchored to the input. `task`
    /// counts from 0 within each of them.
    pub fn emit_direct(&mut self, stream: OutStream, task: usize, values: &[Value<'_>]) {
        let Self { streams, execution, outbox, misuse, .. } = self;
        let Some(stream) = checked(streams, stream, values, misuse) else { return };
        for reader in stream.readers.iter_mut().filter(|r| matches!(r.router, Router::Direct)) {
            let tasks = reader.lanes.len();
            match reader.lanes.get_mut(task) {
                Some(lane) => {
                    if execution.send(lane, KeyHash(0), values, outbox).is_err() {
                        too_large(misuse);
                    }
                }
                None => no_such_task(misuse, task, tasks),
            }
        }
    }

    /// Acks a held input, if this call succeeds.
    pub fn ack(&mut self, held: Held) {
        self.staged.push(Staged::Acked { id: held.into_id() });
    }

    /// Fails the trees of a held input, whether this call succeeds or not.
    pub fn fail(&mut self, held: Held, error: ComponentError) {
        self.staged.push(Staged::Failed { id: held.into_id(), error });
    }

    /// Says that a held input is still being worked on: its trees' timeouts start again (Storm's `resetTimeout`).
    pub fn touch(&mut self, held: &Held) {
        let Some(entry) = self.held.get_mut(held.id()) else { return };
        for place in &entry.places {
            if let Some(acks) = self.acks.get_mut(place.root.shard()) {
                acks.touch(place.root);
            }
        }
    }

    /// Inputs that this task holds.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.held.len()
    }
}

impl Reader {
    /// Sends to the lanes that the grouping chooses.
    fn route(
        &mut self,
        values: &[Value<'_>],
        listed: &mut Vec<usize>,
        misuse: &mut Option<ComponentError>,
        mut send: impl FnMut(&mut Lane, KeyHash) -> Result<(), BatchFull>,
    ) {
        let choice = self.router.choose(values, self.lanes.len(), listed);
        if let Choice::One(lane, key) = choice
            && let Some(lane) = self.lanes.get_mut(lane)
        {
            if send(lane, key).is_err() {
                too_large(misuse);
            }
            return;
        }
        route_to_several(&mut self.lanes, choice, listed, misuse, |lane| send(lane, KeyHash(0)));
    }
}

#[cold]
fn route_to_several(
    lanes: &mut [Lane],
    choice: Choice,
    listed: &[usize],
    misuse: &mut Option<ComponentError>,
    mut send: impl FnMut(&mut Lane) -> Result<(), BatchFull>,
) {
    let tasks = lanes.len();
    let mut send_to = |lane: Option<&mut Lane>, at: usize| match lane {
        Some(lane) => {
            if send(lane).is_err() {
                too_large(misuse);
            }
        }
        None => no_such_task(misuse, at, tasks),
    };
    match choice {
        Choice::Nowhere => {}
        Choice::One(at, _) => send_to(None, at),
        Choice::Every => lanes.iter_mut().enumerate().for_each(|(at, lane)| send_to(Some(lane), at)),
        Choice::Listed => listed.iter().for_each(|&at| send_to(lanes.get_mut(at), at)),
    }
}

/// The stream, if it is declared and the values fit it.
#[inline]
fn checked<'s>(
    streams: &'s mut [Stream],
    stream: OutStream,
    values: &[Value<'_>],
    misuse: &mut Option<ComponentError>,
) -> Option<&'s mut Stream> {
    if streams.get(stream.0).is_none_or(|s| s.width != values.len()) {
        wrong_stream(streams.get(stream.0), values.len(), misuse);
        return None;
    }
    streams.get_mut(stream.0)
}

#[cold]
fn wrong_stream(stream: Option<&Stream>, values: usize, misuse: &mut Option<ComponentError>) {
    *misuse = Some(ComponentError::permanent(match stream {
        None => "emitted on a stream that the component does not declare".to_owned(),
        Some(stream) => {
            format!("emitted {values} values on stream \"{}\", which declares {} fields", stream.name, stream.width)
        }
    }));
}

#[cold]
pub(super) fn too_large(misuse: &mut Option<ComponentError>) {
    let limit = BatchFull;
    *misuse = Some(ComponentError::permanent(format!("emitted too much in one call: {limit}")));
}

#[cold]
fn no_such_task(misuse: &mut Option<ComponentError>, task: usize, tasks: usize) {
    *misuse = Some(ComponentError::permanent(format!(
        "emitted to task {task} of a component that has {tasks} (they count from 0)"
    )));
}
