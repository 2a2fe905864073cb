//! Which command does what.

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};
use tracing::Level;
use tracing_appender::non_blocking::WorkerGuard;

use super::{
    audit, broker,
    cli::{Cli, Command, Global, Pipeline},
    config::{self, Loaded, Settings, Sources},
    dead_letters,
    exit::{self, Cause, Failure, Outcome},
    flags, graph, load, logging, output, pipeline, reset, run, sim, state,
};

/// The program: `args` with the program's name first.
#[must_use]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<_> = args.into_iter().collect();
    output::speak_json(logging::is_json_asked(&args, std::env::var_os("STORMGLASS_LOG__FORMAT").as_deref()));
    let outcome = parse(args).and_then(|cli| cli.map_or(Ok(()), |cli| dispatch(&cli)));
    if let Err(Failure { error: Some(error), .. }) = &outcome {
        output::complain(error);
    }
    exit::code(&outcome)
}

/// `None` if help or the version was asked for, and given.
fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, Failure> {
    match Cli::try_parse_from(args) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if error.use_stderr() => {
            if output::is_json() {
                output::say(Level::ERROR, error.render());
            } else {
                error.print().ok();
            }
            Err(Failure::said(Cause::Usage))
        }
        Err(error) => {
            // A closed stdout is no failure of a help text.
            error.print().ok();
            Ok(None)
        }
    }
}

fn dispatch(cli: &Cli) -> Outcome {
    cli.check()?;
    let pipeline = match &cli.command {
        Command::Completions { shell } => return cli.global.configures_nothing().and_then(|()| completions(*shell)),
        // Without messages: a run has thousands, of things that are meant to go wrong.
        Command::Sim(args) => return cli.global.configures_nothing().and_then(|()| sim::sim(&cli.global, args)),
        Command::Validate(pipeline) => pipeline.clone(),
        Command::Run(run) => run.pipeline.clone(),
        Command::Reset(reset) => reset.pipeline.clone(),
        Command::Graph(graph) => Pipeline { topology: graph.topology.clone(), ..Pipeline::default() },
        Command::DeadLetters(args) => {
            let (output, dead_letters) = (args.output.clone(), args.dead_letters.clone());
            Pipeline { output, dead_letters, ..Pipeline::default() }
        }
        Command::State(args) => {
            let (group, topology, output) = (args.group.clone(), args.topology.clone(), args.output.clone());
            Pipeline { group, topology, output, ..Pipeline::default() }
        }
        Command::Load(_) | Command::Audit(_) | Command::Broker(_) => Pipeline::default(),
    };
    let session = Session::new(&cli.global, &pipeline)?;
    if cli.global.print_config {
        return session.print_config();
    }
    match &cli.command {
        Command::Run(args) => run::run(&session, args),
        Command::Graph(args) => graph::graph(&session, args),
        Command::Load(args) => load::load(&session, args),
        Command::Audit(args) => audit::audit(&session, args),
        Command::DeadLetters(args) => dead_letters::dead_letters(&session, args),
        Command::Reset(args) => reset::reset(&session, args),
        Command::State(args) => state::state(&session, args),
        Command::Broker(args) => broker::broker(&session, args),
        Command::Validate(_) => session.validate(),
        Command::Completions { .. } | Command::Sim(_) => Ok(()),
    }
}

impl Cli {
    /// What the parser lets pass: it would show the text without a =, which may be a secret; and it knows of no flag that
    /// some commands alone cannot have.
    fn check(&self) -> Outcome {
        let usage = |sentence: &str| Err(Failure::new(Cause::Usage, sentence));
        for (flag, pairs) in [("--set", &self.global.set), ("-X", &self.global.property)] {
            if pairs.iter().any(|pair| !pair.contains('=')) {
                return usage(&format!("{flag}: it has no =: write NAME=VALUE"));
            }
        }
        match &self.command {
            _ if !self.global.json => Ok(()),
            _ if self.global.print_config => usage("--json: --print-config prints TOML; leave the flag away"),
            Command::Graph(_) => usage("--json: a picture has no such form; say --format text, mermaid or dot instead"),
            Command::Completions { .. } => usage("--json: completions have no such form; leave the flag away"),
            _ => Ok(()),
        }
    }
}

