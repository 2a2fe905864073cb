//! The course of a run: one generation of the engine, stepped in virtual time until its spouts have no more, then ticked
//! and committed once.

use std::{collections::BTreeMap, num::NonZeroUsize, time::Duration};

use super::{
    Violation, violation,
    watch::{Seen, Watch},
    watched::{MAX_POLLS, watched},
};
use crate::{
    metrics::Metrics,
    runtime::{EngineError, EngineOptions, Stepper},
    state::{Change, KeyType, ValueType},
    topology::{ComponentPlan, Factory, Plan, changelog::StoreFormat},
};

/// How hostile a run is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Schedule {
    /// Tuples in a batch: 1 makes every outbox one slot.
    pub(super) batch_rows: usize,
    /// Roots that a spout may emit at once.
    pub(super) budget: usize,
    /// Each tree is reported as timed out when it completes for the first time.
    pub(super) replay: bool,
    /// Each batch of a bolt meets a fresh instance, as after a panic.
    pub(super) fresh: bool,
}

impl Schedule {
    pub(super) const FRIENDLY: Self = Self { batch_rows: 256, budget: usize::MAX, replay: false, fresh: false };
}

/// Looks without any progress, each a stride apart, after which a run ends though trees are open.
const MAX_IDLE_LOOKS: usize = 100;
/// Where nothing says how long to wait.
const STRIDE: Duration = Duration::from_millis(1);
/// Commits and timeouts are this far away: the run itself says when to commit, and no tree times out.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// One run.
pub(super) struct Course<'p> {
    plan: &'p Plan,
    watch: Watch,
    metrics: Metrics,
    stepper: Stepper,
    /// The longest time between ticks of any component.
    tick: Option<Duration>,
}

/// What a component did, as far as the engine counts it, and what its stores hold, as text.
#[derive(Clone, Debug, Default)]
pub(super) struct Counted {
    pub(super) acked: u64,
    pub(super) failed: u64,
    pub(super) held: usize,
    pub(super) stores: BTreeMap<String, BTreeMap<String, String>>,
}

impl<'p> Course<'p> {
    /// Makes and starts every component, watched.
    pub(super) fn new(plan: &'p Plan, watch: &Watch, schedule: Schedule) -> Result<Self, Violation> {
        let mut hostile = plan.clone();
        for component in &mut hostile.components {
            component.factory = watched(&component.factory, watch, schedule);
        }
        let options = EngineOptions {
            executors: NonZeroUsize::MIN,
            batch_rows: schedule.batch_rows,
            spout_batch: schedule.budget,
            max_pending: usize::MAX,
            tree_timeout: NEVER,
            commit_interval: NEVER,
            ..EngineOptions::default()
        };
        let metrics = Metrics::new("").map_err(|error| violation("engine", &plan.name, &error.to_string()))?;
        let stepper = Stepper::new(&hostile, &options, &metrics).map_err(|error| match error {
            EngineError::Component { component, error } => {
                violation("1", &component, &format!("cannot start: {error}"))
            }
            other => violation("engine", &plan.name, &other.to_string()),
        })?;
        let tick = plan.components.iter().filter_map(|c| c.tick).max();
        Ok(Self { plan, watch: watch.clone(), metrics, stepper, tick })
    }

    /// Runs until the spouts have no more and every tree has ended, or nothing happens any more; ticks, commits, and
    /// closes. What was seen, and what was counted of each component, in the plan's order.
    pub(super) fn run(mut self) -> Result<(Seen, Vec<Counted>), Violation> {
        self.run_out()?;
        if let Some(tick) = self.tick {
            self.stepper.advance(tick);
            while !self.step()? {}
        }
        self.commit()?;
        let counted = self.plan.components.iter().map(|c| self.count(c)).collect();
        let stopped = self.stepper.stop();
        stopped.map_err(|error| self.broken(error))?;
        let seen = self.watch.seen().clone();
        Ok((seen, counted))
    }

