//! A topology as the user declares it (Storm's `TopologyBuilder`): nothing fails before [`TopologyBuilder::build`].

use std::{marker::PhantomData, sync::Arc, time::Duration};

use super::{
    AckingBolt, Bolt, BuildErrors, ComponentPlan, EdgePlan, Factory, Grouping, Plan, Sink, Spout, StorePlan,
    StreamInfo,
    changelog::{StoreFormat, StoreId},
    validate::{self, Checked},
};
use crate::state::{KeyType, StateKey, StateValue, ValueType};
use crate::tuple::{ComponentId, KeyGroups, StreamId, TaskId};

/// The name of the stream that [`Declaration::fields`] declares.
pub const DEFAULT_STREAM: &str = "default";

/// Declares a topology: components, the streams that they emit, and who reads them (Storm's `TopologyBuilder`).
///
/// Components may be declared in any order. Every mistake is reported by [`TopologyBuilder::build`], all at once.
///
/// ```
/// use stormglass::topology::{Bolt, ComponentResult, Grouping, Output, TopologyBuilder};
/// use stormglass::tuple::Tuple;
///
/// struct Upper;
/// impl Bolt for Upper {
///     fn execute(&mut self, input: &Tuple<'_>, out: &mut Output) -> ComponentResult {
///         let text = input.str(0).unwrap_or_default().to_uppercase();
///         out.emit(&[text.as_str().into()]);
///         Ok(())
///     }
/// }
///
/// let mut t = TopologyBuilder::new("shout");
/// t.bolt("upper", || Upper).tasks(2).reads("lines", Grouping::Shuffle).fields(["text"]);
/// let errors = t.build().unwrap_err().to_string();
/// assert!(errors.contains("has no spout"));
/// assert!(errors.contains("reads \"lines\", which is not declared"));
/// ```
#[derive(Clone, Debug)]
pub struct TopologyBuilder {
    pub(super) name: String,
    pub(super) components: Vec<Declared>,
    pub(super) key_groups: u16,
}

/// A component as it was declared, right or wrong.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) factory: Factory,
    pub(super) tasks: u16,
    pub(super) streams: Vec<(String, Vec<String>)>,
    pub(super) reads: Vec<Read>,
    pub(super) tick: Option<Duration>,
    pub(super) stateful: bool,
    pub(super) stores: Vec<DeclaredStore>,
    pub(super) lineage: bool,
}

/// A store of a bolt.
#[derive(Clone, Debug)]
pub(crate) struct DeclaredStore {
    pub(crate) name: String,
    pub(crate) key: KeyType,
    pub(crate) value: ValueType,
}

impl DeclaredStore {
    pub(crate) fn new<K: StateKey, V: StateValue>(name: impl Into<String>) -> Self {
        Self { name: name.into(), key: K::key_type(), value: V::TYPE }
    }
}

/// A component reads a stream of another.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) component: String,
    pub(super) stream: String,
    pub(super) grouping: Grouping,
}

/// What is being declared, as a type: so that a spout has no `reads` and a sink no `fields`.
pub mod declared {
    /// A spout.
    #[derive(Debug)]
    pub enum SpoutKind {}
    /// A bolt, acking or not.
    #[derive(Debug)]
    pub enum BoltKind {}
    /// A sink.
    #[derive(Debug)]
    pub enum SinkKind {}

    /// Kinds that emit.
    pub trait Emits {}
    impl Emits for SpoutKind {}
    impl Emits for BoltKind {}

    /// Kinds that read.
    pub trait Reads {}
    impl Reads for BoltKind {}
    impl Reads for SinkKind {}
}

use declared::{BoltKind, Emits, Reads, SinkKind, SpoutKind};

/// One component in the course of being declared (Storm's `SpoutDeclarer`, `BoltDeclarer` and
/// `OutputFieldsDeclarer`).
#[derive(Debug)]
pub struct Declaration<'t, K> {
    component: &'t mut Declared,
    kind: PhantomData<K>,
}

