//! The client port of a producer that writes in transactions (KIP-98), under an identity of its own.

use std::{sync::Arc, time::Duration};

use super::{ClientError, produce::ProduceBatch};

/// Writes records so that all of a transaction appear, or none.
///
/// One thread makes all calls: `init` until it is done; then `begin`, `produce` and `poll`, and `commit` until it is
/// done; and so on. No call waits longer than its `max_wait`. After an error the client is of no use: what became of its
/// transaction, the next holder of the identity finds out.
pub trait TransactionClient: Send {
    /// Takes the identity: whoever held it before is fenced, and a transaction that it has left is ended. Gets to know
    /// the topics that will be written to. True when that is done; false: call again.
    ///
    /// # Errors
    /// A topic does not exist, access is denied, or the client is broken.
    fn init(&mut self, topics: &[Arc<str>], max_wait: Duration) -> Result<bool, ClientError>;

    /// Begins a transaction. Does not wait.
    ///
    /// # Errors
    /// Another process has the identity, or the client is broken.
    fn begin(&mut self) -> Result<(), ClientError>;

    /// Takes records of `batch` from row `from` on, in order, and says how many. What is not taken (the client's queue
    /// is full) is offered again after [`TransactionClient::poll`]. Does not wait. Each row names its partition.
    ///
    /// # Errors
    /// A record is too large, or its topic or partition does not exist.
    fn produce(&mut self, batch: &ProduceBatch, from: usize) -> Result<usize, ClientError>;

    /// Serves acknowledgements, waiting at most `max_wait` for the first, so that there is room for more records.
    ///
    /// # Errors
    /// A record was not delivered, or the client is broken.
    fn poll(&mut self, max_wait: Duration) -> Result<(), ClientError>;

    /// Sends what was produced and commits it. True: every reader sees it. False: it goes on, call again.
    ///
    /// # Errors
    /// The transaction was not committed, or it is not known whether it was: [`ErrorKind::Fenced`] if another process
    /// has the identity, or if the broker has ended a transaction that outlived its timeout.
    ///
    /// [`ErrorKind::Fenced`]: super::ErrorKind::Fenced
    fn commit(&mut self, max_wait: Duration) -> Result<bool, ClientError>;

    /// Undoes the open transaction, if there is one that no `commit` was called for: for readers it need not time out.
    fn close(&mut self, max_wait: Duration);
}
