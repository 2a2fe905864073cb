//! From a run that fails to a short one that fails: faults are taken out of its plan as long as it still does (delta
//! debugging, Zeller 1999, without its complements).

use super::simulation::{RunOptions, Verdict, run};

/// The shortest plan that was found with which the run of `options` still fails, and what came of it.
#[must_use]
pub fn shrink(options: &RunOptions, failed: Verdict) -> Verdict {
    let mut best = failed;
    let mut chunk = best.plan.len().div_ceil(2);
    while chunk > 0 {
        let (mut at, mut any) = (0, false);
        while at < best.plan.len() {
            let mut plan = best.plan.clone();
            plan.drain(at..(at + chunk).min(plan.len()));
            let verdict = run(&RunOptions { plan: Some(plan), ..options.clone() });
            if verdict.failure.is_some() {
                (best, any) = (verdict, true);
            } else {
                at += chunk;
            }
        }
        if chunk == 1 && !any {
            break;
        }
        chunk = if chunk == 1 { 1 } else { chunk / 2 };
    }
    best
}
