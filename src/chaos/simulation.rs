//! One run: processes, broker and network under one clock and on one thread. What is due first happens first; where two are
//! due at once, the lower number goes first, and times are drawn so that this is rare.

mod striking;

use std::{collections::VecDeque, time::Duration};

use super::{
    bites::Bites,
    clients::{Author, Row, encode},
    dice::Dice,
    host::HostId,
    log::Log,
    network::Network,
    oracle::Oracle,
    pipeline::{LETTERS, LINES, Make, SESSION, WORDS},
    plan::{Planned, Scope, draw},
    process::{Fate, Process, Setting, Told},
    substitutes::Substitutes,
    view::{append, create_topic},
    words::push_line,
};
use crate::{
    broker::core::{BrokerOptions, GroupOptions},
    clock::{Clock, Instant},
    metrics::Metrics,
    runtime::EngineError,
};

/// Milliseconds since 1970 at which every run begins.
const EPOCH_MS: i64 = 1_700_000_000_000;
/// How long things go wrong for, and how long what goes wrong last may last.
const TROUBLE: Duration = Duration::from_secs(20);
const LAST_TROUBLE: Duration = Duration::from_secs(10);
/// When nothing more goes wrong, and everything is fed.
const TROUBLE_ENDS: Instant = Instant::from_nanos((TROUBLE.as_secs() + LAST_TROUBLE.as_secs()) * 1_000_000_000);
/// Within so long after that everything is done.
const BOUND: Duration = Duration::from_secs(60);
/// How long a supervisor outside waits before it starts a process that has ended by itself.
const START_AGAIN: Duration = Duration::from_millis(500);
/// The most that one call of the plan appends.
const BATCH: u64 = 60;

/// What a run is made of; the same values make the same run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Everything is drawn from it.
    pub seed: u64,
    /// Records that are fed in. Default 2,000.
    pub records: u32,
    /// Faults. Default 20.
    pub faults: usize,
    /// The faults, instead of drawn ones.
    pub plan: Option<Vec<Planned>>,
    /// Keeps the log.
    pub trace: bool,
    /// Parts of the processes that others stand for.
    pub substitutes: Substitutes,
    /// Whether processes have stores; `None`: drawn.
    pub stores: Option<bool>,
}

impl RunOptions {
    /// The run of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            records: 2_000,
            faults: 20,
            plan: None,
            trace: false,
            substitutes: Substitutes::default(),
            stores: None,
        }
    }
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was found wrong; `None`: nothing.
    pub failure: Option<String>,
    /// The faults.
    pub plan: Vec<Planned>,
    /// What happened, if it was kept.
    pub log: String,
    /// Differs where two runs differ.
    pub fingerprint: u64,
    /// Virtual time that passed.
    pub took: Duration,
    /// Records that arrived more than once, and all.
    pub duplicates: (u64, u64),
    /// Repeats that the processes counted themselves, if nothing was repeated that they cannot know of.
    pub counted: Option<u64>,
    /// What has gone wrong so that it could be noticed.
    pub bites: Bites,
    /// Lives of processes.
    pub lives: u32,
    /// Steps of parts of processes.
    pub steps: u64,
}

/// A place for a process.
struct Slot {
    process: Option<Process>,
    start_at: Instant,
    /// How long it is down after its death.
    down: Duration,
    /// It was asked to stop.
    stopping: bool,
}

/// A run that goes on.
struct Simulation {
    setting: Setting,
    log: Log,
    dice: Dice,
    slots: Vec<Slot>,
    /// Processes whose place was taken while they stood still.
    ousted: Vec<Process>,
    plan: Vec<Planned>,
    coming: VecDeque<Planned>,
    oracle: Oracle,
    partitions: i32,
    records: u32,
    fed: u32,
    feed_at: Instant,
    look_at: Instant,
    ending: bool,
    hosts: u32,
    steps: u64,
    calm: bool,
    /// By lives that are over.
    told: Told,
    /// Lives that have ended otherwise than by a stop.
    died: u64,
    bites: Bites,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation").field("fed", &self.fed).finish_non_exhaustive()
    }
}

