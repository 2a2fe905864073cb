//! Where values come from, and which of them wins: **flag > environment > file > default**.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use super::{
    problem::Problem,
    raw::fields,
    schema::{Field, Kind},
    secrets,
};

/// Who set a value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// Nobody: it is the default.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable, by name.
    Env(String),
    /// A flag of the command line, as it is written.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A value before its field is known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Given {
    /// TOML that was parsed.
    Toml(toml::Value),
    /// A text to be read as the field's kind wants it.
    Text(String),
}

/// The values that won, by path, with who set them. Paths below a table of foreign keys keep the key's dots.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    values: BTreeMap<String, (toml::Value, Origin)>,
    /// What could not be placed.
    pub(crate) problems: Vec<Problem>,
}

impl Layers {
    /// The lowest layer: every default.
    pub(crate) fn with_defaults() -> Self {
        let mut layers = Self::default();
        for field in fields().filter(|field| field.kind != Kind::Map) {
            match parse_value(field.default) {
                Some(value) => drop(layers.values.insert(field.path(), (value, Origin::Default))),
                None => layers.problems.push(Problem::new(field.path(), "its default is no TOML: please report this")),
            }
        }
        layers
    }

    /// Sets one value; a later call wins over an earlier one.
    pub(crate) fn set(&mut self, path: &str, given: Given, origin: &Origin) {
        let Some((field, key)) = place(path) else {
            return self.problem(path, origin, unknown(path));
        };
        match (key, read(field, given)) {
            (None, Ok(value)) if field.kind != Kind::Map => self.insert(path.to_owned(), value, origin),
            (Some(key), Ok(value)) => {
                let map = field.path();
                self.flatten(&format!("{map}.{key}"), value, origin);
            }
            (None, Ok(value @ toml::Value::Table(_))) => self.flatten(path, value, origin),
            (None, Ok(_)) => self.problem(path, origin, format!("must be a table: write [{path}] and its keys below")),
            (_, Err(message)) => self.problem(path, origin, message),
        }
    }

    /// Sets everything that a file holds.
    pub(crate) fn set_table(&mut self, table: toml::Table, origin: &Origin) {
        for (name, value) in table {
            let is_section = super::raw::SECTIONS.iter().any(|(section, _, _)| *section == name);
            match value {
                toml::Value::Table(inner) if is_section => {
                    for (field, value) in inner {
                        self.set(&format!("{name}.{field}"), Given::Toml(value), origin);
                    }
                }
                value if !is_section => self.set(&name, Given::Toml(value), origin),
                _ => self.problem(&name, origin, format!("is a section: write [{name}] and its fields below")),
            }
        }
    }

    /// A dotted key without quotes is a table in TOML: `sasl.mechanism` and `"sasl.mechanism"` mean the same here.
    fn flatten(&mut self, path: &str, value: toml::Value, origin: &Origin) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    self.flatten(&format!("{path}.{key}"), value, origin);
                }
            }
            toml::Value::Array(_) | toml::Value::Datetime(_) => {
                self.problem(path, origin, "must be a text, a number or true or false".to_owned());
            }
            toml::Value::String(text) => self.insert(path.to_owned(), toml::Value::String(text), origin),
            scalar @ (toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_)) => {
                self.insert(path.to_owned(), toml::Value::String(scalar.to_string()), origin);
            }
        }
    }

    fn insert(&mut self, path: String, value: toml::Value, origin: &Origin) {
        self.values.insert(path, (value, origin.clone()));
    }

    fn problem(&mut self, path: &str, origin: &Origin, message: String) {
        self.problems.push(Problem { path: path.to_owned(), origin: Some(origin.to_string()), message });
    }

    /// Who set `path`.
    pub(crate) fn origin(&self, path: &str) -> &Origin {
        self.values.get(path).map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// The value of `path`.
    pub(crate) fn value(&self, path: &str) -> Option<&toml::Value> {
        self.values.get(path).map(|(value, _)| value)
    }

    /// The keys that are set in the table of foreign keys at `path`, with their values.
    pub(crate) fn map(&self, path: &str) -> impl Iterator<Item = (&str, &toml::Value)> + use<'_> {
        let prefix = format!("{path}.");
        self.values.iter().filter_map(move |(path, (value, _))| Some((path.strip_prefix(&prefix)?, value)))
    }

    /// The merged values as one TOML table, for serde.
    pub(crate) fn to_table(&self) -> toml::Table {
        let mut top = toml::Table::new();
        for field in fields() {
            let value = match field.kind {
                Kind::Map => {
                    let entries = self.map(&field.path()).map(|(key, value)| (key.to_owned(), value.clone()));
                    toml::Value::Table(entries.collect())
                }
                Kind::Number | Kind::Flag | Kind::Text | Kind::List => match self.value(&field.path()) {
                    // No number is negative: this one is reported, and must not hide what else is wrong.
                    Some(toml::Value::Integer(..0)) | None => match parse_value(field.default) {
                        Some(default) => default,
                        None => continue,
                    },
                    Some(value) => value.clone(),
                },
            };
            if field.section.is_empty() {
                top.insert(field.name.to_owned(), value);
            } else if let toml::Value::Table(section) =
                top.entry(field.section).or_insert_with(|| toml::Value::Table(toml::Table::new()))
            {
                section.insert(field.name.to_owned(), value);
            }
        }
        top
    }
}

