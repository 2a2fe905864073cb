//! Members that come and go.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use rdkafka::{
    ClientContext, TopicPartitionList,
    consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance},
    error::KafkaError,
    types::RDKafkaErrorCode,
};

use super::{PATIENCE, both};
use crate::broker::{Broker, eventually};

pub fn trials() -> Vec<Trial> {
    both!(
        three_members_of_a_cooperative_group_join_and_leave_and_keep_what_they_can,
        three_members_of_an_eager_group_join_and_leave,
        a_member_that_is_silent_is_expelled,
        a_member_of_another_protocol_is_refused,
        groups_are_listed_and_described,
        a_member_goes_on_where_the_group_has_committed,
    )
}

/// What a member hears.
#[derive(Debug, Default)]
pub struct Heard {
    assigned: AtomicUsize,
    revoked: Mutex<Vec<i32>>,
}

#[derive(Debug, Default)]
pub struct Ears(Arc<Heard>);

impl ClientContext for Ears {}

impl ConsumerContext for Ears {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(_) => drop(self.0.assigned.fetch_add(1, Ordering::Relaxed)),
            Rebalance::Revoke(partitions) => {
                let partitions = partitions.elements().into_iter().map(|element| element.partition());
                self.0.revoked.lock().unwrap_or_else(PoisonError::into_inner).extend(partitions);
            }
            Rebalance::Error(error) => panic!("{error}"),
        }
    }
}

/// A member of a group, which hears what it is told when it is [polled](settle).
pub struct Member {
    pub consumer: BaseConsumer<Ears>,
    heard: Arc<Heard>,
}

impl Member {
    /// Subscribes; with short sessions, and heartbeats by which a rebalance is heard of soon.
    pub fn join(broker: &Broker, group: &str, topic: &str, properties: &[(&str, &str)]) -> Self {
        let mut config = broker.client();
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("session.timeout.ms", "6000")
            .set("heartbeat.interval.ms", "200")
            .set("topic.metadata.refresh.interval.ms", "500");
        for (name, value) in properties {
            config.set(*name, *value);
        }
        let ears = Ears::default();
        let heard = Arc::clone(&ears.0);
        let consumer: BaseConsumer<_> = config.create_with_context(ears).expect("a consumer");
        consumer.subscribe(&[topic]).expect("a subscription");
        Self { consumer, heard }
    }

    /// The partitions that are its own now.
    pub fn owns(&self) -> BTreeSet<i32> {
        let list = self.consumer.assignment().unwrap_or_else(|_| TopicPartitionList::new());
        list.elements().iter().map(|element| element.partition()).collect()
    }