/// Runs to the end.
#[must_use]
pub fn run(options: &RunOptions) -> Verdict {
    let mut simulation = Simulation::new(options);
    let failure = simulation.run().err();
    let counted = simulation.counted();
    let Simulation { setting, log, plan, oracle, hosts, steps, mut bites, told, .. } = simulation;
    bites.note("Bolts", told.struck > 0);
    bites.add(&setting.network.bites());
    Verdict {
        failure,
        plan,
        log: log.text(),
        fingerprint: log.fingerprint(),
        took: setting.clock.now() - Instant::ZERO,
        duplicates: oracle.duplicates(),
        counted,
        bites,
        lives: hosts,
        steps,
    }
}

impl Simulation {
    /// A run that has not begun.
    fn new(options: &RunOptions) -> Self {
        let mut scene = Dice::new(options.seed, 1);
        let stores = options.stores.unwrap_or_else(|| scene.once_in(2));
        let processes = if stores { 1 } else { 1 + scene.below(3) };
        let executors = 1 + scene.below(3);
        let pick = |scene: &mut Dice, from: &[usize]| from.get(scene.below(from.len())).copied().unwrap_or(1);
        let (is_static, cooperative) = (stores || scene.once_in(2), scene.once_in(2));
        let make = Make {
            stores,
            is_static,
            // A static member that is started again between the two rounds of a cooperative rebalance gets the partitions of
            // the first, and the second does not come: what was to move is nobody's.
            cooperative: cooperative && !(is_static && processes > 1),
            executors,
            commit_interval: Duration::from_millis(scene.between(20, 300)),
            max_pending: pick(&mut scene, &[16, 64, 256, 1024]),
            batch_rows: pick(&mut scene, &[1, 4, 32, 256]),
            spout_batch: pick(&mut scene, &[1, 8, 64]),
        };
        let scope =
            Scope { processes, executors, faults: options.faults, span: TROUBLE, stores, is_static: make.is_static };
        let plan = options.plan.clone().unwrap_or_else(|| draw(&mut Dice::new(options.seed, 2), &scope));
        let (clock, log) = (Clock::manual(), Log::new(options.trace));
        // Shorter sessions than Kafka allows: the time between two faults is short too.
        let groups = GroupOptions { min_session_timeout: SESSION, ..GroupOptions::default() };
        let broker = BrokerOptions { epoch_ms: EPOCH_MS, seed: options.seed, groups, ..BrokerOptions::default() };
        let network = Network::new(broker, clock.clone(), Dice::new(options.seed, 3), log.clone());
        let partitions = 1 + i32::try_from(scene.below(6)).unwrap_or(0);
        for (topic, partitions) in [(LINES, partitions), (WORDS, 3), (LETTERS, 1)] {
            create_topic(&network, topic, partitions);
        }
        log.say(Instant::ZERO, format_args!("{processes} processes, {partitions} partitions: {make:?}"));
        let place = |n: u64| {
            let start_at = Instant::from_nanos(n * 1_000_000);
            Slot { process: None, start_at, down: Duration::ZERO, stopping: false }
        };
        let substitutes = options.substitutes.clone();
        let late = plan.iter().any(|planned| planned.fault.holds_requests_back());
        Self {
            oracle: Oracle::new(network.clone(), options.records, stores, late),
            setting: Setting { make, network, clock, epoch_ms: EPOCH_MS, metrics: Metrics::new("").ok(), substitutes },
            log,
            dice: Dice::new(options.seed, 4),
            slots: (0..processes as u64).map(place).collect(),
            ousted: Vec::new(),
            calm: plan.iter().all(|planned| planned.fault.is_orderly()),
            coming: plan.iter().cloned().collect(),
            plan,
            partitions,
            records: options.records,
            fed: 0,
            feed_at: Instant::ZERO,
            look_at: Instant::ZERO,
            ending: false,
            hosts: 0,
            steps: 0,
            told: Told::default(),
            died: 0,
            bites: Bites::default(),
        }
    }

