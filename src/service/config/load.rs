//! Brings the layers together and reads them as [`Raw`]. The only code that looks at files and the environment.

use std::path::{Path, PathBuf};

use super::{
    layers::{Given, Layers, Origin},
    problem::{Problem, Problems},
    raw::Raw,
};

/// Prefix of the variables that set a field: `STORMGLASS_ENGINE__EXECUTORS` is `engine.executors`.
const PREFIX: &str = "STORMGLASS_";
/// The variable that names the file, as `-c` does.
pub(crate) const FILE_VARIABLE: &str = "STORMGLASS_CONFIG";

/// What the layers are made of.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// The file, if one is named.
    pub(crate) file: Option<PathBuf>,
    /// The environment.
    pub(crate) env: Vec<(String, String)>,
    /// Path, value and the flag as it was written, in the order of the command line.
    pub(crate) flags: Vec<(String, Given, String)>,
    /// Mistakes of flags that name no path at all.
    pub(crate) problems: Vec<Problem>,
}

impl Sources {
    /// The environment of this process. Variables that are no Unicode are not ours.
    pub(crate) fn process_env() -> Vec<(String, String)> {
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect()
    }

    /// Looks a variable up.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.env.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }
}

/// The merged configuration, not yet validated.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Every value with its origin.
    pub(crate) layers: Layers,
    /// The values, typed; `None` if some are of the wrong type (the layers' problems say which).
    pub(crate) raw: Option<Raw>,
}

/// Merges the sources. Mistakes are collected in the layers.
///
/// # Errors
/// If the file cannot be read or is no TOML: then nothing else can be said.
pub(crate) fn load(sources: &Sources) -> Result<Loaded, Problems> {
    let mut layers = Layers::with_defaults();
    layers.problems.extend(sources.problems.iter().cloned());
    if let Some(path) = &sources.file {
        layers.set_table(read_file(path)?, &Origin::File(path.clone()));
    }
    for (name, value) in &sources.env {
        if let Some(path) = variable_path(name) {
            layers.set(&path, Given::Text(value.clone()), &Origin::Env(name.clone()));
        }
    }
    for (path, given, flag) in &sources.flags {
        layers.set(path, given.clone(), &Origin::Flag(flag.clone()));
    }
    let raw = serde_path_to_error::deserialize(layers.to_table());
    let raw = match raw {
        Ok(raw) => Some(raw),
        Err(error) => {
            if layers.problems.is_empty() {
                layers.problems.push(Problem::new(error.path().to_string(), error.inner().message()));
            }
            None
        }
    };
    Ok(Loaded { layers, raw })
}

/// `STORMGLASS_KAFKA__PROPERTIES__SECURITY_PROTOCOL` is `kafka.properties.security.protocol`: librdkafka's names have
/// dots and no underscores, but for the endings of our own.
fn variable_path(name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX).filter(|_| name != FILE_VARIABLE)?.to_ascii_lowercase();
    let mut parts = rest.splitn(3, "__");
    let (first, second, third) = (parts.next()?, parts.next(), parts.next());
    let dotted = |key: &str| {
        let (key, end) =
            ["_file", "_env"].iter().find_map(|end| key.strip_suffix(end).map(|key| (key, *end))).unwrap_or((key, ""));
        format!("{}{end}", key.replace('_', "."))
    };
    Some(match (second, third) {
        (None, _) => first.to_owned(),
        (Some(second), None) => format!("{first}.{second}"),
        (Some(second), Some(third)) => format!("{first}.{second}.{}", dotted(third)),
    })
}

/// The file as a table. The line that a syntax error is in is not shown: it may hold a secret.
fn read_file(path: &Path) -> Result<toml::Table, Problems> {
    let one = |message: String| Problems(vec![Problem::new(path.display().to_string(), message)]);
    let text = std::fs::read_to_string(path).map_err(|e| one(format!("cannot be read: {e}")))?;
    toml::from_str(&text).map_err(|e: toml::de::Error| {
        let line = e.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.split('\n').count());
        one(format!("line {line} is no TOML: {}", e.message()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_paths() {
        let path = |name| variable_path(name).unwrap_or_default();
        assert_eq!(path("STORMGLASS_DELIVERY"), "delivery");
        assert_eq!(path("STORMGLASS_ENGINE__MAX_PENDING_RECORDS"), "engine.max_pending_records");
        assert_eq!(path("STORMGLASS_KAFKA__PROPERTIES__SASL_PASSWORD_FILE"), "kafka.properties.sasl.password_file");
        assert_eq!(path("STORMGLASS_CONFIG"), "");
        assert_eq!(path("HOME"), "");
    }
}