    pub fn revoked(&self) -> Vec<i32> {
        std::mem::take(&mut *self.heard.revoked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn assignments(&self) -> usize {
        self.heard.assigned.load(Ordering::Relaxed)
    }

    /// Ends; a dynamic member says goodbye.
    pub fn leave(self) {
        drop(self);
    }
}

/// Polls members until it holds, and for a few heartbeats more, in which it must not cease to hold.
pub fn settle(members: &[&Member], what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut since = None;
    loop {
        for member in members {
            match member.consumer.poll(Duration::from_millis(10)) {
                None | Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => {}
                Some(Err(error)) => panic!("{what}: {error}"),
            }
        }
        if !holds() {
            since = None;
        } else if since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(500) {
            return;
        }
        let owned: Vec<_> = members.iter().map(|member| member.owns()).collect();
        assert!(Instant::now() < deadline, "{what}: did not come to be; partitions: {owned:?}");
    }
}

/// Each partition has exactly one owner, and the numbers of partitions are these.
pub fn shared_as(members: &[&Member], sizes: &[usize], partitions: i32) -> bool {
    let owned: Vec<_> = members.iter().map(|member| member.owns()).collect();
    let all: Vec<_> = owned.iter().flatten().copied().collect();
    owned.iter().map(BTreeSet::len).eq(sizes.iter().copied())
        && all.len() == usize::try_from(partitions).unwrap()
        && all.into_iter().collect::<BTreeSet<_>>().len() == usize::try_from(partitions).unwrap()
}

fn three_members_of_a_cooperative_group_join_and_leave_and_keep_what_they_can(broker: &Broker) {
    let topic = broker.topic("cooperative", 6, &[]);
    let group = broker.unique("group");
    let join = || Member::join(broker, &group, &topic, &[("partition.assignment.strategy", "cooperative-sticky")]);
    let first = join();
    settle(&[&first], "one has all", || first.owns().len() == 6);
    let second = join();
    settle(&[&first, &second], "two have three each", || shared_as(&[&first, &second], &[3, 3], 6));
    assert_eq!(first.revoked().len(), 3, "only what goes is revoked");
    let third = join();
    let (of_first, of_second) = (first.owns(), second.owns());
    settle(&[&first, &second, &third], "three have two each", || shared_as(&[&first, &second, &third], &[2, 2, 2], 6));
    assert_eq!((first.revoked().len(), second.revoked().len()), (1, 1));
    assert!(first.owns().is_subset(&of_first) && second.owns().is_subset(&of_second), "they keep the others");
    let (of_second, of_third) = (second.owns(), third.owns());
    first.leave();
    settle(&[&second, &third], "two have three each", || shared_as(&[&second, &third], &[3, 3], 6));
    assert!(second.owns().is_superset(&of_second) && third.owns().is_superset(&of_third), "nothing is moved");
    assert_eq!((second.revoked(), third.revoked()), (vec![], vec![]));
}

fn three_members_of_an_eager_group_join_and_leave(broker: &Broker) {
    let topic = broker.topic("eager", 6, &[]);
    let group = broker.unique("group");
    let join = || Member::join(broker, &group, &topic, &[("partition.assignment.strategy", "range")]);
    let (first, second) = (join(), join());
    settle(&[&first, &second], "two have three each", || shared_as(&[&first, &second], &[3, 3], 6));
    first.revoked();
    second.revoked();
    let third = join();
    settle(&[&first, &second, &third], "three have two each", || shared_as(&[&first, &second, &third], &[2, 2, 2], 6));
    assert_eq!((first.revoked().len(), second.revoked().len()), (3, 3), "all is revoked");
    second.leave();
    settle(&[&first, &third], "two have three each", || shared_as(&[&first, &third], &[3, 3], 6));
}

/// Without a client, whose thread would go on to send heartbeats.
fn a_member_that_is_silent_is_expelled(broker: &Broker) {
    let topic = broker.topic("silent", 2, &[]);
    let group = broker.unique("group");
    let mut silent = super::members::RawMember::join(broker, &group, &topic, 2_000);
    assert_eq!(silent.heartbeat(), 0);
    let member = Member::join(broker, &group, &topic, &[("partition.assignment.strategy", "range")]);
    settle(&[&member], "the other has all", || member.owns().len() == 2);
    assert_eq!(silent.heartbeat(), RDKafkaErrorCode::UnknownMemberId as i16);
}

fn a_member_of_another_protocol_is_refused(broker: &Broker) {
    let topic = broker.topic("protocols", 2, &[]);
    let group = broker.unique("group");
    let first = Member::join(broker, &group, &topic, &[("partition.assignment.strategy", "range")]);
    settle(&[&first], "one has all", || first.owns().len() == 2);
    let other = Member::join(broker, &group, &topic, &[("partition.assignment.strategy", "roundrobin")]);
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        assert!(Instant::now() < deadline, "nobody refuses it");
        drop(first.consumer.poll(Duration::ZERO));
        if let Some(Err(error)) = other.consumer.poll(Duration::from_millis(20)) {
            break error;
        }
    };
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::InconsistentGroupProtocol));
    assert_eq!(first.owns().len(), 2);
}

fn groups_are_listed_and_described(broker: &Broker) {
    let topic = broker.topic("described", 2, &[]);
    let group = broker.unique("group");
    let range = ("partition.assignment.strategy", "range");
    let member = Member::join(broker, &group, &topic, &[("client.id", "describes-itself"), range]);
    settle(&[&member], "one has all", || member.owns().len() == 2);
    let described = |state: &str, members: usize| {
        let list = member.consumer.fetch_group_list(None, PATIENCE).unwrap();
        list.groups()
            .iter()
            .any(|found| found.name() == group && found.state() == state && found.members().len() == members)
    };
    assert!(described("Stable", 1));
    let list = member.consumer.fetch_group_list(Some(&group), PATIENCE).unwrap();
    let [found] = list.groups() else { panic!("one group") };
    assert_eq!((found.protocol_type(), found.protocol()), ("consumer", "range"));
    let [only] = found.members() else { panic!("one member") };
    assert_eq!((only.client_id(), only.client_host()), ("describes-itself", "/127.0.0.1"));
    assert!(only.id().starts_with("describes-itself-"), "{}", only.id());
    assert!(!only.metadata().unwrap_or_default().is_empty() && !only.assignment().unwrap_or_default().is_empty());
    member.consumer.unsubscribe();
    eventually("it is empty", || {
        drop(member.consumer.poll(Duration::from_millis(10)));
        described("Empty", 0)
    });
}

fn a_member_goes_on_where_the_group_has_committed(broker: &Broker) {
    let topic = broker.topic("goes-on", 1, &[]);
    let group = broker.unique("group");
    broker.produce(&topic, ["a", "b", "c"]);
    for expected in ["a", "b", "c"] {
        let member = Member::join(broker, &group, &topic, &[]);
        let deadline = Instant::now() + PATIENCE;
        let message = loop {
            assert!(Instant::now() < deadline, "no record");
            if let Some(polled) = member.consumer.poll(Duration::from_millis(50)) {
                break polled.unwrap();
            }
        };
        assert_eq!(rdkafka::Message::payload(&message), Some(expected.as_bytes()));
        member.consumer.commit_message(&message, rdkafka::consumer::CommitMode::Sync).unwrap();
    }
}
