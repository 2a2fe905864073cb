//! What must never be shown, and the only two places it may come from: a file of its owner, or the environment.

use std::{fmt, path::Path};

/// A value that no log, message or print shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `value`.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for the one who passes it on to the client.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "***";

/// Whether the value of property `name` must not be shown. A reference to a secret may be.
pub(crate) fn is_secret(name: &str) -> bool {
    crate::kafka::is_secret(name) && !name.ends_with("_file") && !name.ends_with("_env")
}

/// Whether `value` of the field at `path` is no secret by its name, but somebody may have written one into it.
pub(crate) fn may_hold_one(path: &str, value: &toml::Value) -> bool {
    path == "kafka.brokers" && value.to_string().contains('@')
}

/// Where a property's value is to be taken from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reference<'a> {
    /// The first line of a file.
    File(&'a Path),
    /// An environment variable.
    Env(&'a str),
}

/// `sasl.password_file` refers to the value of `sasl.password`.
pub(crate) fn reference<'a>(name: &'a str, value: &'a str) -> Option<(&'a str, Reference<'a>)> {
    let file = name.strip_suffix("_file").map(|name| (name, Reference::File(Path::new(value))));
    file.or_else(|| name.strip_suffix("_env").map(|name| (name, Reference::Env(value))))
}

/// Reads a secret from where it stands. `env` looks a variable up.
///
/// # Errors
/// A sentence: there is no such file or variable, it is empty, or other users may read the file.
pub(crate) fn resolve(reference: &Reference<'_>, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret, String> {
    match reference {
        Reference::File(path) => read_file(path),
        Reference::Env(name) => match env(name) {
            Some(value) if !value.is_empty() => Ok(Secret::new(value)),
            _ => Err(format!("the environment variable {name} is not set: export it")),
        },
    }
}

fn read_file(path: &Path) -> Result<Secret, String> {
    let shown = path.display();
    let metadata = std::fs::metadata(path).map_err(|e| format!("the secret file {shown} cannot be read: {e}"))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(format!(
                "the secret file {shown} may be read by every user (mode {mode:03o}): run chmod 600 {shown}"
            ));
        }
    }
    if !metadata.is_file() {
        return Err(format!("the secret file {shown} is not a file"));
    }
    let text = std::fs::read_to_string(path).map_err(|e| format!("the secret file {shown} cannot be read: {e}"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("the secret file {shown} is empty")),
        secret => Ok(Secret::new(secret)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_by_name() {
        for name in ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["sasl.oauthbearer.token.endpoint.url", "sasl.password_file", "ssl.key.location", "sasl.username"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn a_secret_shows_itself_to_nobody() {
        assert_eq!(format!("{:?}", Secret::new("canary")), "***");
    }
}
