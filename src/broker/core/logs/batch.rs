//! The header of a record batch, format v2 (KIP-98): read without its records, and the few fields a broker may write.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::records::Compression;

/// Bytes before the first record.
pub(super) const OVERHEAD: usize = 61;
/// Bytes before those that the batch's length counts.
pub(super) const LOG_OVERHEAD: usize = 12;
/// Where the magic is, in every format that there was.
pub(super) const MAGIC_AT: usize = 16;
const LEADER_EPOCH_AT: usize = 12;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

const COMPRESSION: i16 = 0b111;
const LOG_APPEND_TIME: i16 = 1 << 3;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

/// What a batch says of itself.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) base_offset: i64,
    /// Of the whole batch, in bytes.
    pub(super) size: usize,
    pub(super) leader_epoch: i32,
    pub(super) crc: u32,
    pub(super) attributes: i16,
    pub(super) last_offset_delta: i32,
    pub(super) base_timestamp: i64,
    pub(super) max_timestamp: i64,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
    pub(super) count: i32,
}

impl Header {
    /// Reads a header; `None` if there are fewer bytes than one has. Nothing is checked.
    pub(super) fn read(mut bytes: &[u8]) -> Option<Self> {
        if bytes.len() < OVERHEAD {
            return None;
        }
        let base_offset = bytes.get_i64();
        let size = usize::try_from(bytes.get_i32()).unwrap_or(0) + LOG_OVERHEAD;
        let leader_epoch = bytes.get_i32();
        bytes.advance(1);
        Some(Self {
            base_offset,
            size,
            leader_epoch,
            crc: bytes.get_u32(),
            attributes: bytes.get_i16(),
            last_offset_delta: bytes.get_i32(),
            base_timestamp: bytes.get_i64(),
            max_timestamp: bytes.get_i64(),
            producer_id: bytes.get_i64(),
            producer_epoch: bytes.get_i16(),
            base_sequence: bytes.get_i32(),
            count: bytes.get_i32(),
        })
    }

    /// The codec of the records; `None` if there is none with that number.
    pub(super) const fn compression(&self) -> Option<Compression> {
        match self.attributes & COMPRESSION {
            0 => Some(Compression::None),
            1 => Some(Compression::Gzip),
            2 => Some(Compression::Snappy),
            3 => Some(Compression::Lz4),
            4 => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// The same with another codec.
    pub(super) const fn with_compression(self, codec: Compression) -> Self {
        Self { attributes: self.attributes & !COMPRESSION | codec as i16, ..self }
    }

    pub(super) const fn is_log_append_time(&self) -> bool {
        self.attributes & LOG_APPEND_TIME != 0
    }

    pub(super) const fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    pub(super) const fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub(super) const fn has_producer(&self) -> bool {
        self.producer_id >= 0
    }

    pub(super) const fn last_offset(&self) -> i64 {
        self.base_offset + self.last_offset_delta as i64
    }

    /// The sequence of the last record: after the largest comes 0.
    pub(super) const fn last_sequence(&self) -> i32 {
        if self.base_sequence < 0 { -1 } else { self.base_sequence.wrapping_add(self.last_offset_delta) & i32::MAX }
    }
}

/// A batch as it stands in a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Batch {
    pub(super) header: Header,
    /// All of it, as clients get it.
    pub(super) bytes: Bytes,
    /// When its tombstones or its marker may go: set when a compaction first sees them. Kafka keeps it in the batch, in
    /// place of the base timestamp.
    pub(super) delete_horizon: Option<i64>,
}

impl Batch {
    /// What a batch costs beside its bytes: so that many batches of one byte are bounded too.
    pub(super) const COST: usize = size_of::<Self>();

    /// Takes over what a client sent: its offset and epoch are written, and its time where the topic dates records itself
    /// or the client's maximum was not that of its records.
    pub(super) fn adopt(sent: &[u8], header: Header, at: Place, dated: Dated) -> Self {
        let mut bytes = BytesMut::from(sent);
        let kind = if dated.by_log { LOG_APPEND_TIME } else { 0 };
        let mut adopted = Header {
            base_offset: at.offset,
            leader_epoch: at.leader_epoch,
            attributes: header.attributes & !LOG_APPEND_TIME | kind,
            max_timestamp: dated.max_timestamp,
            ..header
        };
        (&mut bytes[..]).put_i64(at.offset);
        (&mut bytes[LEADER_EPOCH_AT..]).put_i32(at.leader_epoch);
        if (adopted.attributes, adopted.max_timestamp) != (header.attributes, header.max_timestamp) {
            (&mut bytes[ATTRIBUTES_AT..]).put_i16(adopted.attributes);
            (&mut bytes[MAX_TIMESTAMP_AT..]).put_i64(adopted.max_timestamp);
            adopted.crc = seal(&mut bytes);
        }
        Self { header: adopted, bytes: bytes.freeze(), delete_horizon: None }
    }

