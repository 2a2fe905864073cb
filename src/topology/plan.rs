//! A checked topology: names are indexes, and every task knows its place. What the runtime and `graph` get.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    AckingBolt, Bolt, Delivery, Grouping, Lane, Reader, Router, Sink, Spout, Stream, StreamInfo, TaskContext,
    TaskStores, Waker,
    changelog::{StoreFormat, StoreId},
};
use crate::state::MemoryStore;
use crate::tuple::{ComponentId, KeyGroups, StreamId, TaskId};

/// Makes an instance of a component, one for each task, and a new one after a panic or a restart.
#[derive(Clone)]
pub enum Factory {
    /// A source.
    Spout(Arc<dyn Fn() -> Box<dyn Spout> + Send + Sync>),
    /// A bolt whose inputs are acked for it.
    Bolt(Arc<dyn Fn() -> Box<dyn Bolt> + Send + Sync>),
    /// A bolt that acks its inputs itself.
    AckingBolt(Arc<dyn Fn() -> Box<dyn AckingBolt> + Send + Sync>),
    /// An end.
    Sink(Arc<dyn Fn() -> Box<dyn Sink> + Send + Sync>),
}

impl Factory {
    /// Of a spout.
    pub fn spout<T: Spout + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::Spout(Arc::new(move || Box::new(make())))
    }

    /// Of a bolt.
    pub fn bolt<T: Bolt + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::Bolt(Arc::new(move || Box::new(make())))
    }

    /// Of an acking bolt.
    pub fn acking_bolt<T: AckingBolt + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::AckingBolt(Arc::new(move || Box::new(make())))
    }

    /// Of a sink.
    pub fn sink<T: Sink + 'static>(make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self::Sink(Arc::new(move || Box::new(make())))
    }

    /// `spout`, `bolt` or `sink`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Spout(_) => "spout",
            Self::Bolt(_) | Self::AckingBolt(_) => "bolt",
            Self::Sink(_) => "sink",
        }
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// A component of a checked topology.
#[derive(Clone, Debug)]
pub struct ComponentPlan {
    /// The user's name for it; stores, metrics and dead letters are named after it.
    pub name: Arc<str>,
    /// Makes its instances.
    pub factory: Factory,
    /// How many tasks it has.
    pub tasks: u16,
    /// The first of its tasks; the others follow.
    pub first_task: TaskId,
    /// The streams that it emits, in the order of declaration.
    pub outputs: Vec<StreamId>,
    /// Time between ticks, `None` for no ticks.
    pub tick: Option<Duration>,
    /// The stores that it declares, in the order of declaration.
    pub stores: Vec<StoreId>,
    /// True if it remembers something from tuple to tuple, in a store or otherwise.
    pub stateful: bool,
    /// True if its executions have an effect that a replay would repeat visibly: stateful bolts if there are any, else
    /// sinks, else bolts that emit nothing. `duplicates` counts the repeats of these.
    pub effects: bool,
    /// The longest way from a spout, in edges. Flushes go in this order.
    pub depth: usize,
    /// True for a sink that writes lineages.
    pub lineage: bool,
}

/// A component reads a stream.
#[derive(Clone, Debug)]
pub struct EdgePlan {
    /// What is read.
    pub stream: StreamId,
    /// Who reads it.
    pub reader: ComponentId,
    /// How tuples are spread over the reader's tasks.
    pub grouping: Grouping,
    /// The positions of the grouping's key fields in the stream.
    pub positions: Vec<usize>,
}

/// A store of a checked topology.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorePlan {
    /// The bolt that owns it.
    pub component: ComponentId,
    /// What its changelog must know of it.
    pub format: StoreFormat,
}

/// A checked topology. Made by [`TopologyBuilder::build`](super::TopologyBuilder::build).
#[derive(Clone, Debug)]
pub struct Plan {
    /// The topology's name.
    pub name: Arc<str>,
    /// Components, indexed by [`ComponentId`], in the order of declaration.
    pub components: Vec<ComponentPlan>,
    /// Streams, indexed by [`StreamId`].
    pub streams: Vec<StreamInfo>,
    /// Who reads what.
    pub edges: Vec<EdgePlan>,
    /// Every store of every component, indexed by [`StoreId`], in the order of declaration.
    pub stores: Vec<StorePlan>,
    /// Fixed number of shards of keyed state.
    pub key_groups: u16,
}

