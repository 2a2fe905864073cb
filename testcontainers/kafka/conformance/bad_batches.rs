//! Batches that no client makes, and levels of isolation that there are not.

use bytes::Bytes;
use kafka_protocol::{
    messages::{
        ListOffsetsRequest,
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
    records::Compression,
};
use libtest_mimic::Trial;
use rdkafka::types::RDKafkaErrorCode;

use super::{
    both,
    frames::Made,
    values,
    wire::{Wire, Writer, packed, topic_name},
};
use crate::broker::{Broker, Isolation};

pub fn trials() -> Vec<Trial> {
    both!(
        a_batch_without_records_is_refused,
        a_batch_that_has_other_records_than_it_says_is_refused,
        a_batch_that_no_codec_packs_is_refused,
        a_batch_that_unpacks_to_more_than_its_topic_allows_is_refused,
        an_isolation_that_there_is_not_is_refused,
    )
}

const CODECS: [Compression; 4] = [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// INVALID_RECORD, for which librdkafka has no name.
const INVALID_RECORD: i16 = 87;

/// A record of a byte, at this distance from the batch's offset.
fn record(offset_delta: u8) -> [u8; 8] {
    // Varints are zigzag; the length counts what follows it. No key, and no headers.
    [14, 0, 0, 2 * offset_delta, 1, 2, b'x', 0]
}

fn a_batch_without_records_is_refused(broker: &Broker) {
    let topic = broker.topic("no-records", 1, &[]);
    let mut wire = Wire::connect(broker);
    for (last_offset_delta, count) in [(-1, 0), (0, 0), (0, 1)] {
        let batch = Made { codec: 0, last_offset_delta, count, records: &[] }.bytes();
        assert_eq!(wire.produce(&topic, batch).error_code, INVALID_RECORD, "{last_offset_delta}, {count}");
    }
    assert_eq!(wire.produce(&topic, Bytes::new()).error_code, INVALID_RECORD, "not even a batch");
    assert_eq!(values(broker, &topic, Isolation::ReadUncommitted), [""; 0]);
}

fn a_batch_that_has_other_records_than_it_says_is_refused(broker: &Broker) {
    let topic = broker.topic("miscounted", 1, &[]);
    let mut wire = Wire::connect(broker);
    let two = [record(0), record(1)].concat();
    let cases: [(_, &[u8], _, _); 4] = [
        ("one of two", &two[..8], 1, 2),
        ("two of one", &two, 0, 1),
        ("a gap", &two, 5, 2),
        ("half", &two[..12], 1, 2),
    ];
    for (what, records, last_offset_delta, count) in cases {
        let batch = Made { codec: 0, last_offset_delta, count, records }.bytes();
        assert_eq!(wire.produce(&topic, batch).error_code, INVALID_RECORD, "{what}");
    }
    assert_eq!(values(broker, &topic, Isolation::ReadUncommitted), [""; 0]);
}

fn a_batch_that_no_codec_packs_is_refused(broker: &Broker) {
    let topic = broker.topic("unpackable", 1, &[]);
    let mut wire = Wire::connect(broker);
    // There are codecs 1 to 4.
    for codec in 1..=7 {
        let batch = Made { codec, last_offset_delta: 0, count: 1, records: &[1, 2, 3] }.bytes();
        assert_eq!(wire.produce(&topic, batch).error_code, RDKafkaErrorCode::Unknown as i16, "{codec}");
    }
    assert_eq!(values(broker, &topic, Isolation::ReadUncommitted), [""; 0]);
}

fn a_batch_that_unpacks_to_more_than_its_topic_allows_is_refused(broker: &Broker) {
    let topic = broker.topic("bombs", 1, &[("max.decompressed.message.bytes", "65536")]);
    let mut wire = Wire::connect(broker);
    let (large, small) = ("0".repeat(1 << 20), "0".repeat(1 << 15));
    for codec in CODECS {
        let bomb = packed(codec, Writer::NOBODY, &[&large]);
        assert_eq!(wire.produce(&topic, bomb).error_code, INVALID_RECORD, "{codec:?}");
        assert_eq!(wire.produce(&topic, packed(codec, Writer::NOBODY, &[&small])).error_code, 0, "{codec:?}");
    }
}

fn an_isolation_that_there_is_not_is_refused(broker: &Broker) {
    let topic = broker.topic("isolated", 1, &[]);
    broker.produce(&topic, ["x"]);
    let mut wire = Wire::connect(broker);
    let unknown = RDKafkaErrorCode::Unknown as i16;
    for level in [-1, 2, 7] {
        let fetched = wire.fetch(&topic, 0, level);
        let partition = &fetched.responses[0].partitions[0];
        assert_eq!((fetched.error_code, partition.error_code, partition.high_watermark), (unknown, unknown, -1));
        let partition =
            ListOffsetsPartition::default().with_partition_index(0).with_current_leader_epoch(-1).with_timestamp(-1);
        let asked = ListOffsetsTopic::default().with_name(topic_name(&topic)).with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_isolation_level(level);
        let listed = wire.ask(6, &request.with_topics(vec![asked]));
        let partition = &listed.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.offset, partition.timestamp), (unknown, -1, -1));
    }
}
