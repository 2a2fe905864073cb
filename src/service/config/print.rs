//! The configuration as text: `--print-config`, and the generated `config/reference.toml`.

use std::fmt::Write as _;

use super::{
    layers::Layers,
    raw::SECTIONS,
    schema::{Field, Kind, Rule},
    secrets::{HIDDEN, is_open, is_secret, may_hold_one},
};
use crate::kafka::without_logins;

/// Every value that counts, with its origin as a comment; secrets are hidden. It is itself a configuration.
pub(crate) fn effective(layers: &Layers) -> String {
    let mut text = String::new();
    let mut maps = String::new();
    for (section, _, fields) in SECTIONS {
        if !section.is_empty() {
            line(&mut text, format_args!("\n[{section}]"));
        }
        for field in fields.iter().filter(|field| field.kind != Kind::Map) {
            let path = field.path();
            let (name, origin) = (field.name, layers.origin(&path));
            match layers.value(&path) {
                Some(value) if may_hold_one(&path, value) => {
                    line(&mut text, format_args!("{name} = [\"{HIDDEN}\"]  # {origin}"));
                }
                Some(value) => line(&mut text, format_args!("{name} = {}  # {origin}", without_login(value))),
                None => {}
            }
        }
        for field in fields.iter().filter(|field| field.kind == Kind::Map) {
            map(&mut maps, &field.path(), layers);
        }
        if !section.is_empty() {
            text.push_str(&std::mem::take(&mut maps));
        }
    }
    // A table at the top ends the top, so it comes last.
    text.push_str(&maps);
    text
}

fn map(text: &mut String, path: &str, layers: &Layers) {
    let mut entries = layers.map(path).peekable();
    if entries.peek().is_some() {
        line(text, format_args!("\n[{path}]"));
    }
    for (key, value) in entries {
        let origin = layers.origin(&format!("{path}.{key}"));
        let key_text = toml::Value::String(key.to_owned());
        let open = if path.starts_with("kafka.") { is_open(key) } else { !is_secret(key) };
        if !open {
            line(text, format_args!("{key_text} = \"{HIDDEN}\"  # {origin}"));
        } else {
            line(text, format_args!("{key_text} = {}  # {origin}", without_login(value)));
        }
    }
}

/// An address may have user and password before its host.
fn without_login(value: &toml::Value) -> toml::Value {
    match value {
        toml::Value::String(text) => toml::Value::String(without_logins(text)),
        other => other.clone(),
    }
}

/// Every field with its meaning, default and range: the text of `config/reference.toml`.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Every setting with its default. Generated from the code by `cargo test`: do not edit.\n\
         # Precedence: flag > environment (STORMGLASS_SECTION__FIELD) > file > default.\n",
    );
    let mut top_tables = String::new();
    for (section, about, fields) in SECTIONS {
        if !section.is_empty() {
            line(&mut text, format_args!("\n# {about}\n[{section}]"));
        }
        for field in *fields {
            let is_top_table = section.is_empty() && field.kind == Kind::Map;
            describe(if is_top_table { &mut top_tables } else { &mut text }, field);
        }
    }
    text.push_str(&top_tables);
    text
}

fn describe(text: &mut String, field: &Field) {
    text.push('\n');
    for doc in field.docs {
        line(text, format_args!("#{doc}"));
    }
    match field.rule {
        Rule::Range(low, high) => line(text, format_args!("# At least {low}, at most {high}.")),
        Rule::OneOf(words) => line(text, format_args!("# One of: {}.", words.join(", "))),
        Rule::Any => {}
    }
    if field.section.is_empty() && field.kind == Kind::Map {
        line(text, format_args!("[{}]", field.name));
    } else {
        line(text, format_args!("{} = {}", field.name, field.default));
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing into a String cannot fail.
    writeln!(text, "{content}").ok();
}
