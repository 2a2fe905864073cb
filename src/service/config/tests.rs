use std::{fs, path::PathBuf};

use super::*;
use crate::service::{
    cli::{Global, Pipeline},
    flags,
};

fn env(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn minimal() -> Pipeline {
    Pipeline { input: vec!["lines".to_owned()], output: Some("counts".to_owned()), ..Pipeline::default() }
}

fn file_of(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    file
}

fn validated(global: &Global, line: &Pipeline, variables: &[(&str, &str)]) -> Result<Settings, Problems> {
    let sources = flags::sources(global, line, env(variables));
    let loaded = load(&sources)?;
    pipeline(&loaded, &|name| sources.variable(name))
}

/// All mistakes of `toml`, with a broker and topics that are right unless it says otherwise.
fn mistakes(toml: &str) -> Vec<String> {
    let file = file_of(toml);
    let global = Global { config: Some(file.path().to_owned()), ..Global::default() };
    let defaults = [
        ("STORMGLASS_KAFKA__BROKERS", "localhost:9092", "brokers"),
        ("STORMGLASS_SOURCE__TOPICS", "lines", "topics"),
        ("STORMGLASS_SINK__TOPIC", "counts", "topic ="),
    ];
    let unset = defaults.iter().filter(|(_, _, field)| !toml.contains(field)).map(|(name, value, _)| (*name, *value));
    let unset: Vec<_> = unset.collect();
    let problems = validated(&global, &Pipeline::default(), &unset).expect_err("it is all right");
    problems.0.iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = file_of("[engine]\nexecutors = 2\nbatch_rows = 2\ncommit_interval_ms = 2\n");
    let variables = [("STORMGLASS_ENGINE__EXECUTORS", "3"), ("STORMGLASS_ENGINE__BATCH_ROWS", "3")];
    let global = Global {
        config: Some(file.path().to_owned()),
        set: vec!["engine.executors=4".to_owned()],
        brokers: Some("b:1".to_owned()),
        ..Global::default()
    };
    let settings = validated(&global, &minimal(), &variables).unwrap();
    assert_eq!(settings.engine.executors.unwrap().get(), 4, "the flag");
    assert_eq!(settings.engine.batch_rows, 3, "the environment");
    assert_eq!(settings.engine.commit_interval.as_millis(), 2, "the file");
    assert_eq!(settings.engine.drain_timeout.as_millis(), 30_000, "the default");
}

#[test]
fn the_effective_configuration_names_origins_and_reads_back() {
    let file = file_of("[engine]\nbatch_rows = 7\n[topology_options]\ncount_tasks = 3\n");
    let global = Global {
        config: Some(file.path().to_owned()),
        property: vec!["security.protocol=SSL".to_owned()],
        brokers: Some("b:1".to_owned()),
        ..Global::default()
    };
    let sources = flags::sources(&global, &minimal(), env(&[("STORMGLASS_SINK__EMIT", "every")]));
    let text = effective(&load(&sources).unwrap().layers);
    for line in [
        format!("batch_rows = 7  # file {}", file.path().display()),
        "emit = \"every\"  # environment STORMGLASS_SINK__EMIT".to_owned(),
        "topic = \"counts\"  # flag --output".to_owned(),
        "\"security.protocol\" = \"SSL\"  # flag -X security.protocol".to_owned(),
        "\"count_tasks\" = \"3\"  # file ".to_owned() + &file.path().display().to_string(),
        "executors = 0  # default".to_owned(),
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line} in\n{text}");
    }
    let again = file_of(&text);
    let global = Global { config: Some(again.path().to_owned()), ..Global::default() };
    assert_eq!(validated(&global, &Pipeline::default(), &[]).unwrap().engine.batch_rows, 7);
}

#[test]
fn all_mistakes_come_at_once_with_their_paths() {
    let found = mistakes(
        "topolgy = \"x\"\ndelivery = \"exactly-once\"\n[engine]\nexecutors = -1\nbatch_rows = \"many\"\n[sink]\ntopic = \"a b\"\n",
    );
    assert_eq!(
        found,
        [
            "engine.batch_rows: must be a whole number, not \"many\" (a string)",
            "topolgy: unknown key; did you mean topology?",
            "engine.executors: -1 is out of range: at least 0, at most 1024",
            "delivery: delivery \"exactly-once\" is not in this release; use \"at-least-once\", which counts every repeat",
            "sink.topic: \"a b\" is no name for a topic: at most 249 of a-z, A-Z, 0-9, dot, underscore and hyphen",
            "source.dead_letter_topic: \"a b-dead-letters\" is no name for a topic: at most 249 of a-z, A-Z, 0-9, dot, \
             underscore and hyphen",
        ]
    );
}

#[test]
fn contradictions_are_refused() {
    for (toml, part) in [
        ("[source]\njson_pointer = \"/a\"", "source.json_pointer: has no meaning for text"),
        ("[source]\nformat = \"json\"\njson_pointer = \"a\"", "\"a\" is no JSON pointer"),
        ("delivery = \"at-most-once\"\n[source]\nmax_retries = 2", "source.max_retries: contradicts delivery"),
        ("[source]\nretry_backoff_ms = 50000", "longer than source.retry_backoff_max_ms = 10000"),
        ("[engine]\ntree_timeout_ms = 50\nflush_interval_ms = 50", "engine.tree_timeout_ms: 50 ms is not longer"),
        ("[engine]\ndrain_timeout_ms = 50", "engine.drain_timeout_ms: 50 ms is shorter"),
        ("[http]\nenabled = false\nlisten = \"127.0.0.1:1\"", "http.listen: contradicts"),
        ("[http]\nlisten = \"localhost\"", "http.listen: \"localhost\" is no address"),
    ] {
        let found = mistakes(toml);
        assert_eq!(found.len(), 1, "{toml}: {found:?}");
        assert!(found[0].contains(part), "{toml}: {found:?}");
    }
}

