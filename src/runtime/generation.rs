//! From a plan to executors: where every task stands, and the links between them.

use std::sync::{Arc, mpsc};

use super::{
    EngineOptions,
    error::EngineError,
    executor::{Command, Executor, ExecutorState, Limits, Report},
    keeper::Keeper,
    keeping::{Keeping, StoreHome},
    link::{Incoming, Outgoing, link},
    task::{Kind, Task, Ticks},
    vitals::Vitals,
    wake::Bed,
};
use crate::{
    ack::{Ledger, Timeouts},
    clock::Instant,
    metrics::Metrics,
    topology::{Companion, Factory, Output, OutputSettings, Plan, StorePlan, TaskPlan, Trees, Waker},
    tuple::{KeyGroups, TaskId},
};

/// Room for commands to an executor and for all reports. Each command of a commit waits for its report, so that there are
/// never more than a few and no send waits; but while stores are restored, whoever reads faster waits for whoever stores.
const MESSAGES: usize = 1024;

/// Every task has its executor and its place there.
#[derive(Clone, Debug)]
struct Placement {
    places: Arc<[(usize, usize)]>,
    executors: usize,
}

impl Placement {
    /// Spreads each component's tasks over the executors in turn, so that each executor has a part of every component
    /// and tuples can stay where they are.
    fn new(plan: &Plan, executors: usize) -> Self {
        let executors = executors.min(plan.task_count()).max(1);
        let mut hosted = vec![0; executors];
        let places = plan.tasks().map(|task| {
            let executor = task.index % executors;
            let index = hosted.get_mut(executor).map_or(0, |n: &mut usize| {
                *n += 1;
                *n - 1
            });
            (executor, index)
        });
        Self { places: places.collect(), executors }
    }

    fn executor_of(&self, task: TaskId) -> usize {
        self.places.get(task.index()).map_or(0, |place| place.0)
    }
}

/// One life of the topology: executors that have not run yet, and the ends of their channels.
pub(crate) struct Generation {
    pub(crate) executors: Vec<Executor>,
    pub(crate) companions: Vec<Box<dyn Companion>>,
    pub(crate) control: Controls,
}

/// What the supervisor has of a generation.
#[derive(Debug)]
pub(crate) struct Controls {
    pub(crate) commands: Vec<mpsc::SyncSender<Command>>,
    pub(crate) beds: Vec<Bed>,
    pub(crate) reports: mpsc::Receiver<Report>,
    pub(crate) report: mpsc::SyncSender<Report>,
    pub(crate) vitals: Arc<[Arc<Vitals>]>,
    /// For the conductor, if the stores are kept in a changelog.
    pub(crate) keeping: Option<Keeping>,
    /// The component of each task.
    pub(crate) names: Arc<[Arc<str>]>,
}

impl Controls {
    /// Tells every executor.
    pub(crate) fn broadcast(&self, command: &Command) {
        (0..self.commands.len()).for_each(|executor| self.tell(executor, command.clone()));
    }

    /// Tells one executor.
    pub(crate) fn tell(&self, executor: usize, command: Command) {
        let (Some(commands), Some(bed)) = (self.commands.get(executor), self.beds.get(executor)) else { return };
        if commands.send(command).is_ok() {
            bed.wake();
        }
        // Otherwise the executor has ended, and has said so.
    }
}

impl Generation {
    /// Makes every task of the plan, opens and prepares it.
    pub(crate) fn new(
        plan: &Plan,
        options: &EngineOptions,
        metrics: &Metrics,
        now: Instant,
    ) -> Result<Self, EngineError> {
        let placement = Placement::new(plan, options.executors.get());
        let n = placement.executors;
        let beds: Vec<_> = (0..n).map(|_| Bed::default()).collect();
        let vitals: Arc<[Arc<Vitals>]> = (0..n).map(|_| Arc::default()).collect();
        let names: Arc<[Arc<str>]> = plan.tasks().map(|t| Arc::clone(&t.component.name)).collect();
        let (report, reports) = mpsc::sync_channel(MESSAGES);
        let mut commands = Vec::with_capacity(n);
        let mut executors = Vec::with_capacity(n);
        for ((shard, own), (outgoing, incoming)) in vitals.iter().enumerate().zip(links(&beds)) {
            let (command, receiver) = mpsc::sync_channel(MESSAGES);
            commands.push(command);
            executors.push(Executor {
                shard,
                tasks: Vec::new(),
                places: Arc::clone(&placement.places),
                incoming,
                outgoing,
                trees: trees(shard, options, now),
                tracked: options.delivery.is_tracked(),
                vitals: Arc::clone(&vitals),
                own: Arc::clone(own),
                commands: receiver,
                reports: report.clone(),
                limits: Limits {
                    spout_batch: options.spout_batch,
                    max_pending: options.max_pending,
                    flush_interval: options.flush_interval,
                },
                names: Arc::clone(&names),
                keeps: options.changelog.is_some() && !plan.stores.is_empty(),
                state: ExecutorState::default(),
            });
        }
        let mut companions: Vec<Box<dyn Companion>> = Vec::new();
        let mut keeping = None;
        if let Some((keeper, of_conductor)) = keep(plan, options, &placement, &report)? {
            companions.push(Box::new(keeper));
            keeping = Some(of_conductor);
        }
        let control = Controls { commands, beds, reports, report, vitals, keeping, names };
        let mut generation = Self { executors, companions, control };
        for task in plan.tasks() {
            generation.host(plan, task, options, (metrics, &placement, now))?;
        }
        Ok(generation)
    }

