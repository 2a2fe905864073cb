//! The real program as a child process: started, signalled, asked over HTTP, and never left behind.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::broker::{Broker, eventually};

/// Longest life of a process that is to end by itself, on a machine where other trials run beside it.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a process left: its exit code (`None`: a signal ended it) and what it said.
#[derive(Debug)]
pub struct Finished {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// For commands that are to succeed.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// The object that `--json` prints.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// A number of that object.
    #[track_caller]
    pub fn number(&self, field: &str) -> u64 {
        self.json()[field].as_u64().unwrap_or_else(|| panic!("no {field}: {self:#?}"))
    }
}

type Text = Arc<Mutex<Vec<u8>>>;

/// A process that runs. It is killed when this is dropped, so a failed trial leaves none.
#[derive(Debug)]
pub struct Process {
    child: Child,
    readers: Vec<JoinHandle<()>>,
    stdout: Text,
    stderr: Text,
}

impl Process {
    /// Starts `stormglass` with these arguments and none of our environment's settings.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_stormglass")), arguments)
    }

    /// Starts another program in the same way.
    pub fn start_program(program: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("STORMGLASS_")) {
            command.env_remove(name);
        }
        // Lock files are no business of the machine's.
        command.env("STATE_DIRECTORY", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));
        command.args(arguments);
        Self::spawn(command)
    }

    /// Starts this.
    pub fn spawn(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (stdout, stderr) = (Text::default(), Text::default());
        let readers = vec![
            collect(child.stdout.take().expect("its stdout"), Arc::clone(&stdout)),
            collect(child.stderr.take().expect("its stderr"), Arc::clone(&stderr)),
        ];
        Self { child, readers, stdout, stderr }
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the process lives");
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    pub fn stderr(&self) -> String {
        text(&self.stderr)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process can be waited for")
    }

    /// Its end, which has to come by itself.
    #[track_caller]
    pub fn wait(mut self) -> Finished {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.status() {
                break status;
            }
            assert!(Instant::now() < deadline, "still running after {PATIENCE:?}; it said: {}", self.stderr());
            thread::sleep(Duration::from_millis(5));
        };
        for reader in self.readers.drain(..) {
            reader.join().expect("a reader of its output");
        }
        Finished { code: status.code(), stdout: text(&self.stdout), stderr: text(&self.stderr) }
    }

    /// Waits until it has said `words` on stderr.
    #[track_caller]
    pub fn says(&mut self, words: &str) {
        eventually(&format!("it says {words:?}"), || {
            assert!(self.is_running() || self.stderr().contains(words), "ended, and said only: {}", self.stderr());
            self.stderr().contains(words)
        });
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing happens if it has ended.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn collect(mut from: impl Read + Send + 'static, into: Text) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
        }
    })
}

fn text(bytes: &Text) -> String {
    String::from_utf8_lossy(&bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}

/// A number that the environment may set, for longer runs by hand.
pub fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// A command that ends by itself, against the broker.
#[track_caller]
pub fn stormglass(broker: &Broker, command: &str, arguments: &[&str]) -> Finished {
    let brokers = ["--brokers", broker.bootstrap()];
    Process::start(&[&[command], &brokers[..], arguments].concat()).wait()
}

/// A topology between two topics, under a group of its own. The output topic is not there yet.
#[derive(Debug, Clone)]
pub struct Job {
    pub brokers: String,
    pub input: String,
    pub output: String,
    pub group: String,
    /// What else `run` gets.
    pub flags: Vec<String>,
}

impl Job {
    pub fn new(broker: &Broker, input: &str, flags: &[&str]) -> Self {
        Self {
            brokers: broker.bootstrap().to_owned(),
            input: input.to_owned(),
            output: broker.unique("output"),
            group: broker.unique("group"),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        }
    }

    pub fn dead_letters(&self) -> String {
        format!("{}-dead-letters", self.output)
    }

    /// Starts it, with more flags. It serves HTTP only if these say where.
    pub fn start(&self, flags: &[&str]) -> Process {
        let mut arguments = vec!["run", "--json", "--brokers", &self.brokers];
        arguments.extend(["--input", &self.input, "--output", &self.output, "--group", &self.group]);
        arguments.extend(self.flags.iter().map(String::as_str).chain(flags.iter().copied()));
        if !flags.contains(&"--http") {
            arguments.push("--no-http");
        }
        Process::start(&arguments)
    }

    /// Runs it to the end of its input.
    #[track_caller]
    pub fn to_the_end(&self) -> Finished {
        self.start(&["--until-end"]).wait()
    }

    /// `audit` of its two topics.
    #[track_caller]
    pub fn audit(&self, flags: &[&str]) -> Finished {
        let arguments =
            ["audit", "--json", "--brokers", &self.brokers, "--input", &self.input, "--output", &self.output];
        Process::start(&[&arguments[..], flags].concat()).wait()
    }

    /// `audit` finds every word as often as it should be, no more and no less.
    #[track_caller]
    pub fn is_exact(&self, flags: &[&str]) -> Finished {
        let audit = self.audit(flags);
        assert_eq!((audit.number("missing"), audit.number("surplus"), audit.code), (0, 0, Some(0)), "{audit:#?}");
        audit
    }
}

/// Makes a topic of lines with `load`; its name.
#[track_caller]
pub fn load(broker: &Broker, arguments: &[&str]) -> String {
    let topic = broker.unique("lines");
    stormglass(broker, "load", &[&["--topic", &topic], arguments].concat()).succeeded();
    topic
}

/// An address on which nothing listens.
pub fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its number").to_string()
}

/// A server that speaks HTTP and nothing else, for as long as the process lives; its address.
pub fn web_server() -> String {
    let web = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = web.local_addr().expect("its number").to_string();
    thread::spawn(move || {
        for mut peer in web.incoming().flatten() {
            let mut request = [0; 64];
            if peer.read(&mut request).is_ok() {
                peer.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").ok();
            }
        }
    });
    address
}

/// Status and body of an answer; `None` if nobody answers (yet).
pub fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let address: SocketAddr = address.parse().expect("an address");
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

/// The sum of a metric over its labels.
pub fn metric(address: &str, name: &str) -> f64 {
    let Some((200, body)) = get(address, "/metrics") else { return 0.0 };
    let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    body.lines().filter(of_name).filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
