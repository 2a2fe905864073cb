//! The tests that need a broker. `cargo test --release --test kafka`; where there is no broker they are reported as
//! *ignored* with the reason, or as failed if `REQUIRE_KAFKA=1`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "tests against a real broker live in real time")]
#![allow(clippy::print_stderr, reason = "the reason why tests are ignored")]
#![allow(unreachable_pub, reason = "a test binary has no outside; `pub` marks what other test modules may use")]

mod bad_input;
mod broker;
mod changelog;
mod client;
mod conformance;
mod crashes;
mod dead_letters;
mod harness;
mod identity;
mod lineages;
mod outages;
mod process;
mod rebalance;
mod reset;
mod run;
mod stops;
mod topics;
#[path = "../torture/mod.rs"]
mod torture;

use std::process::ExitCode;

fn main() -> ExitCode {
    let given: Vec<_> = std::env::args().skip(1).collect();
    if let Some((lineages::PROGRAM, rest)) = given.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return lineages::program(rest);
    }
    let mut arguments = libtest_mimic::Arguments::from_args();
    // Most of a trial is waiting for other processes.
    arguments.test_threads.get_or_insert(4);
    // The longest first.
    let trials = [
        outages::trials(),
        torture::trials(),
        conformance::trials(),
        crashes::trials(),
        lineages::trials(),
        rebalance::trials(),
        identity::trials(),
        topics::trials(),
        client::trials(),
        changelog::trials(),
        harness::trials(),
        reset::trials(),
        run::trials(),
        stops::trials(),
        bad_input::trials(),
        dead_letters::trials(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    broker::shut_down();
    conclusion.exit_code()
}