    fn host(
        &mut self,
        plan: &Plan,
        planned: TaskPlan<'_>,
        options: &EngineOptions,
        (metrics, placement, now): (&Metrics, &Placement, Instant),
    ) -> Result<(), EngineError> {
        let component = planned.component;
        let executor = placement.executor_of(planned.task);
        let settings = OutputSettings {
            task: planned.task,
            batch_rows: options.batch_rows,
            effects: component.effects,
            lineage: plan.wants_lineage(),
            pulse: self.control.vitals.get(executor).map(|v| Arc::clone(&v.pulse)).unwrap_or_default(),
        };
        let streams = plan.output_streams(planned, |to| placement.executor_of(to) == executor);
        let mut output = Output::new(streams, placement.executors, settings);
        output.open_stores(plan.task_stores(planned));
        let mut context = plan.context(planned, options.delivery);
        if let Some(bed) = self.control.beds.get(executor).cloned() {
            context.waker = Waker::new(move || bed.wake());
        }
        let name = &*component.name;
        let emitted = context.outputs.iter().map(|s| metrics.emitted(name, &s.name)).collect();
        let trees = matches!(component.factory, Factory::Spout(_)).then(|| metrics.trees(name));
        let handles = (metrics.component(name), emitted, trees);
        handles.0.tasks.set(component.tasks.into());
        let mut task = Task::new(planned.task, context, component.factory.clone(), output, handles)?;
        task.depth = component.depth;
        task.ticks = component.tick.map(|every| Ticks { every, next: now + every });
        if let Kind::Spout(spout) = &mut task.kind {
            self.companions.extend(spout.spout.companion());
        }
        if let Some(executor) = self.executors.get_mut(executor) {
            executor.tasks.push(task);
        }
        Ok(())
    }
}

/// The two ends of the changelog, if the topology has stores and somebody keeps them.
fn keep(
    plan: &Plan,
    options: &EngineOptions,
    placement: &Placement,
    report: &mpsc::SyncSender<Report>,
) -> Result<Option<(Keeper, Keeping)>, EngineError> {
    let Some(factory) = options.changelog.as_ref().filter(|_| !plan.stores.is_empty()) else { return Ok(None) };
    let formats: Vec<_> = plan.stores.iter().map(|store| store.format.clone()).collect();
    let changelog = factory.make(&formats).map_err(|error| EngineError::component("changelog", error))?;
    let home = |store: &StorePlan| {
        let component = plan.components.get(store.component.index());
        let (tasks, first) = component.map_or((0, 0), |c| (c.tasks, c.first_task.0));
        let place = |task: u32| placement.places.get(task as usize).copied().unwrap_or_default();
        StoreHome {
            groups: KeyGroups::new(plan.key_groups, tasks),
            tasks: (first..first + u32::from(tasks)).map(place).collect(),
        }
    };
    let homes = plan.stores.iter().map(home).collect();
    let (orders, receiver) = mpsc::sync_channel(MESSAGES);
    let keeping = Keeping::new(orders, homes, placement.executors, options.delivery);
    Ok(Some((Keeper::new(changelog, receiver, report.clone()), keeping)))
}

/// The live trees of one executor. Without tracking there are none but those of flushes, which time out all the same.
fn trees(shard: usize, options: &EngineOptions, now: Instant) -> Trees {
    let shard = u16::try_from(shard).unwrap_or(u16::MAX);
    Trees::new(Ledger::new(shard, 1024), Some(Timeouts::new(options.tree_timeout, now)))
}

/// For each executor its outgoing links by executor, and its incoming ones.
fn links(beds: &[Bed]) -> Vec<(Vec<Option<Outgoing>>, Vec<Incoming>)> {
    let n = beds.len();
    let mut all: Vec<(Vec<Option<Outgoing>>, Vec<Incoming>)> =
        (0..n).map(|_| (Vec::with_capacity(n), Vec::with_capacity(n))).collect();
    for from in 0..n {
        for (to, bed) in beds.iter().enumerate() {
            if from == to {
                if let Some(own) = all.get_mut(from) {
                    own.0.push(None);
                }
                continue;
            }
            let (outgoing, incoming) = link(bed.clone());
            if let Some(sender) = all.get_mut(from) {
                sender.0.push(Some(outgoing));
            }
            if let Some(receiver) = all.get_mut(to) {
                receiver.1.push(incoming);
            }
        }
    }
    all
}
