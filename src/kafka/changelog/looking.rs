//! Stores as anybody may see them: read from their topics, without taking part.

use std::{sync::Arc, time::Duration};

use crate::{
    kafka::client::{
        ClientError, ErrorKind,
        scan::{ScanClient, ScanFactory, ScanRecord},
    },
    state::{FormatRecord, Position, RecordError, RecordKey},
};

/// Records and longest wait of one read.
const RECORDS: usize = 4096;
const WAIT: Duration = Duration::from_millis(100);

/// A store that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreTopic {
    /// The topic that it is kept in.
    pub topic: Arc<str>,
    /// What it is.
    pub format: FormatRecord,
}

impl StoreTopic {
    /// `COMPONENT/STORE`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}/{}", self.format.component, self.format.store)
    }
}

/// An entry as it was written; a later one of the same key group and key stands in its place.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct EntryRecord<'a> {
    /// Which store it is of: its place in the list that is read.
    pub store: usize,
    /// Its key group.
    pub group: u16,
    /// Its key.
    pub key: &'a [u8],
    /// Its value; `None`: it was deleted.
    pub value: Option<&'a [u8]>,
}

/// Reads stores, as far as they are committed. What is written meanwhile may be seen in part: each key group is read to
/// an end of its own.
pub struct StoreReader {
    scans: ScanFactory,
}

impl std::fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreReader").finish_non_exhaustive()
    }
}

impl StoreReader {
    /// A reader that makes a client for each of its calls.
    #[must_use]
    pub fn new(scans: ScanFactory) -> Self {
        Self { scans }
    }

    /// The stores of an app among topics, in the order of their names. A topic that only has such a name is none.
    ///
    /// # Errors
    /// A topic cannot be read, or a later program has written it.
    pub fn stores(&self, app: &str, topics: impl IntoIterator<Item = String>) -> Result<Vec<StoreTopic>, ClientError> {
        let prefix = format!("{app}-");
        let named = |topic: &String| topic.starts_with(&prefix) && topic.ends_with("-changelog");
        let topics: Vec<Arc<str>> = topics.into_iter().filter(named).map(Arc::from).collect();
        let mut found = Vec::new();
        if topics.is_empty() {
            return Ok(found);
        }
        let mut unusable = None;
        let mut scan = (self.scans)()?;
        scan.start(&topics, Some(0));
        read_all(&mut *scan, &mut |record| {
            let Some(topic) = topics.get(record.topic) else { return };
            if let (Some(RecordKey::Format), Some(value)) = (record.key.and_then(RecordKey::decode), record.value) {
                match FormatRecord::decode(value) {
                    Ok(format) if format.app == app => found.push(StoreTopic { topic: Arc::clone(topic), format }),
                    Ok(_) => {}
                    Err(error) => {
                        unusable.get_or_insert(unreadable(topic, &error));
                    }
                }
            }
        })?;
        found.sort_by_key(StoreTopic::name);
        unusable.map_or(Ok(found), Err)
    }

    /// Hands every record of an entry to `each`, in the order of writing within a key group; returns the position that
    /// the stores have come to, if the first one of the app is among them.
    ///
    /// # Errors
    /// A topic cannot be read, or a later program has written it.
    pub fn read(
        &self,
        stores: &[StoreTopic],
        each: &mut dyn FnMut(EntryRecord<'_>),
    ) -> Result<Option<Position>, ClientError> {
        let topics: Vec<Arc<str>> = stores.iter().map(|store| Arc::clone(&store.topic)).collect();
        let mut position: Option<Position> = None;
        let mut unusable = None;
        let mut scan = (self.scans)()?;
        scan.start(&topics, None);
        read_all(&mut *scan, &mut |record| match (record.key.and_then(RecordKey::decode), record.value) {
            (Some(RecordKey::Entry(key)), value) => {
                let group = u16::try_from(record.partition).unwrap_or(u16::MAX);
                each(EntryRecord { store: record.topic, group, key, value });
            }
            (Some(RecordKey::Position), Some(value)) => match Position::decode(value) {
                Ok(newer) if position.as_ref().is_none_or(|known| known.commit <= newer.commit) => {
                    position = Some(newer);
                }
                Ok(_) => {}
                Err(error) => {
                    let topic = topics.get(record.topic).map_or("", |topic| &**topic);
                    unusable.get_or_insert(unreadable(topic, &error));
                }
            },
            _ => {}
        })?;
        unusable.map_or(Ok(position), Err)
    }
}

fn read_all(scan: &mut dyn ScanClient, each: &mut dyn FnMut(&ScanRecord<'_>)) -> Result<(), ClientError> {
    while !scan.read(RECORDS, WAIT, each)? {}
    Ok(())
}

fn unreadable(topic: &str, error: &RecordError) -> ClientError {
    ClientError::new(ErrorKind::Config, format!("topic {topic:?}: {error}"))
}
