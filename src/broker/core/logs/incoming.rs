//! What a producer may send: the checks of Kafka's `ProduceRequest`, `UnifiedLog` and `LogValidator`, in their order.

use std::borrow::Cow;

use kafka_protocol::{error::ResponseError, records::Compression};

use super::{
    batch::{self, Batch, Dated, Header, Place},
    codec::{CannotUnpack, pack, unpack, unpacking},
    config::Settings,
    records::{Malformed, Records, Seen},
    stream::Stream,
};

/// Why a batch is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refused {
    pub(super) error: ResponseError,
    pub(super) message: String,
    /// The record that is to blame, counted in its batch.
    pub(super) record: Option<i32>,
}

impl From<ResponseError> for Refused {
    fn from(error: ResponseError) -> Self {
        Self { error, message: error.to_string(), record: None }
    }
}

fn refuse<T>(error: ResponseError, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { error, message: message.into(), record: None })
}

/// What batches are checked against.
#[derive(Copy, Clone, Debug)]
pub(super) struct Rules<'a> {
    pub(super) settings: &'a Settings,
    /// Milliseconds since 1970.
    pub(super) now_ms: i64,
    /// Bytes that a batch may unpack to.
    pub(super) max_unpacked: usize,
}

/// The version of produce requests from which batches may be packed with zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// Bytes that are unpacked as a whole.
const SMALL: usize = 256 << 10;

/// A batch that may be appended, as far as it can be seen from the batch alone.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    pub(super) header: Header,
    bytes: Cow<'a, [u8]>,
    dated: Dated,
}

impl<'a> Incoming<'a> {
    /// Checks the one batch that a producer sent for a partition.
    pub(super) fn check(sent: &'a [u8], header: Header, rules: &Rules<'_>) -> Result<Self, Refused> {
        if header.base_offset != 0 {
            let message = format!("The base offset should be 0, but it is {}", header.base_offset);
            return refuse(ResponseError::InvalidRecord, message);
        }
        let most = rules.settings.max_message_bytes;
        if sent.len() > most {
            return refuse(
                ResponseError::MessageTooLarge,
                format!("The batch has {} bytes, more than max.message.bytes, which is {most}", sent.len()),
            );
        }
        if !batch::is_intact(sent, &header) {
            return refuse(ResponseError::CorruptMessage, format!("Record is corrupt (stored crc = {})", header.crc));
        }
        // As Kafka says it: it has no error of its own for what no codec can read.
        let Some(codec) = header.compression() else {
            return refuse(ResponseError::UnknownServerError, "There is no codec with this number");
        };
        check_header(&header)?;
        let bound = rules.max_unpacked.min(rules.settings.max_unpacked);
        let packed = &sent[batch::OVERHEAD..];
        let by_log = rules.settings.log_append_time;
        let dated = |latest| Dated { max_timestamp: if by_log { rules.now_ms } else { latest }, by_log };
        let Some(wanted) = rules.settings.compression.filter(|wanted| *wanted != codec) else {
            let latest = check_packed(&header, (codec, packed), bound, rules)?;
            return Ok(Self { header, bytes: Cow::Borrowed(sent), dated: dated(latest) });
        };
        let unpacked = unpack(codec, packed, bound).map_err(|why| cannot_unpack(why, bound))?;
        let latest = check_records(&header, seen(&unpacked), rules)?;
        Self::repacked(header, wanted, &unpacked, dated(latest))
    }

    fn repacked(header: Header, codec: Compression, unpacked: &[u8], dated: Dated) -> Result<Self, Refused> {
        let payload = pack(codec, unpacked).ok_or_else(|| invalid("The records cannot be packed"))?;
        let Batch { header, bytes, .. } = Batch::build(header.with_compression(codec), &payload);
        Ok(Self { header, bytes: Cow::Owned(bytes.into()), dated })
    }

    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Gives it its place in a log.
    pub(super) fn put(&self, at: Place) -> Batch {
        Batch::adopt(&self.bytes, self.header, at, self.dated)
    }

    /// When the log dates records: when it did.
    pub(super) const fn log_append_time(&self) -> Option<i64> {
        if self.dated.by_log { Some(self.dated.max_timestamp) } else { None }
    }
}

/// Records as they came; the latest time among them. What is small is unpacked as a whole, which is the faster way then.
fn check_packed(
    header: &Header,
    (codec, packed): (Compression, &[u8]),
    bound: usize,
    rules: &Rules<'_>,
) -> Result<i64, Refused> {
    match unpack(codec, packed, bound.min(SMALL)) {
        Ok(unpacked) => return check_records(header, seen(&unpacked), rules),
        Err(CannotUnpack::TooLarge) if bound > SMALL => {}
        Err(why) => return Err(cannot_unpack(why, bound)),
    }
    let Some(unpacking) = unpacking(codec, packed).map_err(|why| cannot_unpack(why, bound))? else {
        let unpacked = unpack(codec, packed, bound).map_err(|why| cannot_unpack(why, bound))?;
        return check_records(header, seen(&unpacked), rules);
    };
    let mut records = Stream::new(unpacking, bound);
    let checked = check_records(header, &mut records, rules);
    records.finish().map_err(|why| cannot_unpack(why, bound))?;
    checked
}

fn seen(unpacked: &[u8]) -> impl Iterator<Item = Result<Seen, Malformed>> {
    Records::new(unpacked).map(|record| record.map(|record| record.seen()))
}

