//! The binary as a user meets it: its output, its sentences, its exit codes. No broker.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Output, Stdio},
};

use super::binary::stormglass;

/// Values that must never be seen.
const CANARY: &str = "canary-7f3a";

fn run(args: &[&str]) -> Output {
    stormglass(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

const RIGHT: [&str; 6] = ["--brokers", "localhost:9092", "--input", "lines", "--output", "counts"];

fn validate(more: &[&str]) -> Output {
    run(&[&["validate"][..], &RIGHT, more].concat())
}

#[test]
fn without_any_file_three_flags_are_enough() {
    let output = validate(&[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "valid: word-count reads lines as group stormglass-word-count-counts and writes counts\n"
    );
    assert_eq!(stderr(&output), "");
}

#[test]
fn every_mistake_is_said_at_once_on_stderr_with_code_78() {
    let flags = ["--delivery", "exactly-once", "--topology", "foo", "--output", "a b"];
    let output = run(&[&["validate", "--set", "engine.executers=2"][..], &flags].concat());
    assert_eq!(output.status.code(), Some(78));
    assert_eq!(stdout(&output), "");
    assert_eq!(
        stderr(&output),
        "stormglass: the configuration has 7 mistakes:\n  \
         engine.executers (flag --set engine.executers): unknown key; did you mean engine.executors?\n  \
         kafka.brokers: is not set: name a broker, as in --brokers localhost:9092\n  \
         source.topics: is not set: name what to read, as in --input lines\n  \
         topology (flag --topology): there is no topology \"foo\"; there are: \"word-count\", \"split-words\"\n  \
         delivery (flag --delivery): delivery \"exactly-once\" is not in this release; use \"at-least-once\", which counts \
         every repeat\n  \
         sink.topic (flag --output): \"a b\" is no name for a topic: at most 249 of a-z, A-Z, 0-9, dot, underscore and \
         hyphen\n  \
         source.dead_letter_topic: \"a b-dead-letters\" is no name for a topic: at most 249 of a-z, A-Z, 0-9, dot, \
         underscore and hyphen\n"
    );
}

#[test]
fn bad_settings_end_with_78_and_a_sentence() {
    for (more, sentence) in [
        (
            &["--set", "engine.executors=many"][..],
            "engine.executors (flag --set engine.executors): must be a whole number",
        ),
        (&["--set", "engine.executors=5000"], "5000 is out of range: at least 0, at most 1024"),
        (&["--json-pointer", "/a"], "source.json_pointer (flag --json-pointer): has no meaning for text"),
        (&["--input", "counts"], "sink.topic (flag --output): \"counts\" is also read"),
        (&["--input", "^c.*"], "sink.topic (flag --output): \"counts\" is also read"),
        (&["-c", "/nowhere/at/all.toml"], "/nowhere/at/all.toml: cannot be read: No such file"),
        (&["-X", "sasl.password_file=/nowhere"], "the secret file /nowhere cannot be read"),
        (&["-X", "acks=1"], "kafka.properties.acks (flag -X acks): property \"acks\" may not be \"1\""),
        (&["-X", "enable.auto.commit=true"], "offsets are committed only behind completed tuple trees"),
        (&["-X", "isolation.level=read_uncommitted"], "records of aborted transactions would be counted"),
        (&["-X", "group.id=g"], "is decided by kafka.group: set that instead"),
        (
            &["-X", "no.such.thing=1"],
            "librdkafka has no property \"no.such.thing\" (its value is not shown): mend the name",
        ),
        (&["-X", "acks_env=HOME"], "leads to a value that property \"acks\" may not have (not shown): mend it there"),
        (&["-X", "group.id_env=HOME"], "is decided by kafka.group: set that instead"),
        (&["-X", "test.mock.num.brokers=1"], "may not be set: the client would talk to itself, and to no broker"),
        (&["-X", "retries=0"], "kafka.properties: librdkafka does not accept its properties together: `retries` must"),
        (&["-X", "group.protocol=consumer"], "kafka.properties: librdkafka does not accept its properties together"),
        (&["-X", "delivery.timeout.ms=1"], "kafka.properties: librdkafka does not accept its properties together"),
        (&["-X", "max.poll.interval.ms=10"], "kafka.properties: librdkafka does not accept its properties together"),
        (&["-X", "security.protocol=SASL_PLAINTEXT"], "No provider for SASL mechanism GSSAPI"),
        (&["--input", "lines"], "source.topics (flag --input): \"lines\" is there twice"),
        (&["-X", "fetch.wait.max.ms=soon"], "librdkafka does not accept property \"fetch.wait.max.ms\" = \"soon\""),
        (&["--brokers", "localhost:http"], "\"localhost:http\" is no address of a broker"),
        (&["--http", "9464"], "http.listen (flag --http): \"9464\" is no address: write IP:PORT"),
        (&["--delivery", "exactly-once"], "is not in this release"),
        (&["--delivery", "twice"], "unknown delivery \"twice\""),
        (&["--group", &"g".repeat(227)], "at most 226 of a-z, A-Z, 0-9, dot, underscore and hyphen"),
        (&["--set", "topology_options.tasks=2"], "topology_options: it has no option \"tasks\"; it has: split_tasks"),
        (&["--set", "=nothing"], "--set: has no name before the =: write NAME=VALUE"),
    ] {
        let mut output = validate(more);
        if more.first() == Some(&"--brokers") {
            output = run(&[&["validate", "--input", "lines", "--output", "counts"][..], more].concat());
        }
        assert_eq!(output.status.code(), Some(78), "{more:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(sentence), "{more:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{more:?}");
    }
}

#[test]
fn a_wrong_command_line_ends_with_64() {
    for args in [&["walk"][..], &[], &["validate", "--nonsense"], &["completions", "tcl"]] {
        assert_eq!(run(args).status.code(), Some(64), "{args:?}");
    }
    let load = ["load", "--topic", "t"];
    for (args, sentence) in [
        (&["validate", "--set", "nothing"][..], "--set: it has no =: write NAME=VALUE"),
        (&["validate", "-X", "nothing"], "-X: it has no =: write NAME=VALUE"),
        (&["graph", "--json"], "--json: a picture has no such form"),
        (&["completions", "bash", "--json"], "--json: completions have no such form"),
        (&["validate", "--json", "--print-config"], "--json: --print-config prints TOML"),
        (&["audit", "-b", "b", "-i", "^in$", "-o", "x"], "--input: \"^in$\" is a pattern; audit takes names"),
        (&["audit", "-b", "b", "-i", "a b", "-o", "x"], "--input: \"a b\" is no name for a topic"),
        (&["audit", "-b", "b", "-i", "in", "-o", "a b"], "--output: \"a b\" is no name for a topic"),
        (&["audit", "-b", "b", "-i", "in,in", "-o", "x"], "--input: \"in\" is there twice"),
        (&[&load[..], &["-n", "-5"]].concat(), "'-5' for '--lines <N>': it is no whole number from 0 up"),
        (&[&load[..], &["-n", "5", "--words", "-5"]].concat(), "-5 is not in 1..=1000000"),
        (
            &[&load[..], &["-n", "5", "--brokers", "b", "--rate", "-5"]].concat(),
            "--rate -5 is no number of lines above 0",
        ),
        (
            &["load", "-n", "1", "--brokers", "b", "--topic", "a b"],
            "--topic: \"a b\" is no name for a topic: at most 249 of a-z",
        ),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(64), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(sentence), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn a_folder_is_no_file_of_lines() {
    let output = run(&["load", "--brokers", "localhost:1", "--topic", "t", "--file", "/"]);
    assert_eq!(output.status.code(), Some(66), "{}", stderr(&output));
    assert_eq!(stderr(&output), "stormglass: / cannot be read: is a directory\n");
}

#[test]
fn what_could_not_be_read_is_not_said_to_be_missing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "kafka.brokers = 5\nsource.topics = 5\nsink.topic = 5\n").unwrap();
    let output = run(&["validate", "-c", file.path().to_str().unwrap()]);
    assert!(stderr(&output).contains("has 3 mistakes"), "{}", stderr(&output));
}

#[test]
fn a_secret_that_others_may_read_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), CANARY).unwrap();
    let property = format!("sasl.password_file={}", file.path().display());
    assert_eq!(validate(&["-X", &property]).status.code(), Some(0));
    fs::set_permissions(file.path(), fs::Permissions::from_mode(0o604)).unwrap();
    let output = validate(&["-X", &property]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("may be read by every user (mode 604): run chmod 600"), "{}", stderr(&output));
}

#[test]
fn a_lock_file_that_cannot_be_written_ends_with_73() {
    let identity = ["--set", "kafka.instance=a", "--set", "state_dir=/dev/null/folder"];
    let output = run(&[&["run"][..], &RIGHT, &["--no-http"], &identity].concat());
    assert_eq!(output.status.code(), Some(73), "{}", stderr(&output));
    let sentence = "the lock file of instance \"a\" cannot be written at \
                    /dev/null/folder/stormglass-word-count-counts@a.lock: Not a directory";
    assert!(stderr(&output).contains(sentence), "{}", stderr(&output));
}

#[test]
fn a_secret_is_printed_nowhere() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), CANARY).unwrap();
    let by_file = format!("sasl.password_file={}", secret.path().display());
    let direct = format!("sasl.password={CANARY}");
    let login = format!("user:{CANARY},{CANARY}@host:9092");
    let misplaced = format!("kafka.sasl_password={CANARY}");
    let broken = tempfile::NamedTempFile::new().unwrap();
    fs::write(broken.path(), format!("[kafka]\nproperties = {{ \"sasl.password\" = \"{CANARY} }}\n")).unwrap();
    let broken = broken.path().to_str().unwrap();
    let wrong_type = format!("kafka.properties.ssl.key.password=[\"{CANARY}\"]");
    let mistyped = format!("ssl.key.passwrd_file={}", secret.path().display());
    let of_no_secret = format!("linger.ms_file={}", secret.path().display());
    let of_a_path = format!("ssl.ca.location_file={}", secret.path().display());
    let (unknown, command) = (format!("sasl.passwd={CANARY}"), format!("sasl.kerberos.kinit.cmd=kinit -p {CANARY}"));
    let address = format!("sasl.oauthbearer.token.endpoint.url=https://u:{CANARY}@host/x");
    let no_value = format!("sasl.password:{CANARY}");
    // Brokers may be named once.
    let right = |more: &[&str]| if more[0] == "--brokers" { &RIGHT[2..] } else { &RIGHT[..] };
    for more in [
        &["-X", &by_file][..],
        &["-X", &direct],
        &["--set", &misplaced],
        &["--set", &wrong_type],
        &["-c", broken],
        &["-X", "sasl.password_env=SECRET"],
        &["--brokers", &login],
        &["-X", &mistyped],
        &["-X", &of_no_secret],
        &["-X", &of_a_path, "-X", "security.protocol=SSL"],
        &["-X", &unknown],
        &["-X", &command],
        &["-X", &address],
        &["-X", &no_value],
        &["-X", "sasl.passwd_env=SECRET"],
    ] {
        for extra in [&["-vv"][..], &["--print-config"], &["--json", "--log-format", "json"]] {
            let args = [&["validate"][..], right(more), more, extra].concat();
            let mut command = stormglass(&args);
            command.env("SECRET", CANARY).env("STORMGLASS_KAFKA__PROPERTIES__SASL_PASSPHRSE", CANARY);
            let output = command.output().unwrap();
            let all = stdout(&output) + &stderr(&output);
            assert!(!all.contains(CANARY), "{args:?}: {all}");
        }
    }
}