    /// Steps until everything is done, or is not done in time.
    fn run(&mut self) -> Result<(), String> {
        let deadline = TROUBLE_ENDS + BOUND;
        let mut woken = Vec::new();
        loop {
            let (due, what) = self.next();
            let now = self.setting.clock.now();
            self.setting.clock.advance(due - now);
            let now = now.max(due);
            if now >= deadline {
                return Err(self.stuck());
            }
            match what {
                Due::Network => {
                    let commit = self.setting.network.deliver(&mut woken);
                    self.wake(&mut woken, now);
                    if let Some(sent) = commit {
                        self.oracle.commit(sent)?;
                    }
                }
                Due::Fault => self.strike(now)?,
                Due::Feed => self.feed(now)?,
                Due::Start(slot) => self.start(slot, now)?,
                Due::Step(slot) => self.step(slot, now)?,
                Due::Ousted(at) => self.step_ousted(at, now)?,
                Due::Look => {
                    if self.look(now) {
                        for process in self.ousted.drain(..) {
                            self.told.add(&process.told());
                        }
                        return self.oracle.finish(now, self.calm, &self.told(), self.counted());
                    }
                }
            }
        }
    }

    /// What happens next, and when.
    fn next(&self) -> (Instant, Due) {
        let mut first = (self.look_at, Due::Look);
        let mut offer = |at: Instant, what: Due| {
            if at < first.0 {
                first = (at, what);
            }
        };
        offer(self.setting.network.due(), Due::Network);
        offer(self.feed_at, Due::Feed);
        offer(self.coming.front().map_or(Instant::FAR_FUTURE, |planned| planned.at), Due::Fault);
        for (n, slot) in self.slots.iter().enumerate() {
            match &slot.process {
                Some(process) => offer(process.due(), Due::Step(n)),
                None => offer(slot.start_at, Due::Start(n)),
            }
        }
        for (n, process) in self.ousted.iter().enumerate() {
            offer(process.due(), Due::Ousted(n));
        }
        first
    }

