//! From the records of the changelog's topics to entries of stores, and what must be there in the end.

use std::{collections::VecDeque, sync::Arc};

use super::opening::Topics;
use crate::{
    kafka::client::scan::ScanRecord,
    state::{Changes, FormatRecord, Position, RESET, RecordKey},
    topology::{ComponentError, ComponentResult, changelog::StoreId},
};

/// Entries of one key group of one store.
type Batch = (StoreId, u16, Changes);

/// What was read so far.
pub(super) struct Restoring {
    stores: Vec<Found>,
    /// The position record of the highest commit. It stands in the first store's topic; an older one may stand in the
    /// topic of a store that was the first one formerly.
    position: Option<Position>,
    batches: VecDeque<Batch>,
    /// The last batch, which still grows: records of one partition come together.
    growing: Option<Batch>,
    refusal: Option<ComponentError>,
    /// Nothing more is to be read.
    pub(super) read_all: bool,
}

/// What was found in the topic of one store.
struct Found {
    topic: Arc<str>,
    expected: FormatRecord,
    format: bool,
    entries: bool,
}

/// What a refusal ends with: a state that is whole again, or none.
const ADVICE: &str = "Restore the topic from a copy, or start anew:";

impl Restoring {
    pub(super) fn new(topics: &Topics) -> Self {
        let found = |(topic, expected): (&Arc<str>, &FormatRecord)| Found {
            topic: Arc::clone(topic),
            expected: expected.clone(),
            format: false,
            entries: false,
        };
        Self {
            stores: topics.names().iter().zip(topics.formats()).map(found).collect(),
            position: None,
            batches: VecDeque::new(),
            growing: None,
            refusal: None,
            read_all: false,
        }
    }

    /// Takes a record. One that does not belong there is remembered for [`Restoring::refused`].
    #[inline]
    pub(super) fn take(&mut self, record: &ScanRecord<'_>) {
        match record.key.and_then(RecordKey::decode) {
            Some(RecordKey::Entry(key)) => self.take_entry(record, key),
            other => {
                let taken = self.take_other(record, other);
                if let Err(refusal) = taken {
                    self.refusal.get_or_insert(refusal);
                }
            }
        }
    }

    fn take_entry(&mut self, record: &ScanRecord<'_>, key: &[u8]) {
        let Ok(group) = u16::try_from(record.partition) else { return };
        let store = StoreId(record.topic);
        if let Some((of, at, entries)) = &mut self.growing
            && (*of, *at) == (store, group)
            && entries.push(group, key, record.value)
        {
            return;
        }
        if let Some(found) = self.stores.get_mut(record.topic) {
            found.entries = true;
        }
        let mut entries = Changes::default();
        // The first entry of a batch always has room.
        let _: bool = entries.push(group, key, record.value);
        self.batches.extend(self.growing.replace((store, group, entries)));
    }

    fn take_other(&mut self, record: &ScanRecord<'_>, key: Option<RecordKey<'_>>) -> ComponentResult {
        let Some(found) = self.stores.get_mut(record.topic) else { return Ok(()) };
        let topic = Arc::clone(&found.topic);
        let unusable = |error| ComponentError::refused(format!("topic {topic:?}: {error}"));
        match (key, record.value) {
            (Some(RecordKey::Format), Some(value)) => {
                let format = FormatRecord::decode(value).map_err(unusable)?;
                found.expected.check(&format).map_err(unusable)?;
                found.format = true;
                Ok(())
            }
            (Some(RecordKey::Position), Some(value)) => {
                let position = Position::decode(value).map_err(unusable)?;
                if self.position.as_ref().is_none_or(|known| known.commit <= position.commit) {
                    self.position = Some(position);
                }
                Ok(())
            }
            _ => Err(ComponentError::refused(format!(
                "topic {:?} has a record in partition {} that is none of a changelog: another program has written to it. \
                 Stop that program. {ADVICE} {RESET}",
                found.topic, record.partition
            ))),
        }
    }

    /// Whether what was read can be used.
    ///
    /// # Errors
    /// The first record that cannot.
    pub(super) fn refused(&mut self) -> ComponentResult {
        self.refusal.take().map_or(Ok(()), Err)
    }

    /// Whether there is no batch to hand over.
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.growing.is_none()
    }

    /// The next batch, in the order of reading.
    pub(super) fn next(&mut self) -> Option<Batch> {
        self.batches.pop_front().or_else(|| self.growing.take())
    }

    /// The position of a state that is whole, `None` if there is none at all.
    ///
    /// # Errors
    /// Something is missing.
    pub(super) fn finish(self) -> ComponentResult<Option<Position>> {
        let nothing = |found: &Found| !found.format && !found.entries;
        if self.position.is_none() && self.stores.iter().all(nothing) {
            return Ok(None);
        }
        let sentence = match (self.stores.iter().find(|found| !found.format), &self.position) {
            (None, Some(_)) => return Ok(self.position),
            (Some(Found { topic, entries: true, .. }), _) => {
                format!("the changelog topic {topic:?} has entries, but no format record says whose they are")
            }
            (Some(Found { topic, .. }), Some(Position { commit, .. })) => format!(
                "the changelog topic {topic:?} is empty, but the other stores have a state, of commit {commit}: it was \
                 deleted, or its store is new and would begin in the middle"
            ),
            (Some(Found { topic, .. }), None) => {
                format!("the changelog topic {topic:?} is empty, but others are not: it was deleted")
            }
            (None, None) => {
                let topics: Vec<_> = self.stores.iter().map(|found| format!("{:?}", found.topic)).collect();
                format!("there is a state in {}, but no position record says how far it has come", topics.join(", "))
            }
        };
        Err(ComponentError::refused(format!("{sentence}. {ADVICE} {RESET}")))
    }
}