fn cannot_unpack(why: CannotUnpack, bound: usize) -> Refused {
    match why {
        CannotUnpack::Malformed => Refused {
            error: ResponseError::UnknownServerError,
            message: "The records cannot be unpacked".to_owned(),
            record: None,
        },
        CannotUnpack::TooLarge => invalid(&format!("The batch unpacks to more than {bound} bytes")),
    }
}

fn invalid(message: &str) -> Refused {
    Refused { error: ResponseError::InvalidRecord, message: message.to_owned(), record: None }
}

/// The one batch of format v2 that a producer sends for a partition, and its header. What follows it and is too short for
/// another is left out.
pub(super) fn one_batch(sent: &[u8], version: i16) -> Result<(&[u8], Header), Refused> {
    let one = || invalid("Produce requests must have exactly one record batch per partition");
    let (batch, rest) = next_batch(sent)?.ok_or_else(one)?;
    if batch[batch::MAGIC_AT] != 2 {
        return refuse(ResponseError::InvalidRecord, "Only batches with magic version 2 are allowed");
    }
    let header = Header::read(batch);
    let codec = header.and_then(|header| header.compression());
    if version < ZSTD_SINCE && codec == Some(Compression::Zstd) {
        return refuse(ResponseError::UnsupportedCompressionType, "zstd needs a produce request of a later version");
    }
    if next_batch(rest)?.is_some() {
        return Err(one());
    }
    let size = batch.len();
    let short = || Refused {
        error: ResponseError::CorruptMessage,
        message: format!("The batch has {size} bytes, fewer than its header"),
        record: None,
    };
    header.map(|header| (batch, header)).ok_or_else(short)
}

/// A batch, and what follows it.
type Cut<'a> = (&'a [u8], &'a [u8]);

/// The next batch, of whatever format, and what follows it; `None`: not a whole one (Kafka's `ByteBufferLogInputStream`).
fn next_batch(sent: &[u8]) -> Result<Option<Cut<'_>>, Refused> {
    let length = sent.get(8..batch::LOG_OVERHEAD).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    let Some(length) = length else { return Ok(None) };
    // The smallest record of the first format.
    if length < 14 {
        let message = format!("Record size {length} is less than the minimum record overhead (14)");
        return refuse(ResponseError::CorruptMessage, message);
    }
    if let Some(magic @ 3..) = sent.get(batch::MAGIC_AT) {
        let message = format!("Invalid magic found in record: {}", magic.cast_signed());
        return refuse(ResponseError::CorruptMessage, message);
    }
    let size = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(batch::LOG_OVERHEAD);
    Ok(sent.split_at_checked(size))
}

fn check_header(header: &Header) -> Result<(), Refused> {
    let count = header.count;
    if header.last_offset_delta < 0 {
        return refuse(ResponseError::InvalidRecord, "The batch has an invalid offset range");
    }
    if count <= 0 {
        return refuse(ResponseError::InvalidRecord, format!("Invalid reported count for record batch: {count}"));
    }
    if i64::from(count) != i64::from(header.last_offset_delta) + 1 {
        return refuse(ResponseError::InvalidRecord, "The batch's offset range is not that of its count of records");
    }
    if header.is_control() {
        return refuse(ResponseError::InvalidRecord, "Clients are not allowed to write control records");
    }
    if header.has_producer() && header.base_sequence < 0 {
        return refuse(ResponseError::InvalidRecord, format!("Invalid sequence number {}", header.base_sequence));
    }
    Ok(())
}

/// Walks through the records; the latest time among them.
fn check_records(
    header: &Header,
    records: impl Iterator<Item = Result<Seen, Malformed>>,
    rules: &Rules<'_>,
) -> Result<i64, Refused> {
    let settings = rules.settings;
    let earliest = rules.now_ms.saturating_sub(settings.timestamp_before_max_ms);
    let dates = earliest..=rules.now_ms.saturating_add(settings.timestamp_after_max_ms);
    let (mut latest, mut index) = (-1, 0);
    for record in records {
        let record = record.map_err(|_| invalid("A record is malformed"))?;
        let created = header.base_timestamp.saturating_add(record.timestamp_delta);
        let timestamp = if header.is_log_append_time() { header.max_timestamp } else { created };
        let fault = if record.offset_delta != index {
            Some((ResponseError::InvalidRecord, "The offset deltas of a batch count from 0".to_owned()))
        } else if settings.compact && !record.has_key {
            Some((ResponseError::InvalidRecord, "Compacted topic cannot accept message without key".to_owned()))
        } else if settings.log_append_time && header.is_log_append_time() {
            let message = "Producer should not set timestamp type to LogAppendTime".to_owned();
            Some((ResponseError::InvalidTimestamp, message))
        } else if !settings.log_append_time && timestamp != -1 && !dates.contains(&timestamp) {
            let (from, to) = (dates.start(), dates.end());
            let message = format!("Timestamp {timestamp} is out of range. It should be within [{from}, {to}]");
            Some((ResponseError::InvalidTimestamp, message))
        } else {
            None
        };
        if let Some((error, message)) = fault {
            return Err(Refused { error, message, record: Some(index) });
        }
        latest = latest.max(timestamp);
        index += 1;
    }
    if index != header.count {
        return refuse(
            ResponseError::InvalidRecord,
            format!("The batch has {index} records and says {}", header.count),
        );
    }
    Ok(latest)
}
