//! The client port of whoever reads whole topics, once.

use std::{sync::Arc, time::Duration};

use super::ClientError;

/// A record on its way; borrowed for one call.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ScanRecord<'a> {
    /// Which topic it is of: its place in the list that the scan was started with.
    pub topic: usize,
    /// Its partition.
    pub partition: i32,
    /// Its key; `None` is null.
    pub key: Option<&'a [u8]>,
    /// Its value; `None` is null (a tombstone).
    pub value: Option<&'a [u8]>,
}

/// Makes a client for each scan.
pub type ScanFactory = Arc<dyn Fn() -> Result<Box<dyn ScanClient>, ClientError> + Send + Sync>;

/// Reads topics from their first records to their ends, as far as they are committed. It belongs to no group and leaves
/// no trace on the broker.
pub trait ScanClient: Send {
    /// Begins to read these topics: all partitions, or `only` one. Does not wait. To be called once.
    fn start(&mut self, topics: &[Arc<str>], only: Option<i32>);

    /// Hands over what has come, at most `max_records` records, in the order of the offsets within a partition, waiting
    /// at most `max_wait` for the first. True when every partition was read to an end that it had after the start.
    ///
    /// # Errors
    /// A topic does not exist, access is denied, nothing came for a long time.
    fn read(
        &mut self,
        max_records: usize,
        max_wait: Duration,
        each: &mut dyn FnMut(&ScanRecord<'_>),
    ) -> Result<bool, ClientError>;

    /// Offsets that are still to be passed, `None` while that is not known. Not each holds a record.
    fn remaining(&self) -> Option<u64>;

    /// Gives it up, without waiting for what that takes. Default: that is nothing.
    fn end(self: Box<Self>) {}
}