impl Global {
    /// For a command that has no configuration.
    ///
    /// # Errors
    /// Flags say something about one.
    fn configures_nothing(&self) -> Outcome {
        let flags = [
            ("--set", !self.set.is_empty()),
            ("-X", !self.property.is_empty()),
            ("--brokers", self.brokers.is_some()),
            ("--print-config", self.print_config),
        ];
        match flags.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                let sentence = anyhow::anyhow!("{flag}: this command has no configuration; leave the flag away");
                Err(Failure::new(Cause::Usage, sentence))
            }
            None => Ok(()),
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "stormglass", &mut script);
    output::data(&String::from_utf8_lossy(&script))
}

/// One run of the program: its flags and its configuration, with messages already on their way.
#[derive(Debug)]
pub(crate) struct Session<'a> {
    pub(crate) global: &'a Global,
    sources: Sources,
    loaded: Loaded,
    /// Messages are written to the end of the session.
    _messages: WorkerGuard,
}

impl<'a> Session<'a> {
    fn new(global: &'a Global, pipeline: &Pipeline) -> Result<Self, Failure> {
        let sources = flags::sources(global, pipeline, Sources::process_env());
        let loaded = config::load(&sources)?;
        let log = config::log(&loaded);
        output::speak_json(log.json);
        let messages = logging::start(log, global.color);
        Ok(Self { global, sources, loaded, _messages: messages })
    }

    /// The settings of a pipeline.
    ///
    /// # Errors
    /// Every mistake of the configuration.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        Ok(config::pipeline(&self.loaded, &|name| self.sources.variable(name))?)
    }

    /// The name of the topology, whatever else is wrong or missing.
    pub(crate) fn topology(&self) -> String {
        let name = self.loaded.layers.value("topology").and_then(toml::Value::as_str);
        name.unwrap_or_default().to_owned()
    }

    /// The settings of a command that needs no pipeline.
    ///
    /// # Errors
    /// Every mistake of the configuration.
    pub(crate) fn client(&self) -> Result<config::ClientSettings, Failure> {
        Ok(config::client(&self.loaded, &|name| self.sources.variable(name))?)
    }

    /// The settings of a command about dead letters, and their topic.
    ///
    /// # Errors
    /// Every mistake of the configuration.
    pub(crate) fn dead_letters(&self) -> Result<(config::ClientSettings, String), Failure> {
        Ok(config::dead_letters(&self.loaded, &|name| self.sources.variable(name))?)
    }

    /// The settings of a command about an app's state, and the app: its group.
    ///
    /// # Errors
    /// Every mistake of the configuration.
    pub(crate) fn app(&self) -> Result<(config::ClientSettings, String), Failure> {
        Ok(config::app(&self.loaded, &|name| self.sources.variable(name))?)
    }

    /// Prints what counts even if it is wrong: that is when one wants to see it.
    fn print_config(&self) -> Outcome {
        output::data(&config::effective(&self.loaded.layers))?;
        if self.loaded.layers.problems.is_empty() {
            return Ok(());
        }
        Err(config::Problems(self.loaded.layers.problems.clone()).into())
    }

    fn validate(&self) -> Outcome {
        let mut settings = self.settings()?;
        pipeline::settle_identity(&mut settings)?;
        pipeline::check_clients(&settings)?;
        if self.global.json {
            return output::json(&serde_json::json!({ "valid": true, "topology": settings.topology }));
        }
        output::data(&format!(
            "valid: {} reads {} as group {} and writes {}\n",
            settings.topology,
            settings.source.topics.join(", "),
            settings.identity.group,
            settings.sink.topic
        ))
    }
}