    fn run_out(&mut self) -> Result<(), Violation> {
        let (mut idle, mut moves) = (0, 0);
        while idle < MAX_IDLE_LOOKS {
            if !self.step()? {
                continue;
            }
            if self.stepper.open_trees() == 0 && self.is_exhausted() {
                break;
            }
            idle = if self.stepper.moves() == moves { idle + 1 } else { 0 };
            moves = self.stepper.moves();
            let until = self.watch.seen().due.map(|due| due - self.stepper.now()).filter(|span| !span.is_zero());
            self.stepper.advance(until.or(self.tick).unwrap_or(STRIDE));
        }
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        let spouts = self.plan.components.iter().filter(|c| matches!(c.factory, Factory::Spout(_)));
        self.watch.seen().exhausted.len() == spouts.map(|c| usize::from(c.tasks)).sum::<usize>()
    }

    /// One commit, to its end.
    fn commit(&mut self) -> Result<(), Violation> {
        self.stepper.commit();
        // A sink that never counts down is found by its polls before this is over.
        for _ in 0..2 * MAX_POLLS {
            if self.stepper.commits() > 0 {
                return Ok(());
            }
            if self.step()? {
                self.stepper.advance(STRIDE);
            }
        }
        Err(violation("engine", &self.plan.name, "does not come to the end of a commit"))
    }

    /// One step; true if there was nothing to do.
    fn step(&mut self) -> Result<bool, Violation> {
        let stepped = self.stepper.step();
        if let Some(broken) = self.watch.seen().violation.clone() {
            return Err(broken);
        }
        match stepped {
            Ok(_) => Ok(self.stepper.is_idle()),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// An error that ends a generation breaks the contract of whoever made it.
    fn broken(&self, error: EngineError) -> Violation {
        let EngineError::Component { component, error } = error else {
            return violation("engine", &self.plan.name, &error.to_string());
        };
        let kind = self.plan.components.iter().find(|c| *c.name == component).map(|c| c.factory.kind());
        let contract = match kind {
            Some("spout") => "Spout 6",
            Some("sink") => "Sink 5",
            _ => "Bolt 5",
        };
        violation(contract, &component, &error.to_string())
    }

    fn count(&mut self, component: &ComponentPlan) -> Counted {
        let name = &*component.name;
        if matches!(component.factory, Factory::Spout(_)) {
            let trees = self.metrics.trees(name);
            let failed = trees.failed.get() + trees.timed_out.get();
            return Counted { acked: trees.acked.get(), failed, ..Counted::default() };
        }
        let of = self.metrics.component(name);
        let (held, stores) = (self.stepper.held(name), self.stores(component));
        Counted { acked: of.acked.get(), failed: of.failed.get(), held, stores }
    }

    fn stores(&mut self, component: &ComponentPlan) -> BTreeMap<String, BTreeMap<String, String>> {
        let formats = component.stores.iter().filter_map(|id| Some((*id, &self.plan.stores.get(id.0)?.format)));
        let formats: Vec<_> = formats.collect();
        let mut stores: BTreeMap<_, _> = formats.iter().map(|(_, of)| (of.store.clone(), BTreeMap::new())).collect();
        self.stepper.scan_stores(&component.name, |id, entry| {
            let format = formats.iter().find(|(of, _)| *of == id).map(|(_, format)| format);
            let Some((format, text)) = format.and_then(|format| Some((format, as_text(format, entry)?))) else {
                return;
            };
            stores.entry(format.store.clone()).or_default().extend([text]);
        });
        stores
    }
}

/// An entry as text; `None` if it is not of the store's types, which the store itself has encoded.
fn as_text(format: &StoreFormat, entry: Change<'_>) -> Option<(String, String)> {
    let (key, value): (KeyType, ValueType) = (format.key.parse().ok()?, format.value.parse().ok()?);
    Some((key.print(entry.key).ok()?, value.print(entry.value?).ok()?))
}
