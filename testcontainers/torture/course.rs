//! The course of a torture: events as planned, under load, then the last run.

use std::{
    fs,
    path::PathBuf,
    process, thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use stormglass::kafka::{Connection, admin_group::GroupAdmin};

use super::{
    Subject,
    plan::{Event, Plan},
    verdict::Verdict,
};
use crate::{
    broker::{Broker, Isolation, eventually},
    process::{Finished, Job, Process},
};

/// Lines written a second. Little enough that a process keeps up, so that what is not committed stays small.
const LINES_A_SECOND: u64 = 3_000;
const WORDS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(30);

/// One course, with what it leaves behind if it fails.
pub struct Course {
    subject: Subject,
    seed: u64,
    job: Job,
    lines: u64,
    folder: PathBuf,
    began: Instant,
    events: Vec<String>,
    /// Output of every process that ended.
    ended: Vec<Finished>,
    /// Records that the ends of processes may have caused to be repeated.
    may_repeat: u64,
}

impl Course {
    pub fn new(broker: &Broker, subject: Subject, seed: u64, plan: &Plan) -> Self {
        let folder = std::env::temp_dir().join(format!("stormglass-torture-{seed}-{}", process::id()));
        fs::create_dir_all(&folder).expect("a folder for what is left behind");
        let state_dir = format!("state_dir={}", folder.display());
        let flags = ["--topology", subject.topology(), "--log-format", "json", "--set", &state_dir];
        // Taken over at once after a kill, and lost now and then while it stands still.
        let identity = ["--set", "kafka.instance=victim", "--set", "kafka.session_timeout_ms=6000"];
        let job = Job::new(broker, &broker.topic("tortured", 4, &[]), &[&flags[..], &identity].concat());
        let lines = LINES_A_SECOND * plan.span.as_secs().max(1);
        let (began, events, ended) = (Instant::now(), Vec::new(), Vec::new());
        Self { subject, seed, job, lines, folder, began, events, ended, may_repeat: 0 }
    }

    fn say(&mut self, what: &str) {
        let line = format!("torture seed {} {:>8.3} s  {what}", self.seed, self.began.elapsed().as_secs_f64());
        eprintln!("{line}");
        self.events.push(line);
    }

    /// Runs the plan; panics with the verdict if it is bad.
    pub fn run(mut self, broker: &mut Broker, plan: &Plan) {
        self.say(&format!("{:?}, {} lines into {}", self.subject, self.lines, self.job.input));
        let mut load = self.load();
        let mut victim = self.job.start(&[]);
        for (pause, event) in &plan.steps {
            thread::sleep(*pause);
            assert!(victim.is_running(), "a run ended by itself: {}", victim.stderr());
            self.say(&format!("{event:?}"));
            victim = self.happen(broker, victim, *event);
        }
        let patience = Instant::now() + plan.span + Duration::from_secs(120);
        while load.is_running() {
            assert!(Instant::now() < patience, "the load does not end: {}", load.stderr());
            thread::sleep(Duration::from_millis(100));
        }
        load.wait().succeeded();
        self.say("all lines are written; the last stop and the last run");
        victim.signal(Signal::SIGTERM);
        self.end(broker, victim);
        let last = self.job.to_the_end().succeeded();
        self.say(&format!("the last run: {}", last.stdout.trim()));
        self.ended.push(last);
        self.judge(broker);
    }

    fn load(&self) -> Process {
        let (lines, rate, words) = (self.lines.to_string(), LINES_A_SECOND.to_string(), WORDS.to_string());
        let what = ["--topic", &self.job.input, "--lines", &lines, "--rate", &rate, "--words", &words, "--unique-ids"];
        Process::start(&[&["load", "--brokers", &self.job.brokers], &what[..]].concat())
    }

    fn happen(&mut self, broker: &mut Broker, victim: Process, event: Event) -> Process {
        match event {
            Event::Kill => {
                victim.signal(Signal::SIGKILL);
                self.end(broker, victim);
                self.job.start(&[])
            }
            Event::Drain => {
                victim.signal(Signal::SIGTERM);
                self.end(broker, victim);
                self.job.start(&[])
            }
            Event::Freeze(span) => {
                victim.signal(Signal::SIGSTOP);
                thread::sleep(span);
                // Whoever loses its partitions meanwhile repeats what it had not committed.
                self.may_repeat += self.not_committed(broker);
                victim.signal(Signal::SIGCONT);
                victim
            }
            Event::Outage(span) => {
                broker.stop();
                thread::sleep(span);
                broker.start();
                self.may_repeat += self.not_committed(broker);
                victim
            }
        }
    }

    /// Waits for the end of a process, and notes what it leaves to be repeated.
    fn end(&mut self, broker: &Broker, victim: Process) {
        let ended = victim.wait();
        assert!(matches!(ended.code, None | Some(0 | 75)), "{ended:#?}");
        if ended.code != Some(0) {
            let more = self.not_committed(broker);
            self.may_repeat += more;
            self.say(&format!("ended with {:?}; {more} records are not committed", ended.code));
        }
        self.ended.push(ended);
    }

    /// Records that are written and not committed: what a process may have read that is gone.
    fn not_committed(&self, broker: &Broker) -> u64 {
        let connection = Connection { brokers: broker.bootstrap().to_owned(), ..Connection::default() };
        let group = GroupAdmin::new(&connection, &self.job.group, PATIENCE).expect("a client");
        let mut lag = None;
        eventually("offsets and ends are known", || {
            lag = group.watermarks(&self.job.input).ok().and_then(|ends| {
                let partitions: Vec<_> = ends.iter().map(|w| w.partition.clone()).collect();
                let committed = group.committed(&partitions).ok()?;
                let open = ends.iter().zip(committed).map(|(w, c)| w.high.0 - c.map_or(w.low.0, |c| c.next.0));
                Some(open.sum::<i64>())
            });
            lag.is_some()
        });
        u64::try_from(lag.unwrap_or_default()).unwrap_or(0)
    }

    fn judge(mut self, broker: &Broker) {
        let output = broker.read(&self.job.output, Isolation::ReadCommitted);
        let verdict = Verdict::of_occurrences(&output, self.lines);
        let audit = self.job.audit(&["--kind", "records"]);
        let (missing, repeats) = (audit.number("missing"), self.may_repeat);
        self.say(&format!("{verdict}; at most {repeats} may be; audit: {missing} words missing"));
        if verdict.missing.is_empty() && missing == 0 && verdict.surplus <= repeats {
            fs::remove_dir_all(&self.folder).ok();
            return;
        }
        self.leave_behind(broker);
        panic!("seed {}: {verdict}, at most {repeats} may be; see {}", self.seed, self.folder.display());
    }

    /// Everything that may tell why: events, output of the processes, topics.
    fn leave_behind(&self, broker: &Broker) {
        let write = |name: &str, text: String| fs::write(self.folder.join(name), text).expect("room for what is left");
        write("events.txt", self.events.join("\n"));
        for (n, run) in self.ended.iter().enumerate() {
            write(&format!("run-{n}.txt"), format!("{:?}\n{}\n{}", run.code, run.stdout, run.stderr));
        }
        for topic in [&self.job.input, &self.job.output] {
            let records = broker.read(topic, Isolation::ReadCommitted);
            let line = |r: &crate::broker::Record| format!("{:?}:{:?} {:?}\n", r.partition, r.offset, r.text());
            write(&format!("{topic}.txt"), records.iter().map(line).collect());
        }
    }
}
