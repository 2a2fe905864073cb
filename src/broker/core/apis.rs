//! Which APIs the broker knows, in which versions.

use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, api_versions_response::ApiVersion};
use kafka_protocol::{error::ResponseError, protocol::VersionRange};

/// What ApiVersions tells. A client takes the highest version that both know; each line stops where the next version
/// would bring something that this broker does not have.
pub(super) const APIS: &[(ApiKey, i16, i16)] = &[
    // 12: a producer of the second protocol of transactions; 13: topics by their ids only.
    (ApiKey::Produce, 3, 11),
    // 17 and later: between brokers.
    (ApiKey::Fetch, 4, 16),
    (ApiKey::ListOffsets, 1, 10),
    (ApiKey::Metadata, 0, 13),
    (ApiKey::OffsetCommit, 2, 9),
    (ApiKey::OffsetFetch, 1, 9),
    // 5 and later: transactions of the second protocol, share groups.
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::DescribeGroups, 0, 6),
    (ApiKey::ListGroups, 0, 5),
    (ApiKey::ApiVersions, 0, 3),
    (ApiKey::CreateTopics, 2, 7),
    (ApiKey::DeleteTopics, 1, 6),
    (ApiKey::DeleteRecords, 0, 2),
    (ApiKey::InitProducerId, 0, 5),
    (ApiKey::OffsetForLeaderEpoch, 2, 4),
    // 4 and later: between brokers.
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 4),
    // 5 and later, of these two: transactions of the second protocol.
    (ApiKey::EndTxn, 0, 4),
    (ApiKey::TxnOffsetCommit, 0, 4),
    (ApiKey::DescribeConfigs, 1, 4),
    (ApiKey::AlterConfigs, 0, 2),
    (ApiKey::CreatePartitions, 0, 3),
    (ApiKey::DeleteGroups, 0, 2),
    (ApiKey::IncrementalAlterConfigs, 0, 1),
    (ApiKey::OffsetDelete, 0, 0),
    (ApiKey::DescribeCluster, 0, 2),
    (ApiKey::DescribeTransactions, 0, 0),
    // 2: by a pattern.
    (ApiKey::ListTransactions, 0, 1),
];

/// The versions of an API that are understood; `None`: not this API.
pub(super) fn versions(api: ApiKey) -> Option<VersionRange> {
    APIS.iter().find(|(known, ..)| *known == api).map(|&(_, min, max)| VersionRange { min, max })
}

/// Answers ApiVersions. A client that asks in a version of the future is told so, and which there are, in version 0.
pub(super) fn answer(version: i16) -> ApiVersionsResponse {
    let known = versions(ApiKey::ApiVersions).is_some_and(|range| (range.min..=range.max).contains(&version));
    let error = if known { 0 } else { ResponseError::UnsupportedVersion.code() };
    let keys = APIS.iter().map(|&(api, min, max)| {
        ApiVersion::default().with_api_key(api as i16).with_min_version(min).with_max_version(max)
    });
    ApiVersionsResponse::default().with_error_code(error).with_api_keys(keys.collect())
}