    fn wake(&mut self, woken: &mut Vec<HostId>, now: Instant) {
        for host in woken.drain(..) {
            let all = self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()).chain(&mut self.ousted);
            all.filter(|process| process.host.id() == host).for_each(|process| process.call(now));
        }
    }

    /// Feeds some records in.
    fn feed(&mut self, now: Instant) -> Result<(), String> {
        let count = u32::try_from(self.dice.between(1, BATCH)).unwrap_or(1).min(self.records - self.fed);
        let partition = i32::try_from(self.dice.below(usize::try_from(self.partitions).unwrap_or(1))).unwrap_or(0);
        let numbers = self.fed..self.fed + count;
        let (mut lines, mut ends) = (Vec::new(), vec![0]);
        for n in numbers.clone() {
            push_line(n, &mut lines);
            ends.push(lines.len());
        }
        let rows = ends.array_windows().map(|[from, to]| Row { value: lines.get(*from..*to), ..Row::default() });
        let author = Author { producer_id: -1, epoch: -1, sequence: -1, transactional: false };
        let timestamp = EPOCH_MS + i64::try_from(now.nanos() / 1_000_000).unwrap_or(0);
        if !append(&self.setting.network, LINES, partition, encode(author, timestamp, rows)) {
            return Err("the broker takes no records".to_owned());
        }
        numbers.for_each(|n| self.oracle.fed(partition, n));
        self.fed += count;
        // Spread over the time in which things go wrong.
        let share = TROUBLE * u32::try_from(BATCH).unwrap_or(1) / self.records.max(1);
        let most = u64::try_from(share.as_micros()).unwrap_or(1);
        self.feed_at = if self.fed < self.records {
            // However few there are: all are fed when trouble ends.
            let at = now + Duration::from_micros(self.dice.between(1, most));
            at.min(TROUBLE_ENDS).max(now + Duration::from_micros(1))
        } else {
            Instant::FAR_FUTURE
        };
        Ok(())
    }

    fn start(&mut self, slot: usize, now: Instant) -> Result<(), String> {
        let host = HostId(self.hosts);
        self.hosts += 1;
        let dice = Dice::new(self.dice.between(0, u64::MAX), u64::from(host.0));
        let process = Process::start(&self.setting, slot, host, dice);
        let Some(process) = process else { return Err("a process cannot be put together".to_owned()) };
        self.log.say(now, format_args!("process {slot} starts as host {}", host.0));
        if let Some(slot) = self.slots.get_mut(slot) {
            (slot.process, slot.stopping) = (Some(process), false);
        }
        Ok(())
    }

    fn step(&mut self, at: usize, now: Instant) -> Result<(), String> {
        self.steps += 1;
        let max_pending = self.setting.make.max_pending;
        let Some(slot) = self.slots.get_mut(at) else { return Ok(()) };
        let Some(process) = &mut slot.process else { return Ok(()) };
        let fate = process.step(now);
        process.check_caps(max_pending)?;
        let (is_killed, is_stopped) = (matches!(fate, Fate::Killed), matches!(fate, Fate::Ended(Ok(_))));
        let (down, what) = match fate {
            Fate::Alive => return Ok(()),
            Fate::Killed => (slot.down, "was killed".to_owned()),
            Fate::Ended(Err(error @ (EngineError::Refused(_) | EngineError::Disagreement(_)))) => {
                return Err(format!("process {at}: {error}"));
            }
            Fate::Ended(Err(error)) => (START_AGAIN, format!("ended: {error}")),
            Fate::Ended(Ok(report)) if slot.stopping => (slot.down, format!("stopped: {:?}", report.ending)),
            Fate::Ended(Ok(report)) => return Err(format!("process {at} stopped by itself: {report:?}")),
        };
        self.died += u64::from(!is_stopped);
        self.bites.note("Kill", is_killed);
        self.bites.note("Stop", is_stopped && !self.ending);
        self.log.say(now, format_args!("process {at} {what}"));
        self.setting.network.disconnect_all(process.host.id());
        self.told.add(&process.told());
        slot.process = None;
        slot.start_at = if self.ending { Instant::FAR_FUTURE } else { now + down };
        Ok(())
    }

    fn step_ousted(&mut self, at: usize, now: Instant) -> Result<(), String> {
        let Some(process) = self.ousted.get_mut(at) else { return Ok(()) };
        let fate = process.step(now);
        process.check_caps(self.setting.make.max_pending)?;
        if !matches!(fate, Fate::Alive) {
            self.log.say(now, format_args!("host {}, ousted from {}: {fate:?}", process.host.id().0, process.number));
            self.setting.network.disconnect_all(process.host.id());
            self.told.add(&process.told());
            self.ousted.remove(at);
        }
        Ok(())
    }

    /// Looks whether everything is done. True at the end of the run.
    fn look(&mut self, now: Instant) -> bool {
        self.look_at = now + Duration::from_millis(100);
        if now >= TROUBLE_ENDS {
            // Calls that were to fail may be left where there are few: they are trouble too.
            self.slots.iter().filter_map(|slot| slot.process.as_ref()).for_each(Process::behave);
        }
        let quiet = self.coming.is_empty() && self.fed == self.records && self.oracle.is_all_committed();
        if quiet && !self.ending {
            self.ending = true;
            self.log.say(now, format_args!("everything is committed: all are asked to stop"));
            for slot in &mut self.slots {
                match &mut slot.process {
                    Some(process) => {
                        slot.stopping = true;
                        process.paused_until = Instant::ZERO;
                        process.drain(now);
                    }
                    None => slot.start_at = Instant::FAR_FUTURE,
                }
            }
        }
        self.ending && self.slots.iter().all(|slot| slot.process.is_none())
    }

    /// What the lives that are over have told.
    fn told(&self) -> Told {
        self.setting.metrics.as_ref().map_or(self.told, |metrics| self.told.with(metrics))
    }

    /// Repeats that the processes counted, if each has lived from the beginning to the end with all of its executors, and
    /// finished every record that it began.
    fn counted(&self) -> Option<u64> {
        let Told { lives, restarts, duplicates, left_unfinished, .. } = self.told();
        let all_lived = lives == self.slots.len() as u64 && self.died == 0;
        let undisturbed = all_lived && restarts == 0 && left_unfinished == 0;
        undisturbed.then_some(duplicates)
    }

    fn stuck(&self) -> String {
        let states: Vec<_> = self
            .slots
            .iter()
            .map(|slot| match &slot.process {
                None => "down".to_owned(),
                Some(process) => format!("{} open trees, {:?}", process.open_trees(), process.report()),
            })
            .collect();
        let what = if self.ending { "not all processes stop" } else { "not everything is committed" };
        format!("{what} within {BOUND:?} after the last fault: {}", states.join("; "))
    }
}

/// What happens next.
#[derive(Copy, Clone, Debug)]
enum Due {
    Network,
    Feed,
    Fault,
    Start(usize),
    Step(usize),
    Ousted(usize),
    Look,
}
