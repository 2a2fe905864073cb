//! Partitions that nobody reads although their group is at peace.
//!
//! A static member that is back within its session has what it had, and the group does not rebalance (KIP-345). What was
//! added to its topics meanwhile is given to nobody, and neither is what was to move to another member when it was killed
//! between the two rounds of a cooperative rebalance: until the group rebalances for another reason, which may be never. So
//! a static member looks once in its life, and a second time where it has found some: if the same partitions are nobody's for a
//! whole session, it joins anew. Who asks waits for the answer of every broker, so that a look that shows nothing is not
//! repeated soon.

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;
use kafka_protocol::{messages::ConsumerProtocolAssignment, protocol::Decodable as _};

use crate::{clock::Instant, kafka::client::TopicPartition};

/// Until the next look where nothing could be seen; doubled each time, up to a session.
const SOON: Duration = Duration::from_secs(1);

/// Whether partitions are to be looked for that nobody reads, and which there were.
#[derive(Debug, Default)]
pub(super) struct Unowned {
    /// When to look next.
    due: Option<Instant>,
    seen: Vec<TopicPartition>,
    begun: bool,
    /// Looks in a row at which nothing could be seen.
    vain: u32,
}

impl Unowned {
    /// The member has its first partitions in this life.
    pub(super) fn begin(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.begun, true) {
            self.due = Some(now);
        }
    }

    /// Whether it is time to look.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// These are nobody's; `None`: it could not be seen, as while the group rebalances or a broker is away. Returns whether
    /// to join anew.
    pub(super) fn saw(&mut self, unowned: Option<Vec<TopicPartition>>, session: Duration, now: Instant) -> bool {
        let Some(unowned) = unowned else {
            self.seen.clear();
            self.due = Some(now + SOON.saturating_mul(1 << self.vain.min(16)).min(session));
            self.vain += 1;
            return false;
        };
        self.vain = 0;
        let still = !unowned.is_empty() && unowned == self.seen;
        self.due = (!unowned.is_empty() && !still).then(|| now + session);
        self.seen = unowned;
        still
    }
}

/// Those of `all` that no assignment has; `None`: one of them cannot be read. Each is a version and a
/// `ConsumerProtocolAssignment`, as members get it.
pub(super) fn unowned<'a>(
    all: Vec<TopicPartition>,
    assignments: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Vec<TopicPartition>> {
    let mut owned = BTreeSet::new();
    for assignment in assignments {
        // Later versions begin as the first one does.
        let (_version, rest) = assignment.split_first_chunk::<2>()?;
        let assigned = ConsumerProtocolAssignment::decode(&mut Bytes::copy_from_slice(rest), 0).ok()?;
        for topic in assigned.assigned_partitions {
            owned.extend(topic.partitions.into_iter().map(|partition| (topic.topic.to_string(), partition)));
        }
    }
    Some(all.into_iter().filter(|p| !owned.contains(&(p.topic.to_string(), p.partition))).collect())
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut as _, BytesMut};
    use kafka_protocol::{
        messages::{TopicName, consumer_protocol_assignment::TopicPartition as Assigned},
        protocol::{Encodable as _, StrBytes},
    };

    use super::*;

    const SESSION: Duration = Duration::from_secs(45);

    fn partitions(numbers: &[i32]) -> Vec<TopicPartition> {
        numbers.iter().map(|n| TopicPartition::new("t", *n)).collect()
    }

    fn assignment(version: i16, numbers: &[i32]) -> BytesMut {
        let topic = TopicName(StrBytes::from_static_str("t"));
        let assigned = Assigned::default().with_topic(topic).with_partitions(numbers.to_vec());
        let mut bytes = BytesMut::new();
        bytes.put_i16(version);
        let body = ConsumerProtocolAssignment::default().with_assigned_partitions(vec![assigned]);
        body.encode(&mut bytes, version).unwrap();
        bytes
    }

    #[test]
    fn what_no_assignment_has_is_nobodys() {
        let (a, b) = (assignment(0, &[0, 3]), assignment(3, &[1]));
        assert_eq!(unowned(partitions(&[0, 1, 2, 3, 4]), [&a[..], &b[..]]), Some(partitions(&[2, 4])));
        assert_eq!(unowned(partitions(&[0]), [&b"\0"[..]]), None);
        assert_eq!(unowned(partitions(&[0]), [&b"\0\0\x7f"[..]]), None);
    }

    #[test]
    fn what_is_nobodys_for_a_whole_session_is_worth_joining_anew() {
        let mut watch = Unowned::default();
        let start = Instant::ZERO + SESSION;
        assert!(!watch.is_due(start));
        watch.begin(start);
        assert!(watch.is_due(start));
        assert!(!watch.saw(Some(partitions(&[2])), SESSION, start));
        assert!(!watch.is_due(start + (SESSION - SOON)) && watch.is_due(start + SESSION));
        assert!(watch.saw(Some(partitions(&[2])), SESSION, start + SESSION));
        watch.begin(start + 2 * SESSION);
        assert!(!watch.is_due(start + 9 * SESSION), "once in a life");
    }

    #[test]
    fn what_cannot_be_seen_is_looked_at_less_and_less_often() {
        let mut watch = Unowned::default();
        watch.begin(Instant::ZERO);
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..40 {
            assert!(watch.is_due(now) && !watch.saw(None, SESSION, now));
            let began = now;
            while !watch.is_due(now) {
                now = now + SOON;
            }
            pauses.push((now - began).as_secs());
        }
        assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 45]);
        assert!(pauses[7..].iter().all(|pause| *pause == 45));
    }

    #[test]
    fn what_finds_an_owner_in_time_is_not() {
        let mut watch = Unowned::default();
        watch.begin(Instant::ZERO);
        assert!(!watch.saw(None, SESSION, Instant::ZERO), "the group rebalances");
        let mut now = Instant::ZERO + SOON;
        assert!(watch.is_due(now));
        assert!(!watch.saw(Some(partitions(&[1, 2])), SESSION, now));
        now = now + SESSION;
        assert!(!watch.saw(Some(partitions(&[2])), SESSION, now), "one of them has found an owner");
        now = now + SESSION;
        assert!(watch.is_due(now) && !watch.saw(Some(Vec::new()), SESSION, now));
        assert!(!watch.is_due(now + SESSION), "all have");
    }
}