/// A task's component and place.
#[derive(Copy, Clone, Debug)]
pub struct TaskPlan<'a> {
    /// The task.
    pub task: TaskId,
    /// Its component.
    pub component: &'a ComponentPlan,
    /// The component's number.
    pub id: ComponentId,
    /// The task's place among the component's tasks, from 0.
    pub index: usize,
}

impl Plan {
    /// Every task, in the order of [`TaskId`].
    pub fn tasks(&self) -> impl Iterator<Item = TaskPlan<'_>> {
        let components = (0..).map(ComponentId).zip(&self.components);
        components.flat_map(|(id, component)| {
            (0..u32::from(component.tasks)).map(move |index| TaskPlan {
                task: TaskId(component.first_task.0 + index),
                component,
                id,
                index: index as usize,
            })
        })
    }

    /// Number of tasks.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.components.iter().map(|c| usize::from(c.tasks)).sum()
    }

    /// The longest way through the topology, in edges.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.components.iter().map(|c| c.depth).max().unwrap_or(0)
    }

    /// True if some sink writes lineages.
    #[must_use]
    pub fn wants_lineage(&self) -> bool {
        self.components.iter().any(|c| c.lineage)
    }

    /// Edges that read one of `component`'s streams or, with `reader`, that it reads.
    pub fn inputs(&self, component: ComponentId) -> impl Iterator<Item = &EdgePlan> {
        self.edges.iter().filter(move |edge| edge.reader == component)
    }

    /// What a task is told about itself.
    #[must_use]
    pub fn context(&self, task: TaskPlan<'_>, delivery: Delivery) -> TaskContext {
        let info = |id: &StreamId| self.streams.get(id.index()).cloned();
        let mut inputs: Vec<_> = self.inputs(task.id).map(|edge| edge.stream).collect();
        inputs.dedup();
        let stores = task.component.stores.iter().filter_map(|id| self.stores.get(id.0));
        TaskContext {
            topology: Arc::clone(&self.name),
            component: Arc::clone(&task.component.name),
            index: task.index,
            tasks: task.component.tasks.into(),
            delivery,
            inputs: inputs.iter().filter_map(info).collect(),
            outputs: task.component.outputs.iter().filter_map(info).collect(),
            stores: stores.map(|store| store.format.clone()).collect(),
            waker: Waker::default(),
        }
    }

    /// A task's stores, empty.
    pub(crate) fn task_stores(&self, task: TaskPlan<'_>) -> TaskStores {
        let groups = KeyGroups::new(self.key_groups, task.component.tasks);
        let own = groups.owned_by(task.index);
        let mut stores = TaskStores::new(groups, own);
        for id in &task.component.stores {
            if let Some(store) = self.stores.get(id.0) {
                stores.open(*id, &store.format.store, Box::new(MemoryStore::new()));
            }
        }
        stores
    }

    /// A task's streams with their readers; `local` says whether a reading task is on the same executor.
    pub(crate) fn output_streams(&self, task: TaskPlan<'_>, local: impl Fn(TaskId) -> bool) -> Vec<Stream> {
        let stream = |id: &StreamId| {
            let info = self.streams.get(id.index())?;
            let readers = self.edges.iter().filter(|edge| edge.stream == *id);
            Some(Stream {
                name: info.name.clone(),
                width: info.fields.len(),
                readers: readers.filter_map(|edge| self.reader(edge, task, info, &local)).collect(),
            })
        };
        task.component.outputs.iter().filter_map(stream).collect()
    }

    fn reader(
        &self,
        edge: &EdgePlan,
        emitter: TaskPlan<'_>,
        stream: &StreamInfo,
        local: &impl Fn(TaskId) -> bool,
    ) -> Option<Reader> {
        let component = self.components.get(edge.reader.index())?;
        let first = component.first_task.0;
        let tasks = (first..first + u32::from(component.tasks)).map(TaskId);
        let lanes: Vec<_> = tasks.clone().map(|task| Lane::new(stream.id, task, stream.fields.len())).collect();
        let here = tasks.enumerate().filter(|(_, task)| local(*task)).map(|(lane, _)| lane).collect();
        let groups = KeyGroups::new(self.key_groups, component.tasks);
        let positions = edge.positions.clone();
        let mut router = Router::new(&edge.grouping, positions, lanes.len(), here, &groups);
        router.start_turn_at(emitter.index);
        Some(Reader { router, lanes })
    }
}
