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

/// A broker that ends with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stormglass"));
    command.arg("broker").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(arguments: &[&str]) -> (Started, SocketAddr) {
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
