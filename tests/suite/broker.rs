//! `stormglass broker` as a parent process meets it.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::binary::stormglass;

/// A broker that ends with the test.
pub struct Started(Child);

impl Started {
    /// Of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = stormglass(&["broker"]);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts one; returns where it listens.
pub fn start(arguments: &[&str]) -> (Started, SocketAddr) {
    let mut broker = Started(command(arguments).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(broker.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line:?}"));
    (broker, address.parse().unwrap())
}

fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn it_says_where_it_listens_and_what_it_is_and_ends_on_a_signal() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (mut broker, address) = start(&["--listen", "127.0.0.1:0"]);
        let mut client = TcpStream::connect(address).unwrap();
        // ApiVersions, version 0.
        client.write_all(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff").unwrap();
        let mut answer = [0; 10];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer[4..], [0, 0, 0, 1, 0, 0], "correlation id and no error");

        kill(Pid::from_raw(broker.0.id().try_into().unwrap()), signal).unwrap();
        assert_eq!(broker.0.wait().unwrap().code(), Some(0));
        let mut said = String::new();
        broker.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.contains("for demos and tests: it keeps everything in memory"), "{said}");
        assert!(TcpStream::connect(address).is_err(), "ended, yet something listens");
    }
}

#[test]
fn a_stderr_that_nobody_reads_stops_nobody() {
    let (mut broker, address) = start(&["--listen", "127.0.0.1:0"]);
    // More messages than a pipe holds.
    for _ in 0..1_500 {
        TcpStream::connect(address).unwrap().write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    }
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff").unwrap();
    client.read_exact(&mut [0; 10]).unwrap();
    kill(Pid::from_raw(broker.0.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(broker.0.wait().unwrap().code(), Some(0));
}

#[test]
fn an_address_in_use_is_one_sentence_and_69() {
    let (_broker, address) = start(&["--listen", "127.0.0.1:0"]);
    let (code, said) = refused(&["--listen", &address.to_string()]);
    let sentence =
        format!("stormglass: {address} is in use by another process: choose another with --listen IP:PORT\n");
    assert_eq!((code, said), (Some(69), sentence));
}

#[test]
fn other_machines_are_let_in_only_if_it_is_said() {
    let (code, said) = refused(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("say --allow-remote if they may"), "{said}");
    let (code, said) = refused(&["--listen", "0.0.0.0:0", "--allow-remote"]);
    assert_eq!(code, Some(64));
    assert!(said.contains("say with --advertise HOST where clients find the broker"), "{said}");
    start(&["--listen", "0.0.0.0:0", "--allow-remote", "--advertise", "localhost"]);
}

#[test]
fn it_ends_with_its_parent_if_it_is_told_so() {
    let mut broker =
        Started(command(&["--listen", "127.0.0.1:0", "--until-stdin-ends"]).stdin(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(broker.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(broker.0.try_wait().unwrap().is_none(), "it runs as long as its parent does");
    // As the kernel does for a parent that is gone.
    drop(broker.0.stdin.take());
    assert_eq!(broker.0.wait().unwrap().code(), Some(0));
}

#[test]
fn topics_are_made_before_anybody_is_let_in() {
    let (_broker, address) = start(&["--listen", "127.0.0.1:0", "--topic", "words:3", "--topic", "counts"]);
    let mut client = TcpStream::connect(address).unwrap();
    // Metadata of all topics, version 1.
    client.write_all(b"\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff").unwrap();
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    client.read_exact(&mut answer).unwrap();
    for name in ["words", "counts"] {
        assert!(answer.windows(name.len()).any(|bytes| bytes == name.as_bytes()), "{name} is not there");
    }
    for (topic, sentence) in [("a b", "topic a b cannot be made: "), ("words:0", "with one partition or more")] {
        let (code, said) = refused(&["--listen", "127.0.0.1:0", "--topic", topic]);
        assert_eq!(code, Some(64), "{said}");
        assert!(said.contains(sentence), "{said}");
    }
}
