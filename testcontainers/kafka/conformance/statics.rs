//! Static members (KIP-345): what becomes of their partitions while they are away, and when they are back.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use libtest_mimic::Trial;

use super::{
    both,
    groups::{Member, settle, shared_as},
};
use crate::broker::Broker;

pub fn trials() -> Vec<Trial> {
    both!(
        a_partition_that_is_added_while_the_only_static_member_is_away_is_nobodys,
        a_partition_that_is_added_while_the_leader_of_an_eager_group_is_away_is_nobodys,
        a_partition_that_is_added_while_all_static_members_are_away_is_nobodys,
        a_partition_that_is_added_while_one_of_two_static_members_is_away_has_an_owner,
        a_partition_that_is_to_move_when_a_static_member_is_killed_is_nobodys,
        a_static_member_that_is_back_in_time_has_its_partitions_and_disturbs_nobody,
        a_static_member_that_stays_away_loses_its_partitions,
    )
}

/// Longer than clients take to hear of new partitions and of a rebalance, by the settings of [`Member::join`].
const HEARSAY: Duration = Duration::from_secs(2);

/// It holds, and still does after everybody has heard what there is to hear.
fn remains(members: &[&Member], what: &str, holds: impl Fn() -> bool) {
    settle(members, what, &holds);
    let since = Instant::now();
    settle(members, what, || {
        assert!(holds(), "{what}: no more");
        since.elapsed() > HEARSAY
    });
}

/// The group's only member grows as the topic does, but not by what came while it was away: it finds the topic as it is
/// and the assignment as it was, and nothing has changed since.
fn a_partition_that_is_added_while_the_only_static_member_is_away_is_nobodys(broker: &Broker) {
    let topic = broker.topic("static-grows", 2, &[]);
    let group = broker.unique("group");
    let join = || Member::join(broker, &group, &topic, &[("group.instance.id", "a")]);
    let member = join();
    settle(&[&member], "it has both", || member.owns().len() == 2);
    member.leave();
    broker.grow(&topic, 3).unwrap();
    let member = join();
    remains(&[&member], "it has what it had", || member.owns() == BTreeSet::from([0, 1]));
    // The next rebalance gives it all.
    broker.grow(&topic, 4).unwrap();
    settle(&[&member], "it has all", || member.owns().len() == 4);
}

/// Whoever stays hears of it and joins again with another list of what it owns, which begins a rebalance.
fn a_partition_that_is_added_while_one_of_two_static_members_is_away_has_an_owner(broker: &Broker) {
    for away in ["a", "b"] {
        let (topic, join) = of_four(broker, "static-one-away", "cooperative-sticky");
        let mut members = two_have_two_each(&join);
        drop(members.remove(away));
        broker.grow(&topic, 6).unwrap();
        members.insert(away, join(away));
        let [a, b] = [&members["a"], &members["b"]];
        settle(&[a, b], "two have three each", || shared_as(&[a, b], &[3, 3], 6));
    }
}

/// With an eager strategy members say the same whenever they join, and then only the leader's word begins a rebalance.
fn a_partition_that_is_added_while_the_leader_of_an_eager_group_is_away_is_nobodys(broker: &Broker) {
    let (topic, join) = of_four(broker, "static-leader-away", "range");
    let mut members = two_have_two_each(&join);
    drop(members.remove("a"));
    broker.grow(&topic, 6).unwrap();
    members.insert("a", join("a"));
    let [a, b] = [&members["a"], &members["b"]];
    remains(&[a, b], "both have what they had", || shared_as(&[a, b], &[2, 2], 4));
    let c = join("c");
    settle(&[a, b, &c], "all have all", || shared_as(&[a, b, &c], &[2, 2, 2], 6));
}

