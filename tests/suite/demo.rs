//! What `make demo` runs, as whoever stops it or kills it meets it.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn demo(lines: &str, folder: &Path) -> Command {
    let mut command = Command::new("bash");
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/testcontainers/demo.sh"));
    command.arg(env!("CARGO_BIN_EXE_stormglass")).arg(folder);
    command.env_remove("KAFKA_BOOTSTRAP").env("LINES_TO_COUNT", lines);
    // As for whoever tells `make` where its cache is.
    command.env("STORMGLASS_CACHE", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The programs that run with this folder in their environment, which every child of the demo has.
fn programs(folder: &Path) -> Vec<String> {
    let with_it = |process: &Path| -> Option<String> {
        let environment = fs::read(process.join("environ")).ok()?;
        let command = fs::read(process.join("cmdline")).ok()?;
        let text = String::from_utf8_lossy(&command).replace('\0', " ");
        String::from_utf8_lossy(&environment).contains(folder.to_str()?).then_some(text)
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|entry| with_it(&entry.path())).filter(|command| command.contains("stormglass")).collect()
}

fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happens() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A demo of many lines, once it counts.
fn counting(folder: &Path) -> Child {
    let demo = demo("3000000", folder).spawn().unwrap();
    let counts = |command: &String| command.contains(" run ");
    eventually("it counts", || programs(folder).iter().any(counts));
    demo
}

fn signal(demo: &Child, signal: Signal) {
    kill(Pid::from_raw(demo.id().try_into().unwrap()), signal).unwrap();
}

#[test]
fn the_demo_keeps_its_promise_over_two_kills_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = demo("100000", folder.path()).output().unwrap();
    let said = String::from_utf8(output.stdout.clone()).unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("expected 1200000, found 1200000, missing 0, surplus 0"), "{said}");
    assert!(said.contains("announced: at most "), "{said}");
    assert_eq!(programs(folder.path()), <[String; 0]>::default());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a file was left behind");
}

#[test]
fn a_demo_that_is_interrupted_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = counting(folder.path());
    signal(&demo, Signal::SIGTERM);
    demo.wait().unwrap();
    eventually("nothing runs", || programs(folder.path()).is_empty());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a file was left behind");
}

#[test]
fn a_demo_that_is_killed_leaves_no_process_and_the_next_one_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut killed = counting(folder.path());
    signal(&killed, Signal::SIGKILL);
    killed.wait().unwrap();
    eventually("nothing runs", || programs(folder.path()).is_empty());
    assert!(demo("1000", folder.path()).output().unwrap().status.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a file was left behind");
}
