//! Which APIs the broker knows, in which versions.

use kafka_protocol::messages::{ApiKey, ApiVersionsResponse, api_versions_response::ApiVersion};
use kafka_protocol::{error::ResponseError, protocol::VersionRange};

/// What ApiVersions tells. A client takes the highest version that both know; each line stops where the next version
/// would bring something that this broker does not have.
const APIS: &[(ApiKey, i16, i16)] = &[(ApiKey::ApiVersions, 0, 3)];

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