impl TopologyBuilder {
    /// An empty topology. The name goes into consumer groups, topic and metric names: letters, digits, `-` and `_`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), components: Vec::new(), key_groups: KeyGroups::DEFAULT_COUNT }
    }

    /// The number of shards of keyed state, [`KeyGroups::DEFAULT_COUNT`] unless set here. It is fixed for the life of
    /// the app's state, and the most tasks that a component can have under a fields grouping.
    pub const fn key_groups(&mut self, count: u16) -> &mut Self {
        self.key_groups = count;
        self
    }

    /// Declares a spout with one task. `factory` is called for each task, and again after a restart.
    pub fn spout<T, F>(&mut self, name: impl Into<String>, factory: F) -> Declaration<'_, SpoutKind>
    where
        T: Spout + 'static,
        F: Fn() -> T + Send + Sync + 'static,
    {
        self.declare(name.into(), Factory::spout(factory))
    }

    /// Declares a bolt with one task whose inputs are acked when `execute` returns `Ok` (Storm's `IBasicBolt`).
    pub fn bolt<T, F>(&mut self, name: impl Into<String>, factory: F) -> Declaration<'_, BoltKind>
    where
        T: Bolt + 'static,
        F: Fn() -> T + Send + Sync + 'static,
    {
        self.declare(name.into(), Factory::bolt(factory))
    }

    /// Declares a bolt with one task that acks, fails or holds its inputs itself (Storm's `IRichBolt`).
    pub fn acking_bolt<T, F>(&mut self, name: impl Into<String>, factory: F) -> Declaration<'_, BoltKind>
    where
        T: AckingBolt + 'static,
        F: Fn() -> T + Send + Sync + 'static,
    {
        self.declare(name.into(), Factory::acking_bolt(factory))
    }

    /// Declares a sink with one task.
    pub fn sink<T, F>(&mut self, name: impl Into<String>, factory: F) -> Declaration<'_, SinkKind>
    where
        T: Sink + 'static,
        F: Fn() -> T + Send + Sync + 'static,
    {
        self.declare(name.into(), Factory::sink(factory))
    }

    /// Declares a component whose factory is at hand already, as a registry or a test kit has it. `K` is the kind that
    /// the factory makes.
    pub fn component<K>(&mut self, name: impl Into<String>, factory: Factory) -> Declaration<'_, K> {
        self.declare(name.into(), factory)
    }

    /// Gives a spout another factory, and one task. False if no spout has the name.
    pub(crate) fn replace_spout(&mut self, name: &str, factory: Factory) -> bool {
        let spout = self.components.iter_mut().find(|c| c.name == name && c.factory.kind() == "spout");
        let Some(spout) = spout else { return false };
        (spout.tasks, spout.factory) = (1, factory);
        true
    }

    fn declare<K>(&mut self, name: String, factory: Factory) -> Declaration<'_, K> {
        let component = Declared {
            name,
            factory,
            tasks: 1,
            streams: Vec::new(),
            reads: Vec::new(),
            tick: None,
            stateful: false,
            stores: Vec::new(),
            lineage: false,
        };
        Declaration { component: self.components.push_mut(component), kind: PhantomData }
    }

    /// Checks the topology and numbers its parts.
    ///
    /// # Errors
    /// Every mistake in it, each with what is wrong and what to do.
    pub fn build(&self) -> Result<Plan, BuildErrors> {
        let checked = validate::check(self)?;
        Ok(self.plan(&checked))
    }

    fn plan(&self, checked: &Checked) -> Plan {
        let streams = self.streams();
        let edges = self.edges(&streams);
        let mut plan = Plan {
            name: Arc::from(self.name.as_str()),
            components: Vec::with_capacity(self.components.len()),
            streams,
            edges,
            stores: Vec::new(),
            key_groups: self.key_groups,
        };
        let mut first_task = 0;
        for (declared, &depth) in self.components.iter().zip(&checked.depths) {
            let of_component = plan.streams.iter().filter(|s| s.component == declared.name);
            let first_store = plan.stores.len();
            let id = ComponentId(u32::try_from(plan.components.len()).unwrap_or(u32::MAX));
            let format = |store| StorePlan { component: id, format: self.store_format(declared, store) };
            plan.stores.extend(declared.stores.iter().map(format));
            plan.components.push(ComponentPlan {
                name: Arc::from(declared.name.as_str()),
                factory: declared.factory.clone(),
                tasks: declared.tasks,
                first_task: TaskId(first_task),
                outputs: of_component.map(|s| s.id).collect(),
                tick: declared.tick,
                stores: (first_store..plan.stores.len()).map(StoreId).collect(),
                stateful: declared.stateful,
                effects: self.has_effects(declared),
                depth,
                lineage: declared.lineage,
            });
            first_task += u32::from(declared.tasks);
        }
        plan
    }

    fn store_format(&self, component: &Declared, store: &DeclaredStore) -> StoreFormat {
        StoreFormat {
            component: component.name.clone(),
            store: store.name.clone(),
            key: store.key.to_string(),
            value: store.value.to_string(),
            key_groups: self.key_groups,
        }
    }

    fn streams(&self) -> Vec<StreamInfo> {
        let declared = self.components.iter().flat_map(|c| c.streams.iter().map(move |s| (c, s)));
        let numbered = (0..).map(StreamId).zip(declared);
        let info = numbered.map(|(id, (component, (name, fields)))| StreamInfo {
            id,
            component: component.name.clone(),
            name: name.clone(),
            fields: fields.clone(),
        });
        info.collect()
    }

    fn edges(&self, streams: &[StreamInfo]) -> Vec<EdgePlan> {
        let readers = (0..).map(ComponentId).zip(&self.components);
        let reads = readers.flat_map(|(reader, c)| c.reads.iter().map(move |read| (reader, read)));
        let edge = |(reader, read): (ComponentId, &Read)| {
            let stream = streams.iter().find(|s| s.component == read.component && s.name == read.stream)?;
            let position = |key: &String| stream.fields.iter().position(|f| f == key);
            Some(EdgePlan {
                stream: stream.id,
                reader,
                positions: read.grouping.key_fields().iter().filter_map(position).collect(),
                grouping: read.grouping.clone(),
            })
        };
        reads.filter_map(edge).collect()
    }

    /// The rule of [`ComponentPlan::effects`].
    fn has_effects(&self, component: &Declared) -> bool {
        let is_sink = |c: &Declared| matches!(c.factory, Factory::Sink(_));
        if self.components.iter().any(|c| c.stateful) {
            component.stateful
        } else if self.components.iter().any(is_sink) {
            is_sink(component)
        } else {
            component.factory.kind() == "bolt" && component.streams.is_empty()
        }
    }
}

