//! Kafka's own tools, and the script that runs Kafka from its jars.

use std::{
    io::{BufRead as _, Write as _},
    process::{Command, Output, Stdio},
};

use super::{Broker, text};

const KAFKA_SH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testcontainers/kafka.sh");

impl Broker {
    /// What one of Kafka's own console tools prints, e.g. `tool("kafka-topics", &["--list"])`.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> String {
        self.in_container(name, arguments).unwrap_or_else(|| self.tool_with_input(name, arguments, ""))
    }

    /// [`Broker::tool`] with something on its standard input. Not inside of Docker.
    pub fn tool_with_input(&self, name: &str, arguments: &[&str], input: &str) -> String {
        let mut tool = self
            .tool_command(name, arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("kafka.sh runs");
        // Short enough for the pipe; dropped, so that the tool sees its end.
        tool.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it is read");
        let output = tool.wait_with_output().expect("the tool ends");
        assert!(output.status.success(), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout)
    }

    /// How one of Kafka's own console tools is started, for whoever does not only wait for its end. A signal to the process is
    /// one to Java's.
    pub fn tool_command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(KAFKA_SH);
        command.args(["tool", name]).args(arguments).env("KAFKA_BOOTSTRAP", self.bootstrap());
        command
    }
}

pub(super) fn kafka_sh(arguments: &[&str]) -> Output {
    Command::new(KAFKA_SH).args(arguments).output().expect("kafka.sh runs")
}

/// What kafka.sh ended with: its last line is the sentence, what stands above are details.
pub(super) fn last_words(output: &Output) -> Result<(), String> {
    let reason = || output.stderr.lines().map_while(Result::ok).last().unwrap_or_default();
    output.status.success().then_some(()).ok_or_else(reason)
}

pub(super) fn succeeded(what: &str, output: Output) {
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
}