/// The field that `path` names; for a table of foreign keys also the key in it.
pub(crate) fn place(path: &str) -> Option<(&'static Field, Option<&str>)> {
    fields().find_map(|field| {
        let own = field.path();
        if own == path {
            return Some((field, None));
        }
        let key = path.strip_prefix(&own)?.strip_prefix('.')?;
        (field.kind == Kind::Map).then_some((field, Some(key)))
    })
}

/// What to say of a path that names no field.
fn unknown(path: &str) -> String {
    let nearest = fields()
        .map(|field| (strsim::jaro_winkler(&field.path(), path), field.path()))
        .chain(fields().filter(|f| path == f.name).map(|f| (1.0, f.path())))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((_, nearest)) => format!("unknown key; did you mean {nearest}?"),
        None => "unknown key; config/reference.toml lists them all".to_owned(),
    }
}

/// Reads what was given as the kind that the field wants.
fn read(field: &Field, given: Given) -> Result<toml::Value, String> {
    let value = match given {
        Given::Toml(value) => value,
        Given::Text(text) => match field.kind {
            Kind::Text => match parse_value(&text) {
                Some(toml::Value::String(quoted)) => toml::Value::String(quoted),
                _ => toml::Value::String(text),
            },
            Kind::List => match parse_value(&text) {
                Some(list @ toml::Value::Array(_)) => list,
                _ => toml::Value::Array(split_list(&text)),
            },
            Kind::Map => toml::Value::String(text),
            Kind::Number | Kind::Flag => parse_value(&text).unwrap_or(toml::Value::String(text)),
        },
    };
    let fits = match (field.kind, &value) {
        (Kind::Number, toml::Value::Integer(_))
        | (Kind::Flag, toml::Value::Boolean(_))
        | (Kind::Text, toml::Value::String(_))
        | (Kind::Map, _) => true,
        (Kind::List, toml::Value::Array(items)) => items.iter().all(toml::Value::is_str),
        _ => false,
    };
    if fits { Ok(value) } else { Err(format!("must be {}, not {}", wanted(field.kind), shown(field, &value))) }
}

/// `a,b` as two texts. A regular expression may hold commas, so it is never split.
fn split_list(text: &str) -> Vec<toml::Value> {
    if text.starts_with('^') {
        return vec![toml::Value::String(text.to_owned())];
    }
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(|item| toml::Value::String(item.to_owned())).collect()
}

fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Number => "a whole number",
        Kind::Flag => "true or false",
        Kind::Text => "a text in quotes",
        Kind::List => "a list of texts, as in [\"a\", \"b\"]",
        Kind::Map => "a table",
    }
}

fn shown(field: &Field, value: &toml::Value) -> String {
    if secrets::is_secret(field.name) || secrets::may_hold_one(&field.path(), value) {
        return format!("a {}", value.type_str());
    }
    match value {
        toml::Value::Table(_) => "a table".to_owned(),
        value => {
            format!("{value} (a{} {})", if value.is_integer() || value.is_array() { "n" } else { "" }, value.type_str())
        }
    }
}

/// `text` as a TOML value, if it is one.
pub(crate) fn parse_value(text: &str) -> Option<toml::Value> {
    let mut table: toml::Table = toml::from_str(&format!("v = {text}")).ok()?;
    if table.len() == 1 { table.remove("v") } else { None }
}
