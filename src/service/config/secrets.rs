//! What must never be shown, and the only two places it may come from: a file of its owner, or the environment.

use std::{
    borrow::Cow,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
};

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

/// Whether the value of property `name` may be shown: librdkafka knows it, or it refers to one, and it is no secret. A name
/// that nobody knows may be a secret's, mistyped.
pub(crate) fn is_open(name: &str) -> bool {
    let refers = name.ends_with("_file") || name.ends_with("_env");
    refers || (!is_secret(name) && crate::kafka::knows_property(name).is_ok())
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

/// Reads what property `name` refers to from where it stands. `env` looks a variable up. From then on no message shows it.
///
/// # Errors
/// A sentence: there is no such file or variable, it is empty, or other users may read the file.
pub(crate) fn resolve(
    name: &str,
    reference: &Reference<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Secret, String> {
    let secret = match reference {
        Reference::File(path) => read_file(path)?,
        Reference::Env(name) => match env(name) {
            Some(value) if !value.is_empty() => Secret::new(value),
            _ => return Err(format!("the environment variable {name} is not set: export it")),
        },
    };
    // Numbers would be hidden wherever one is counted.
    if is_secret(name) || secret.expose().parse::<f64>().is_err() {
        remember(secret.expose());
    }
    Ok(secret)
}

/// What was read, in each form in which a message may have it. For the whole process, as its stderr is: whatever the client
/// says of a value, it says in texts of its own.
static READ: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn remember(secret: &str) {
    /// What is shorter would be found in every word.
    const SHORTEST: usize = 4;
    let quoted = [serde_json::Value::from(secret).to_string(), format!("{secret:?}")];
    let forms = quoted.iter().filter_map(|form| form.strip_prefix('"')?.strip_suffix('"')).chain([secret]);
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    for form in forms.filter(|form| form.len() >= SHORTEST) {
        if !read.iter().any(|known| known == form) {
            read.push(form.to_owned());
        }
    }
}

/// A message without the secrets that were read.
pub(crate) fn without_secrets(message: &str) -> Cow<'_, str> {
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    read.iter().fold(Cow::Borrowed(message), |message, secret| {
        if message.contains(secret) { Cow::Owned(message.replace(secret, HIDDEN)) } else { message }
    })
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
    fn what_nobody_knows_may_be_a_secret() {
        for name in ["linger.ms", "topic.acks", "sasl.oauthbearer.token.endpoint.url", "no.such_file"] {
            assert!(is_open(name), "{name}");
        }
        for name in ["sasl.passwd", "ssl.key.passwrd", "sasl.password", "sasl.kerberos.kinit.cmd"] {
            assert!(!is_open(name), "{name}");
        }
    }

    #[test]
    fn no_message_shows_what_was_read() {
        let env = |_: &str| Some("can\"ary-5d1e".to_owned());
        resolve("ssl.ca.location", &Reference::Env("X"), &env).unwrap();
        for message in ["fopen('can\"ary-5d1e')", r#"{"message":"can\"ary-5d1e"}"#] {
            let shown = without_secrets(message);
            assert!(shown.contains(HIDDEN) && !shown.contains("ary-5d1e"), "{shown}");
        }
        assert_eq!(without_secrets("nothing"), "nothing");
    }

    #[test]
    fn a_secret_shows_itself_to_nobody() {
        assert_eq!(format!("{:?}", Secret::new("canary")), "***");
    }
}