    /// A batch from its header and records as they go on the wire; size, codec's work and checksum are found here.
    pub(super) fn build(header: Header, payload: &[u8]) -> Self {
        let mut bytes = BytesMut::with_capacity(OVERHEAD + payload.len());
        bytes.put_i64(header.base_offset);
        bytes.put_i32(i32::try_from(OVERHEAD - LOG_OVERHEAD + payload.len()).unwrap_or(i32::MAX));
        bytes.put_i32(header.leader_epoch);
        bytes.put_i8(2);
        bytes.put_u32(0);
        bytes.put_i16(header.attributes);
        bytes.put_i32(header.last_offset_delta);
        bytes.put_i64(header.base_timestamp);
        bytes.put_i64(header.max_timestamp);
        bytes.put_i64(header.producer_id);
        bytes.put_i16(header.producer_epoch);
        bytes.put_i32(header.base_sequence);
        bytes.put_i32(header.count);
        bytes.put_slice(payload);
        let crc = seal(&mut bytes);
        Self { header: Header { crc, size: bytes.len(), ..header }, bytes: bytes.freeze(), delete_horizon: None }
    }

    /// The records as they are on the wire.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[OVERHEAD..]
    }

    /// What it takes of the memory that logs may take.
    pub(super) const fn cost(&self) -> usize {
        self.bytes.len() + Self::COST
    }
}

/// Where a batch is put.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    pub(super) offset: i64,
    pub(super) leader_epoch: i32,
}

/// The time of a batch.
#[derive(Copy, Clone, Debug)]
pub(super) struct Dated {
    pub(super) max_timestamp: i64,
    /// It is the time of the append and counts for every record.
    pub(super) by_log: bool,
}

/// Whether the checksum is that of the bytes.
pub(super) fn is_intact(batch: &[u8], header: &Header) -> bool {
    crc32c::crc32c(&batch[ATTRIBUTES_AT..]) == header.crc
}

fn seal(bytes: &mut [u8]) -> u32 {
    let crc = crc32c::crc32c(&bytes[ATTRIBUTES_AT..]);
    (&mut bytes[CRC_AT..]).put_u32(crc);
    crc
}

/// The end of a transaction (KIP-98's control records).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(in crate::broker::core) struct Marker {
    /// Whose transaction ends.
    pub(in crate::broker::core) producer_id: i64,
    /// The epoch of the producer from now on: an older one may not write here any more.
    pub(in crate::broker::core) producer_epoch: i16,
    /// Which life of the coordinator says so.
    pub(in crate::broker::core) coordinator_epoch: i32,
    /// Committed, or aborted.
    pub(in crate::broker::core) commit: bool,
}

impl Marker {
    /// The batch of one control record.
    pub(super) fn batch(self, at: Place, now_ms: i64) -> Batch {
        let mut record = BytesMut::new();
        // Attributes, time and offset from the batch's.
        record.put_slice(&[0, 0, 0]);
        // Key of 4 bytes: version, type. Lengths are zigzag varints: twice the number, while that is below 128.
        record.put_i8(2 * 4);
        record.put_i16(0);
        record.put_i16(i16::from(self.commit));
        // Value of 6 bytes: version, the coordinator's epoch. No headers.
        record.put_i8(2 * 6);
        record.put_i16(0);
        record.put_i32(self.coordinator_epoch);
        record.put_i8(0);
        let mut payload = BytesMut::new();
        payload.put_u8(u8::try_from(2 * record.len()).unwrap_or(u8::MAX));
        payload.put_slice(&record);
        let header = Header {
            base_offset: at.offset,
            size: 0,
            leader_epoch: at.leader_epoch,
            crc: 0,
            attributes: TRANSACTIONAL | CONTROL,
            last_offset_delta: 0,
            base_timestamp: now_ms,
            max_timestamp: now_ms,
            producer_id: self.producer_id,
            producer_epoch: self.producer_epoch,
            base_sequence: -1,
            count: 1,
        };
        Batch::build(header, &payload)
    }

    /// Reads the marker of a control batch; `None` if it holds another kind of control record, or none.
    pub(super) fn read(batch: &Batch) -> Option<Self> {
        // The lengths of a marker's fields all fit a byte, see [`Marker::batch`].
        let mut record = batch.payload().get(5..)?;
        if record.len() < 4 + 1 + 6 {
            return None;
        }
        let (_version, kind, _length, _value_version) =
            (record.get_i16(), record.get_i16(), record.get_i8(), record.get_i16());
        let Header { producer_id, producer_epoch, .. } = batch.header;
        let commit = match kind {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self { producer_id, producer_epoch, coordinator_epoch: record.get_i32(), commit })
    }
}
