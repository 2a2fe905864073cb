//! `stormglass sim` over as many seeds as a test run has time for.

use std::process::Output;

use super::binary::stormglass;

fn sim(arguments: &[&str]) -> Output {
    stormglass(&["sim"]).args(arguments).output().unwrap()
}

#[test]
fn nothing_is_lost_in_two_thousand_simulated_runs() {
    let output = sim(&["--seed", "0", "--count", "2000"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(said.starts_with("2000 runs without a failure in "), "{said}");
}

#[test]
fn a_seed_has_the_same_log_in_every_process() {
    let [first, second] = [sim(&["--seed", "7", "--trace"]), sim(&["--seed", "7", "--trace"])];
    assert!(first.status.success() && first.stdout.len() > 10_000, "{first:?}");
    let lines = |output: &Output| -> Vec<String> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // The last line says how long it took.
        text.lines().filter(|line| !line.contains(" without a failure in ")).map(str::to_owned).collect()
    };
    assert_eq!(lines(&first), lines(&second));
}

#[test]
fn runs_at_a_time_are_the_runs_one_by_one() {
    let what_they_came_to = |jobs: &str| {
        let output = sim(&["--seed", "40", "--count", "10", "--records", "300", "--jobs", jobs, "--trace"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let (log, sum) = said.split_once("10 runs without a failure in ").expect(&said);
        (log.to_owned(), sum.split_once(": ").expect(&said).1.to_owned())
    };
    let (one, three) = (what_they_came_to("1"), what_they_came_to("3"));
    assert!(one.0.len() > 10_000 && one == three, "{} and {}", one.1, three.1);
}

#[test]
fn a_run_of_few_records_ends_as_others_do() {
    for (seed, records, faults) in [("12", "10", "0"), ("22", "2", "0"), ("2001173", "100", "20")] {
        let output = sim(&["--seed", seed, "--records", records, "--faults", faults]);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn what_cannot_be_run_is_a_mistake_of_the_command_line() {
    let last = u64::MAX.to_string();
    assert!(sim(&["--seed", &last]).status.success(), "the last seed is a seed");
    let wrong: [&[&str]; 4] =
        [&["--seed", &last, "--count", "2"], &["--count", "0"], &["--records", "0"], &["--set", "engine.executors=2"]];
    for arguments in wrong {
        let output = sim(arguments);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(64), &b""[..]), "{arguments:?} {output:?}");
    }
}
