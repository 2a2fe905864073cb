//! DescribeGroups, ListGroups and DeleteGroups: groups as tools see them.

use std::collections::BTreeSet;

use bytes::{Buf as _, Bytes};
use kafka_protocol::{
    error::ResponseError,
    messages::{
        DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
        ListGroupsRequest, ListGroupsResponse, TopicName,
        delete_groups_response::DeletableGroupResult,
        describe_groups_response::{DescribedGroup, DescribedGroupMember},
        list_groups_response::ListedGroup,
    },
    protocol::StrBytes,
};

use super::{
    coordinator::Groups,
    group::{Group, State},
    member::Member,
};

/// The protocol type of consumers; others are for example Kafka Connect's.
const CONSUMER: &str = "consumer";

/// From this version of DescribeGroups on a group that is not there is an error and not only `Dead` (KIP-1043).
const TELLS_MISSING_GROUP: i16 = 6;

/// Nobody is kept from reading, deleting and describing a group: the bits of `AclOperation` 3, 6 and 8.
const ALL_OPERATIONS: i32 = (1 << 3) | (1 << 6) | (1 << 8);

impl Groups {
    /// DescribeGroups.
    pub(in crate::broker::core) fn describe(
        &self,
        version: i16,
        request: &DescribeGroupsRequest,
    ) -> DescribeGroupsResponse {
        let groups = request.groups.iter().map(|id| {
            let described = self.groups.get(id).map_or_else(|| missing(id, version), Group::described);
            let described = described.with_group_id(id.clone());
            if request.include_authorized_operations {
                described.with_authorized_operations(ALL_OPERATIONS)
            } else {
                described
            }
        });
        DescribeGroupsResponse::default().with_groups(groups.collect())
    }

    /// ListGroups: those in the states and of the types that are asked for, all if none are.
    pub(in crate::broker::core) fn list(&self, request: &ListGroupsRequest) -> ListGroupsResponse {
        let passes = |filter: &[StrBytes], name: &str| {
            filter.is_empty() || filter.iter().any(|asked| asked.eq_ignore_ascii_case(name))
        };
        let groups = self.groups.iter().filter(|(_, group)| {
            passes(&request.states_filter, group.state.name()) && passes(&request.types_filter, "Classic")
        });
        let listed = groups.map(|(id, group)| {
            ListedGroup::default()
                .with_group_id(id.clone())
                .with_protocol_type(group.protocol_type.clone().unwrap_or_default())
                .with_group_state(StrBytes::from_static_str(group.state.name()))
                .with_group_type(StrBytes::from_static_str("Classic"))
        });
        ListGroupsResponse::default().with_groups(listed.collect())
    }

    /// DeleteGroups: only those in which nobody is.
    pub(in crate::broker::core) fn delete(&mut self, request: &DeleteGroupsRequest) -> DeleteGroupsResponse {
        let mut seen = BTreeSet::new();
        let results = request.groups_names.iter().filter(|id| seen.insert(*id)).map(|id| {
            let error = self.delete_one(id).err().map_or(0, |error| error.code());
            DeletableGroupResult::default().with_group_id(id.clone()).with_error_code(error)
        });
        DeleteGroupsResponse::default().with_results(results.collect())
    }

    fn delete_one(&mut self, id: &GroupId) -> Result<(), ResponseError> {
        if self.groups.get(id).ok_or(ResponseError::GroupIdNotFound)?.state != State::Empty {
            return Err(ResponseError::NonEmptyGroup);
        }
        self.groups.remove(id);
        Ok(())
    }
}

impl Group {
    /// Metadata and assignments are shown of a stable group only: in any other they are about to change.
    fn described(&self) -> DescribedGroup {
        let protocol = self.protocol.as_ref().filter(|_| self.state == State::Stable);
        DescribedGroup::default()
            .with_group_state(StrBytes::from_static_str(self.state.name()))
            .with_protocol_type(self.protocol_type.clone().unwrap_or_default())
            .with_protocol_data(protocol.cloned().unwrap_or_default())
            .with_members(self.members.values().map(|member| described(member, protocol)).collect())
    }

    /// It is of Kafka's consumers, whose metadata can be read.
    pub(super) fn is_of_consumers(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// What its members read.
    pub(super) fn subscribed(&self) -> Subscribed {
        if !self.is_of_consumers() {
            return Subscribed::To(BTreeSet::new());
        }
        let protocol = self.protocol.clone().unwrap_or_default();
        let topics = self.members.values().map(|member| subscription(&member.metadata(&protocol)));
        let topics: Option<Vec<_>> = topics.collect();
        topics.map_or(Subscribed::ToAnything, |topics| Subscribed::To(topics.into_iter().flatten().collect()))
    }
}

/// What the members of a group read.
pub(super) enum Subscribed {
    /// These topics.
    To(BTreeSet<Bytes>),
    /// Somebody's metadata cannot be read.
    ToAnything,
}

impl Subscribed {
    pub(super) fn reads(&self, topic: &TopicName) -> bool {
        match self {
            Self::To(topics) => topics.contains(topic.as_bytes()),
            Self::ToAnything => true,
        }
    }
}

/// The topics in a consumer's metadata (`ConsumerProtocolSubscription`): behind its version, of which each is version 0 at the
/// beginning. `None`: it is none. Read by hand: the crate makes room for as many topics as the client says that there are.
fn subscription(metadata: &Bytes) -> Option<Vec<Bytes>> {
    let mut rest = metadata.clone();
    rest.try_get_i16().ok()?;
    let count = rest.try_get_i32().ok()?.max(0);
    (0..count)
        .map(|_| {
            let length = usize::try_from(rest.try_get_i16().ok()?).ok()?;
            (length <= rest.len()).then(|| rest.split_to(length))
        })
        .collect()
}

fn described(member: &Member, protocol: Option<&StrBytes>) -> DescribedGroupMember {
    let described = DescribedGroupMember::default()
        .with_member_id(member.id.clone())
        .with_group_instance_id(member.instance.clone())
        .with_client_id(member.client_id.clone())
        .with_client_host(member.client_host.clone());
    match protocol {
        Some(protocol) => {
            described.with_member_metadata(member.metadata(protocol)).with_member_assignment(member.assignment.clone())
        }
        None => described,
    }
}

fn missing(id: &GroupId, version: i16) -> DescribedGroup {
    let dead = DescribedGroup::default().with_group_state(StrBytes::from_static_str("Dead"));
    if version < TELLS_MISSING_GROUP {
        return dead;
    }
    let message = StrBytes::from_string(format!("Group {} not found.", id.0));
    dead.with_error_code(ResponseError::GroupIdNotFound.code()).with_error_message(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &'static [u8]) -> Option<Vec<Bytes>> {
        subscription(&Bytes::from_static(bytes))
    }

    #[test]
    fn topics_are_read_from_the_beginning_of_metadata_of_any_version() {
        let topics = Some(vec![Bytes::from_static(b"in"), Bytes::from_static(b"x")]);
        assert_eq!(read(b"\0\x03\0\0\0\x02\0\x02in\0\x01x\xff\xff\xff\xff"), topics);
        assert_eq!(read(b"\0\0\0\0\0\0"), Some(Vec::new()));
    }

    #[test]
    fn metadata_that_claims_more_than_it_holds_is_none() {
        for bytes in
            [&b""[..], b"\0\0", b"\0\0\x7f\xff\xff\xff\0\x01x", b"\0\0\0\0\0\x01\0\x05in", b"\0\0\0\0\0\x01\xff\xff"]
        {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }
}