#[test]
fn what_the_client_library_says_of_a_secret_does_not_show_it() {
    let properties = ["-X", "ssl.ca.location_env=SECRET", "-X", "security.protocol=SSL", "-X", "debug=conf,security"];
    for command in [&["audit", "--brokers", "localhost:1", "-i", "a", "-o", "b"][..], &[&["run"], &RIGHT[..]].concat()]
    {
        for form in ["text", "json"] {
            let args = [command, &["-vv", "--log-format", form], &properties].concat();
            let output = stormglass(&args).env("SECRET", CANARY).output().unwrap();
            assert_eq!(output.status.code(), Some(78), "{args:?}: {}", stderr(&output));
            assert!(stderr(&output).contains("ssl.ca.location failed"), "{args:?}: {}", stderr(&output));
            assert!(!stderr(&output).contains(CANARY), "{args:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn the_printed_configuration_names_every_origin() {
    let output = stormglass(&["validate", "--brokers", "b:1", "--print-config", "-X", "client.rack=r1"])
        .env("STORMGLASS_ENGINE__EXECUTORS", "3")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    for line in [
        "brokers = [\"b:1\"]  # flag --brokers",
        "executors = 3  # environment STORMGLASS_ENGINE__EXECUTORS",
        "commit_interval_ms = 100  # default",
        "\"client.rack\" = \"r1\"  # flag -X client.rack",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
    }
}

#[test]
fn the_version_names_the_client_library() {
    let output = run(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.starts_with(concat!("stormglass ", env!("CARGO_PKG_VERSION"), " (librdkafka ")), "{text}");
}

#[test]
fn help_names_every_command_and_says_how_values_win() {
    let text = stdout(&run(&["--help"]));
    for word in [
        "validate",
        "load",
        "audit",
        "reset",
        "dead-letters",
        "state",
        "completions",
        "flag > environment",
        "sysexits.h",
    ] {
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}

#[test]
fn help_names_every_exit_code() {
    let text = stdout(&run(&["--help"]));
    let codes = text.split("Exit codes").nth(1).unwrap_or_default();
    for code in ["1", "64", "65", "66", "69", "70", "73", "74", "75", "77", "78"] {
        assert!(codes.split_whitespace().any(|word| word == code), "{code} is not in\n{codes}");
    }
}

#[test]
fn messages_as_json_are_one_object_a_line_whatever_is_wrong() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "log.format = \"json\"\n").unwrap();
    let file = file.path().to_str().unwrap();
    for (args, code) in [
        (&["walk", "--log-format", "json"][..], 64),
        (&["validate", "--log-format=json", "-X", "nothing"], 64),
        (&["validate", "--log-format", "json", "-c", "/nowhere/at/all.toml"], 78),
        (&["validate", "--log-format", "json"], 78),
        (&["validate", "-c", file], 78),
        (&["load", "-b", "b", "--topic", "t", "--file", "/", "-c", file], 66),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(!said.is_empty(), "{args:?}");
        for line in said.lines() {
            let object: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {said}"));
            assert_eq!(object["level"], "ERROR", "{line}");
        }
    }
}

#[test]
fn completions_offer_the_words_that_a_flag_takes() {
    let script = stdout(&run(&["completions", "bash"]));
    for word in ["no-guarantee", "split-words", "latest-per-key"] {
        assert!(script.contains(word), "{word} is not offered");
    }
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("print-config"), "{shell}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    for args in [&["completions", "bash"][..], &["--help"], &["validate", "--print-config"]] {
        let mut child = stormglass(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(!stderr(&output).contains("panicked"), "{args:?}: {}", stderr(&output));
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    }
}
