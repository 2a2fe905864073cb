//! How the leader of a group shares partitions out: `range`, and `cooperative-sticky` (KIP-429).

use std::collections::BTreeMap;

/// A partition by topic and number.
pub(super) type Place = (String, i32);

/// A member as its subscription describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) id: String,
    pub(super) owned: Vec<Place>,
    /// The generation in which it owned them.
    pub(super) generation: i32,
}

/// What each member gets.
pub(super) type Shares = BTreeMap<String, Vec<Place>>;

/// Neighbouring partitions of each topic.
pub(super) fn range(members: &[Candidate], topics: &BTreeMap<String, i32>) -> Shares {
    let mut shares = nothing(members);
    let count = i32::try_from(members.len()).unwrap_or(i32::MAX).max(1);
    for (topic, &partitions) in topics {
        let (each, more) = (partitions / count, partitions % count);
        let mut from = 0;
        for (n, share) in (0..).zip(shares.values_mut()) {
            let to = from + each + i32::from(n < more);
            share.extend((from..to).map(|partition| (topic.clone(), partition)));
            from = to;
        }
    }
    shares
}

/// As even as can be with as few moves as can be; what has to move is first taken from its owner, and given to the new one
/// in the generation that follows.
pub(super) fn cooperative_sticky(members: &[Candidate], topics: &BTreeMap<String, i32>) -> Shares {
    let all: Vec<Place> = topics.iter().flat_map(|(topic, &n)| (0..n).map(|p| (topic.clone(), p))).collect();
    let owners = owners(members);
    let mut shares = nothing(members);
    let (least, mut more) = (all.len() / members.len().max(1), all.len() % members.len().max(1));
    let mut free = Vec::new();
    for place in all {
        let Some(share) = owners.get(&place).and_then(|owner| shares.get_mut(owner)) else {
            free.push(place);
            continue;
        };
        if share.len() < least || (share.len() == least && more > 0) {
            more -= usize::from(share.len() == least);
            share.push(place);
        } else {
            free.push(place);
        }
    }
    // What moves counts for its new member, so that others are not given more instead, and is nobody's for one generation:
    // its owner may not know yet that it has to let go.
    let mut sizes: BTreeMap<String, usize> = shares.iter().map(|(id, share)| (id.clone(), share.len())).collect();
    for place in free {
        let Some((id, size)) = sizes.iter_mut().min_by_key(|(_, size)| **size) else { break };
        *size += 1;
        if owners.get(&place).is_none_or(|owner| owner == id)
            && let Some(share) = shares.get_mut(id)
        {
            share.push(place);
        }
    }
    shares
}

fn nothing(members: &[Candidate]) -> Shares {
    members.iter().map(|member| (member.id.clone(), Vec::new())).collect()
}

/// Who owned each partition last, among those who say that they do.
fn owners(members: &[Candidate]) -> BTreeMap<Place, String> {
    let mut owners: BTreeMap<Place, (i32, Option<String>)> = BTreeMap::new();
    for member in members {
        for place in &member.owned {
            let (generation, owner) = owners.entry(place.clone()).or_insert((i32::MIN, None));
            if member.generation > *generation {
                (*generation, *owner) = (member.generation, Some(member.id.clone()));
            } else if member.generation == *generation {
                // Two say so of the same generation: neither is believed.
                *owner = None;
            }
        }
    }
    owners.into_iter().filter_map(|(place, (_, owner))| Some((place, owner?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topics(partitions: i32) -> BTreeMap<String, i32> {
        BTreeMap::from([("lines".to_owned(), partitions)])
    }

    fn member(n: usize, owned: Vec<Place>, generation: i32) -> Candidate {
        Candidate { id: format!("m{n}"), owned, generation }
    }

    fn places(shares: &Shares) -> Vec<Place> {
        let mut all: Vec<_> = shares.values().flatten().cloned().collect();
        all.sort();
        all
    }

    /// Rounds of rebalances, as members that let go and join again make them, until nothing moves.
    fn settle(mut members: Vec<Candidate>, partitions: i32) -> Shares {
        for round in 0..10 {
            let shares = cooperative_sticky(&members, &topics(partitions));
            if members.iter().all(|m| m.owned == shares[&m.id]) {
                return shares;
            }
            for member in &mut members {
                member.owned.clone_from(&shares[&member.id]);
                member.generation = 100 + round;
            }
        }
        panic!("it never settles");
    }

    proptest! {
        #[test]
        fn every_partition_goes_to_exactly_one_member(partitions in 0..20_i32, members in 1..6_usize) {
            let all: Vec<_> = (0..partitions).map(|p| ("lines".to_owned(), p)).collect();
            let members: Vec<_> = (0..members).map(|n| member(n, Vec::new(), -1)).collect();
            prop_assert_eq!(places(&range(&members, &topics(partitions))), all.clone());
            prop_assert_eq!(places(&settle(members, partitions)), all);
        }

        #[test]
        fn no_partition_is_given_before_its_owner_has_let_it_go(
            partitions in 1..20_i32, first in 1..5_usize, joining in 1..4_usize,
        ) {
            let before = settle((0..first).map(|n| member(n, Vec::new(), -1)).collect(), partitions);
            let mut members: Vec<_> = (0..first).map(|n| member(n, before[&format!("m{n}")].clone(), 5)).collect();
            members.extend((0..joining).map(|n| member(first + n, Vec::new(), -1)));
            let shares = cooperative_sticky(&members, &topics(partitions));
            for (id, share) in &shares {
                for place in share {
                    let others = before.iter().any(|(owner, owned)| owner != id && owned.contains(place));
                    prop_assert!(!others, "{place:?} is given to {id}");
                }
            }
            let sizes: Vec<_> = settle(members, partitions).values().map(Vec::len).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
    }
}
