//! The core among its connections: what they ask goes in, what it answers goes to whom it is for, and what it waits for
//! comes in time.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, mpsc};

use crate::{
    broker::core::{Broker, BrokerOptions, ConnectionId, Effect, Request, Response},
    clock::{Clock, Instant},
};

/// What a connection is told.
#[derive(Debug)]
pub(super) enum Word {
    /// Its request's response.
    Response(Box<Response>),
    /// It is over.
    Close,
}

/// A connection has one request at a time, so there is one response, and the end.
const WORDS: usize = 2;

#[derive(Debug)]
struct State {
    core: Broker,
    connections: HashMap<ConnectionId, mpsc::Sender<Word>>,
    next_connection: u64,
    /// What the core wants done: empty between calls, kept for its room.
    effects: Vec<Effect>,
}

/// The core with its connections and its clock.
#[derive(Debug)]
pub(super) struct Hub {
    clock: Clock,
    state: Mutex<State>,
    /// The core may have to be called sooner than was known.
    sooner: Notify,
}

impl Hub {
    pub(super) fn new(options: BrokerOptions) -> Self {
        let state =
            State { core: Broker::new(options), connections: HashMap::new(), next_connection: 0, effects: Vec::new() };
        Self { clock: Clock::system(), state: Mutex::new(state), sooner: Notify::new() }
    }

    /// There is one thread: nobody waits for the lock, and after a panic inside the core the whole server ends.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new connection, and what it will be told; `None`: it is our own.
    pub(super) fn connect(&self, from: Option<IpAddr>) -> (ConnectionId, mpsc::Receiver<Word>) {
        let mut state = self.state();
        let connection = ConnectionId(state.next_connection);
        state.next_connection += 1;
        let (tell, told) = mpsc::channel(WORDS);
        state.connections.insert(connection, tell);
        if let Some(address) = from {
            state.core.connected(connection, address);
        }
        (connection, told)
    }

    /// A connection is no more.
    pub(super) fn disconnect(&self, connection: ConnectionId) {
        let mut state = self.state();
        if state.connections.remove(&connection).is_some() {
            state.core.disconnected(connection);
        }
    }

    /// Hands a request to the core.
    pub(super) fn ask(&self, request: Request) {
        self.with_core(|core, now, effects| core.handle(request, now, effects));
    }

    fn with_core(&self, work: impl FnOnce(&mut Broker, Instant, &mut Vec<Effect>)) {
        let now = self.clock.now();
        let mut state = self.state();
        let State { core, connections, effects, .. } = &mut *state;
        let due = core.due();
        work(core, now, effects);
        for effect in effects.drain(..) {
            let (connection, word) = match effect {
                Effect::Respond(response) => (response.connection, Word::Response(Box::new(response))),
                Effect::Close(connection) => (connection, Word::Close),
            };
            // Whoever does not listen any more is about to say so.
            if let Some(tell) = connections.get(&connection) {
                tell.try_send(word).ok();
            }
        }
        if core.due() < due {
            self.sooner.notify_one();
        }
    }

    /// Calls the core whenever it wants to be called; never returns.
    pub(super) async fn keep_time(&self) {
        loop {
            let due = self.state().core.due();
            let wait = due.saturating_since(self.clock.now());
            // Both may be dropped: the next turn asks again.
            tokio::select! {
                () = self.sooner.notified() => {}
                () = tokio::time::sleep(wait) => self.with_core(Broker::tick),
            }
        }
    }
}
