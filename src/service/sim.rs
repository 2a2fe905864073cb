//! `sim`: runs of the simulation, each a seed's.

use std::{fmt::Write as _, num::NonZeroU16, thread::available_parallelism};

use super::{
    cli::{self, Global},
    exit::{Cause, Failure, Outcome},
    output,
    seeds::each,
};
use crate::{
    chaos::{RunOptions, Verdict, run, shrink},
    clock::Clock,
};

/// Runs seed after seed, and stops at the first that fails: its plan is shrunk and printed.
///
/// # Errors
/// A run has failed.
pub(crate) fn sim(global: &Global, args: &cli::Sim) -> Outcome {
    let clock = Clock::system();
    let began = clock.now();
    let mut sum = Sum::default();
    if args.count - 1 > u64::MAX - args.seed {
        let most = u64::MAX - args.seed + 1;
        let (count, seed) = (args.count, args.seed);
        return Err(Failure::new(
            Cause::Usage,
            anyhow::anyhow!("--count {count}: from --seed {seed} on there are {most} seeds"),
        ));
    }
    let options = |seed| RunOptions {
        records: args.records,
        faults: args.faults as usize,
        trace: args.trace,
        ..RunOptions::new(seed)
    };
    let jobs = args.jobs.unwrap_or_else(one_a_core);
    each(
        args.seed,
        args.count,
        jobs,
        |seed| run(&options(seed)),
        |seed, verdict| {
            sum.add(&verdict);
            if args.trace {
                output::data(&verdict.log)?;
            }
            if verdict.failure.is_none() {
                return Ok(());
            }
            let faults = verdict.plan.len();
            let options = RunOptions { trace: false, ..options(seed) };
            let short = if args.keep_plan { verdict } else { shrink(&options, verdict) };
            output::data(&failed(seed, faults, &short))?;
            Err(Failure::said(Cause::No))
        },
    )?;
    let seconds = (clock.now() - began).as_secs_f64();
    if global.json {
        return output::json(&serde_json::json!({
            "runs": sum.runs, "seconds": seconds, "jobs": jobs, "virtual_seconds": sum.virtual_seconds, "records": sum.arrived,
            "duplicates": sum.again, "lives": sum.lives, "steps": sum.steps, "fingerprint": format!("{:016x}", sum.fingerprint),
        }));
    }
    output::data(&format!(
        "{} runs without a failure in {seconds:.1} s ({:.0} a second, {jobs} at a time): {:.0} s of virtual time, {} processes, \
         {} outputs, {} of them repeats; fingerprint {:016x}\n",
        sum.runs,
        sum.runs as f64 / seconds.max(1e-9),
        sum.virtual_seconds,
        sum.lives,
        sum.arrived,
        sum.again,
        sum.fingerprint,
    ))
}

fn one_a_core() -> NonZeroU16 {
    available_parallelism().ok().and_then(|cores| cores.try_into().ok()).unwrap_or(NonZeroU16::MIN)
}

/// What all runs came to.
#[derive(Debug, Default)]
struct Sum {
    runs: u64,
    virtual_seconds: f64,
    lives: u64,
    steps: u64,
    arrived: u64,
    again: u64,
    fingerprint: u64,
}

impl Sum {
    fn add(&mut self, verdict: &Verdict) {
        self.runs += 1;
        self.virtual_seconds += verdict.took.as_secs_f64();
        self.lives += u64::from(verdict.lives);
        self.steps += verdict.steps;
        self.again += verdict.duplicates.0;
        self.arrived += verdict.duplicates.1;
        self.fingerprint = self.fingerprint.rotate_left(7) ^ verdict.fingerprint;
    }
}

fn failed(seed: u64, faults: usize, verdict: &Verdict) -> String {
    let mut text = format!("seed {seed} fails: {}\n", verdict.failure.as_deref().unwrap_or_default());
    // Writing into memory does not fail.
    writeln!(text, "{} of its {faults} faults are enough:", verdict.plan.len()).unwrap_or_default();
    verdict.plan.iter().for_each(|planned| writeln!(text, "  {planned}").unwrap_or_default());
    text
}