#[test]
fn a_topic_may_not_feed_itself() {
    for (toml, part) in [
        ("source.topics = [\"t\"]\nsink.topic = \"t\"", "sink.topic: \"t\" is also read"),
        ("source.topics = [\"^c.*\"]\nsink.topic = \"counts\"", "sink.topic: \"counts\" is also read"),
        ("source.topics = [\"a\"]\nsource.dead_letter_topic = \"a\"", "source.dead_letter_topic: \"a\" is also read"),
        ("source.dead_letter_topic = \"o\"\nsink.topic = \"o\"", "is also the output topic"),
        ("source.topics = [\"a\", \"b\", \"a\"]", "source.topics: \"a\" is there twice"),
        ("source.topics = [\"^(\"]", "source.topics: \"^(\" is no regular expression"),
    ] {
        let found = mistakes(toml);
        assert!(found.iter().any(|mistake| mistake.contains(part)), "{toml}: {found:?}");
    }
}

#[test]
fn what_has_no_default_is_asked_for() {
    let problems = validated(&Global::default(), &Pipeline::default(), &[]).unwrap_err();
    let paths: Vec<_> = problems.0.iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["kafka.brokers", "source.topics", "sink.topic"]);
}

#[test]
fn brokers_are_addresses() {
    for wrong in ["localhost:", "localhost:http", ":9092", "local host:9092", "localhost:0", "localhost:70000"] {
        let found = mistakes(&format!("kafka.brokers = [\"{wrong}\"]"));
        assert!(found[0].contains("is no address of a broker"), "{wrong}: {found:?}");
    }
    for right in ["localhost", "kafka-1.example.com:9093", "SASL_SSL://b:9094", "[::1]:9092", "10.0.0.1:9092"] {
        let global = Global { brokers: Some(right.to_owned()), ..Global::default() };
        assert!(validated(&global, &minimal(), &[]).is_ok(), "{right}");
    }
}

#[test]
fn a_syntax_error_names_the_line_and_does_not_show_it() {
    let file = file_of("[kafka]\nproperties = { \"sasl.password\" = \"canary }\n");
    let global = Global { config: Some(file.path().to_owned()), ..Global::default() };
    let message = validated(&global, &minimal(), &[]).unwrap_err().to_string();
    assert!(message.contains("line 2 is no TOML") && !message.contains("canary"), "{message}");
}

#[test]
fn a_secret_comes_from_its_owners_file_or_the_environment() {
    use std::os::unix::fs::PermissionsExt as _;
    let secret = file_of("canary\n");
    let with =
        |property: String| Global { property: vec![property], brokers: Some("b:1".to_owned()), ..Global::default() };
    let by_file = with(format!("sasl.password_file={}", secret.path().display()));

    let settings = validated(&by_file, &minimal(), &[]).unwrap();
    assert!(settings.kafka.consumer().any(|p| p == ("sasl.password", "canary")));
    assert!(!format!("{settings:?}").contains("canary"));

    let by_env = with("sasl.password_env=KAFKA_PASSWORD".to_owned());
    assert!(validated(&by_env, &minimal(), &[("KAFKA_PASSWORD", "canary")]).is_ok());
    let message = validated(&by_env, &minimal(), &[]).unwrap_err().to_string();
    assert!(message.contains("the environment variable KAFKA_PASSWORD is not set: export it"), "{message}");

    fs::set_permissions(secret.path(), fs::Permissions::from_mode(0o644)).unwrap();
    let message = validated(&by_file, &minimal(), &[]).unwrap_err().to_string();
    assert!(message.contains("may be read by every user (mode 644): run chmod 600"), "{message}");

    let direct = with("sasl.password=canary".to_owned());
    let message = validated(&direct, &minimal(), &[]).unwrap_err().to_string();
    assert!(message.contains("is a secret and may not stand here") && !message.contains("canary"), "{message}");
}

#[test]
fn properties_that_a_setting_decides_are_refused() {
    for (property, setting) in [("group.id", "kafka.group"), ("bootstrap.servers", "kafka.brokers")] {
        let found = mistakes(&format!("[kafka.consumer_properties]\n{property} = \"x\""));
        assert_eq!(found, [format!("kafka.consumer_properties.{property}: is decided by {setting}: set that instead")]);
    }
}

#[test]
fn the_shipped_example_is_valid() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/word-count.toml");
    let global = Global { config: Some(path), ..Global::default() };
    assert!(validated(&global, &Pipeline::default(), &[]).is_ok());
}

/// Run with `STORMGLASS_WRITE_REFERENCE=1` to write the file anew.
#[test]
fn the_reference_is_up_to_date_and_holds_the_defaults() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("config/reference.toml");
    if std::env::var_os("STORMGLASS_WRITE_REFERENCE").is_some() {
        fs::write(&path, reference()).unwrap();
    }
    let file = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        file == reference(),
        "config/reference.toml is out of date: set STORMGLASS_WRITE_REFERENCE=1 and test again"
    );
    let global = Global { config: Some(path), brokers: Some("b:1".to_owned()), ..Global::default() };
    let set = validated(&global, &minimal(), &[]).unwrap();
    let unset = validated(&Global { brokers: Some("b:1".to_owned()), ..Global::default() }, &minimal(), &[]).unwrap();
    assert_eq!(set, unset);
}