impl<K> Declaration<'_, K> {
    /// How many tasks the component has, 1 unless said here. They are spread over the executors.
    pub const fn tasks(&mut self, tasks: u16) -> &mut Self {
        self.component.tasks = tasks;
        self
    }
}

impl<K: Emits> Declaration<'_, K> {
    /// Declares the stream called `default` with its fields (Storm's `declare`).
    pub fn fields<S: Into<String>>(&mut self, fields: impl IntoIterator<Item = S>) -> &mut Self {
        self.stream(DEFAULT_STREAM, fields)
    }

    /// Declares a stream with its fields (Storm's `declareStream`). The first one declared is the one that `emit`
    /// emits on; [`TaskContext::output`](super::TaskContext::output) finds the others.
    pub fn stream<S: Into<String>>(
        &mut self,
        name: impl Into<String>,
        fields: impl IntoIterator<Item = S>,
    ) -> &mut Self {
        let fields = fields.into_iter().map(Into::into).collect();
        self.component.streams.push((name.into(), fields));
        self
    }
}

impl<K: Reads> Declaration<'_, K> {
    /// Reads the stream called `default` of a component.
    pub fn reads(&mut self, component: impl Into<String>, grouping: Grouping) -> &mut Self {
        self.reads_stream(component, DEFAULT_STREAM, grouping)
    }

    /// Reads a stream of a component.
    pub fn reads_stream(
        &mut self,
        component: impl Into<String>,
        stream: impl Into<String>,
        grouping: Grouping,
    ) -> &mut Self {
        let read = Read { component: component.into(), stream: stream.into(), grouping };
        self.component.reads.push(read);
        self
    }
}

impl Declaration<'_, BoltKind> {
    /// Says that the bolt remembers something from tuple to tuple: a replay of what it has counted already is then a
    /// duplicate. Without it a bolt is taken to be stateless.
    pub const fn stateful(&mut self) -> &mut Self {
        self.component.stateful = true;
        self
    }

    /// Declares a store: what the bolt remembers, by keys `K` with values `V`. [`TaskContext::store`] finds it. Whoever
    /// has a store is stateful, and reads every input by fields grouping, so that a key has one task. Names are letters
    /// `a` to `z`, digits and `-`; the name and the types are fixed for the life of the app's state.
    ///
    /// [`TaskContext::store`]: super::TaskContext::store
    pub fn store<K: StateKey, V: StateValue>(&mut self, name: impl Into<String>) -> &mut Self {
        self.declare_store(DeclaredStore::new::<K, V>(name))
    }

    pub(crate) fn declare_store(&mut self, store: DeclaredStore) -> &mut Self {
        self.component.stateful = true;
        self.component.stores.push(store);
        self
    }

    /// Ticks the bolt at this interval (Storm's `topology.tick.tuple.freq.secs`); never, unless said here.
    pub const fn tick_every(&mut self, interval: Duration) -> &mut Self {
        self.component.tick = Some(interval);
        self
    }
}

impl Declaration<'_, SinkKind> {
    /// Says that the sink writes the lineage of its inputs, so that lineages are computed even where nothing is
    /// tracked.
    pub const fn writes_lineage(&mut self) -> &mut Self {
        self.component.lineage = true;
        self
    }
}