fn a_partition_that_is_added_while_all_static_members_are_away_is_nobodys(broker: &Broker) {
    let (topic, join) = of_four(broker, "static-all-away", "cooperative-sticky");
    drop(two_have_two_each(&join));
    broker.grow(&topic, 6).unwrap();
    let [a, b] = [join("a"), join("b")];
    remains(&[&a, &b], "both have what they had", || shared_as(&[&a, &b], &[2, 2], 4));
    let c = join("c");
    settle(&[&a, &b, &c], "all have all", || shared_as(&[&a, &b, &c], &[2, 2, 2], 6));
}

/// The first of the two rounds of a cooperative rebalance takes a partition away, the second gives it to another: which
/// begins when the one that it was taken from joins again, and that one is gone.
fn a_partition_that_is_to_move_when_a_static_member_is_killed_is_nobodys(broker: &Broker) {
    let (_, join) = of_four(broker, "static-rounds", "cooperative-sticky");
    let first = join("a");
    settle(&[&first], "one has all", || first.owns().len() == 4);
    let second = join("b");
    // Its client's thread takes part, and nobody hears what is to be revoked.
    settle(&[&second], "the first round gives nothing", || second.assignments() == 1);
    first.leave();
    let first = join("a");
    remains(&[&first, &second], "two partitions are nobody's", || first.owns().len() == 2 && second.owns().is_empty());
    let third = join("c");
    settle(&[&first, &second, &third], "all have all", || {
        let owned = [&first, &second, &third].map(Member::owns);
        owned.iter().map(BTreeSet::len).sum::<usize>() == 4
            && owned.iter().flatten().collect::<BTreeSet<_>>().len() == 4
    });
}

/// A topic of four partitions, and how a static member of its group joins.
fn of_four<'a>(broker: &'a Broker, name: &str, strategy: &'static str) -> (String, impl Fn(&str) -> Member + use<'a>) {
    let topic = broker.topic(name, 4, &[]);
    let group = broker.unique("group");
    let join = {
        let topic = topic.clone();
        move |instance: &str| {
            let properties = [("group.instance.id", instance), ("partition.assignment.strategy", strategy)];
            Member::join(broker, &group, &topic, &properties)
        }
    };
    (topic, join)
}

/// Members a, which leads, and b.
fn two_have_two_each(join: impl Fn(&str) -> Member) -> BTreeMap<&'static str, Member> {
    let a = join("a");
    settle(&[&a], "one has all", || a.owns().len() == 4);
    let b = join("b");
    settle(&[&a, &b], "two have two each", || shared_as(&[&a, &b], &[2, 2], 4));
    BTreeMap::from([("a", a), ("b", b)])
}

fn a_static_member_that_is_back_in_time_has_its_partitions_and_disturbs_nobody(broker: &Broker) {
    let topic = broker.topic("static", 4, &[]);
    let group = broker.unique("group");
    let join = |instance| Member::join(broker, &group, &topic, &[("group.instance.id", instance)]);
    let (first, second) = (join("a"), join("b"));
    settle(&[&first, &second], "two have two each", || shared_as(&[&first, &second], &[2, 2], 4));
    let (before, assignments) = (first.owns(), second.assignments());
    second.revoked();
    // A static member leaves without a word.
    first.leave();
    let first = join("a");
    settle(&[&first, &second], "it has what it had", || first.owns() == before);
    assert_eq!((second.assignments(), second.revoked()), (assignments, vec![]), "the other has heard nothing");
}

fn a_static_member_that_stays_away_loses_its_partitions(broker: &Broker) {
    let topic = broker.topic("static-away", 4, &[]);
    let group = broker.unique("group");
    let join = |instance| {
        let properties = [("group.instance.id", instance), ("session.timeout.ms", "1500")];
        Member::join(broker, &group, &topic, &properties)
    };
    let (first, second) = (join("a"), join("b"));
    settle(&[&first, &second], "two have two each", || shared_as(&[&first, &second], &[2, 2], 4));
    first.leave();
    settle(&[&second], "the other has all", || second.owns().len() == 4);
    let first = join("a");
    settle(&[&first, &second], "two have two each", || shared_as(&[&first, &second], &[2, 2], 4));
}
