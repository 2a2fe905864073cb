//! Batches as clients make them, by another encoder than ours: for tests.

use bytes::{Bytes, BytesMut};
use indexmap::IndexMap;
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType,
};

/// When a record was made unless a test says otherwise, in milliseconds since 1970.
pub(in crate::broker) const DATED_MS: i64 = 1_000_000_000_000;

/// A batch as a client makes it.
#[derive(Clone, Debug)]
pub(in crate::broker) struct Sample {
    pub(in crate::broker) records: Vec<(Option<String>, Option<String>)>,
    /// Id, epoch, first sequence.
    pub(in crate::broker) producer: Option<(i64, i16, i32)>,
    pub(in crate::broker) transactional: bool,
    pub(in crate::broker) codec: Compression,
    /// Of the first record; each one after it is a millisecond later.
    pub(in crate::broker) timestamp: i64,
}

impl Sample {
    pub(in crate::broker) fn new(records: &[(Option<&str>, Option<&str>)]) -> Self {
        let owned = |text: &Option<&str>| text.map(str::to_owned);
        Self {
            records: records.iter().map(|(key, value)| (owned(key), owned(value))).collect(),
            producer: None,
            transactional: false,
            codec: Compression::None,
            timestamp: DATED_MS,
        }
    }

    /// Records without keys.
    pub(in crate::broker) fn values(values: &[&str]) -> Self {
        Self::new(&values.iter().map(|value| (None, Some(*value))).collect::<Vec<_>>())
    }

    pub(in crate::broker) fn by(self, id: i64, epoch: i16, sequence: i32) -> Self {
        Self { producer: Some((id, epoch, sequence)), ..self }
    }

    pub(in crate::broker) fn transactional(self) -> Self {
        Self { transactional: true, ..self }
    }

    pub(in crate::broker) fn packed(self, codec: Compression) -> Self {
        Self { codec, ..self }
    }

    pub(in crate::broker) fn at(self, timestamp: i64) -> Self {
        Self { timestamp, ..self }
    }

    pub(in crate::broker) fn encode(&self) -> Bytes {
        let (producer_id, producer_epoch, first) = self.producer.unwrap_or((-1, -1, -1));
        let bytes = |text: &Option<String>| text.as_ref().map(|text| Bytes::from(text.clone()));
        let records = (0..).zip(&self.records).map(|(offset, (key, value))| Record {
            transactional: self.transactional,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id,
            producer_epoch,
            timestamp_type: TimestampType::Creation,
            offset,
            sequence: first.wrapping_add(i32::try_from(offset).unwrap()),
            timestamp: self.timestamp + offset,
            key: bytes(key),
            value: bytes(value),
            headers: IndexMap::new(),
        });
        let mut encoded = BytesMut::new();
        let options = RecordEncodeOptions { version: 2, compression: self.codec };
        RecordBatchEncoder::encode(&mut encoded, &records.collect::<Vec<_>>(), &options).unwrap();
        encoded.freeze()
    }
}
