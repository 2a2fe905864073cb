//! One Apache Kafka broker for all Kafka tests of a process, however this machine can have one; and the embedded one.
//!
//! A test is a function that takes the broker: `fn(&Broker)` runs beside others, `fn(&mut Broker)` runs alone and may
//! stop and start it. The borrow checker keeps the two apart. One that stops it for long has a broker of its own, so that
//! the others go on meanwhile. Tests register with [`trials!`](crate::trials).
//!
//! `trials` (which broker a test gets), `process` (its start and its end), `tools` (Kafka's own); `topics`, `records`,
//! `groups`: what a test asks of a broker.

mod groups;
mod process;
mod records;
mod tools;
mod topics;
mod trials;

use std::{
    thread,
    time::{Duration, Instant},
};

use rdkafka::{config::ClientConfig, consumer::BaseConsumer};

pub use self::{
    process::Broker,
    records::{Isolation, Record},
    trials::{alone, embedded, embedded_with_java, own, shared, shut_down},
};

/// Longer than any step takes on a busy two-core machine, short enough to see which one hung.
const PATIENCE: Duration = Duration::from_secs(60);

impl Broker {
    /// A client's configuration that knows the address, for whatever a test wants to make of it.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap());
        config
    }

    fn consumer(&self, isolation: Isolation) -> BaseConsumer {
        let isolation = match isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        self.client()
            .set("group.id", "reads-without-committing")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", isolation)
            .create()
            .expect("a consumer")
    }
}

/// Waits for what happens in another process and cannot be waited for otherwise.
pub fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !happens() {
        assert!(Instant::now() < deadline, "did not happen within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Lets time pass that a test is about, an outage of a minute, say; never a way to wait for something.
pub fn pass(span: Duration) {
    thread::sleep(span);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
