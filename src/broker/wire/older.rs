//! What an older version has no words for is left out: the protocol crate refuses to encode it, Kafka's own messages call
//! such fields *ignorable* or its broker does not fill them in.

use kafka_protocol::messages::ResponseKind;

/// Makes a response one that can be said in this version.
pub(super) fn fit(body: &mut ResponseKind, version: i16) {
    match body {
        ResponseKind::ListOffsets(list) if version < 4 => {
            list.topics.iter_mut().flat_map(|topic| &mut topic.partitions).for_each(|found| found.leader_epoch = -1);
        }
        _ => {}
    }
}
