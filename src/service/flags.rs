//! From flags to the configuration's highest layer.

use super::{
    cli::{Global, Pipeline},
    config::{Given, Problem, Sources},
};

/// A path, a value, and the flag as it was written.
type Flag = (String, Given, String);

fn text(path: &str, value: &str, flag: &str) -> Flag {
    (path.to_owned(), Given::Text(value.to_owned()), flag.to_owned())
}

/// What the layers are made of: the file, the environment, and these flags. `env` is the process's environment.
pub(crate) fn sources(global: &Global, pipeline: &Pipeline, env: Vec<(String, String)>) -> Sources {
    let mut sources = Sources { file: global.config.clone(), env, ..Sources::default() };
    pairs(&mut sources, &global.set, "--set", "");
    pairs(&mut sources, &global.property, "-X", "kafka.properties.");
    if let Some(brokers) = &global.brokers {
        sources.flags.push(text("kafka.brokers", brokers, "--brokers"));
    }
    if let Some(format) = &global.log_format {
        sources.flags.push(text("log.format", format, "--log-format"));
    }
    let level = match (global.verbose, global.quiet) {
        (0, 0) => None,
        (0, 1) => Some(("warn", "-q")),
        (0, _) => Some(("error", "-qq")),
        (1, _) => Some(("debug", "-v")),
        _ => Some(("trace", "-vv")),
    };
    if let Some((level, flag)) = level {
        sources.flags.push(text("log.level", level, flag));
    }
    sources.flags.extend(of_pipeline(pipeline));
    sources
}

/// `PATH=VALUE` flags. A mistake shows nothing behind the `=`: it may be a secret.
fn pairs(sources: &mut Sources, pairs: &[String], flag: &str, prefix: &str) {
    for pair in pairs {
        match pair.split_once('=') {
            Some((path, value)) if !path.trim().is_empty() => {
                let path = path.trim();
                sources.flags.push(text(&format!("{prefix}{path}"), value, &format!("{flag} {path}")));
            }
            Some(_) => sources.problems.push(Problem::new(flag, "has no name before the =: write NAME=VALUE")),
            // The command line refuses it.
            None => sources.problems.push(Problem::new(flag, "has no =: write NAME=VALUE")),
        }
    }
}

fn of_pipeline(pipeline: &Pipeline) -> Vec<Flag> {
    let single = [
        ("sink.topic", &pipeline.output, "--output"),
        ("topology", &pipeline.topology, "--topology"),
        ("kafka.group", &pipeline.group, "--group"),
        ("delivery", &pipeline.delivery, "--delivery"),
        ("source.dead_letter_topic", &pipeline.dead_letters, "--dead-letters"),
        ("source.format", &pipeline.format, "--format"),
        ("source.json_pointer", &pipeline.json_pointer, "--json-pointer"),
        ("sink.emit", &pipeline.emit, "--emit"),
        ("engine.executors", &pipeline.executors, "--executors"),
        ("http.listen", &pipeline.http, "--http"),
    ];
    let set = |(path, value, flag): (&str, &Option<String>, &str)| value.as_ref().map(|value| text(path, value, flag));
    let mut flags: Vec<Flag> = single.into_iter().filter_map(set).collect();
    if !pipeline.input.is_empty() {
        let topics = pipeline.input.iter().flat_map(|item| topics(item)).map(toml::Value::String).collect();
        flags.push(("source.topics".to_owned(), Given::Toml(toml::Value::Array(topics)), "--input".to_owned()));
    }
    if pipeline.no_http {
        flags.push(text("http.enabled", "false", "--no-http"));
    }
    flags
}

/// `a,b` names two topics; a regular expression may hold commas and is left whole.
pub(crate) fn topics(item: &str) -> Vec<String> {
    if item.starts_with('^') {
        return vec![item.to_owned()];
    }
    item.split(',').map(str::trim).filter(|topic| !topic.is_empty()).map(str::to_owned).collect()
}
