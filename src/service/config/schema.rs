//! What the configuration knows of each of its fields: one declaration gives the raw struct, the default layer, the
//! checks, `config/reference.toml` and the comments of `--print-config`.

use std::collections::BTreeMap;

/// What a field takes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A whole number that is not negative.
    Number,
    /// `true` or `false`.
    Flag,
    /// A text.
    Text,
    /// A list of texts.
    List,
    /// A table of keys that are not ours to know.
    Map,
}

/// What a field's value must satisfy besides its kind.
#[derive(Copy, Clone, PartialEq, Debug)]
pub(crate) enum Rule {
    /// Nothing.
    Any,
    /// At least the first, at most the second.
    Range(u64, u64),
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// One field.
#[derive(Debug)]
pub(crate) struct Field {
    /// The section's name, empty at the top.
    pub(crate) section: &'static str,
    /// The field's name in the section.
    pub(crate) name: &'static str,
    /// Its meaning: the lines of its doc comment.
    pub(crate) docs: &'static [&'static str],
    pub(crate) kind: Kind,
    /// Its default as TOML.
    pub(crate) default: &'static str,
    pub(crate) rule: Rule,
}

impl Field {
    /// `section.name`.
    pub(crate) fn path(&self) -> String {
        if self.section.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.section, self.name) }
    }
}

/// A Rust type that a raw field may have.
pub(super) trait FieldType {
    const KIND: Kind;
}

impl FieldType for u64 {
    const KIND: Kind = Kind::Number;
}
impl FieldType for bool {
    const KIND: Kind = Kind::Flag;
}
impl FieldType for String {
    const KIND: Kind = Kind::Text;
}
impl FieldType for Vec<String> {
    const KIND: Kind = Kind::List;
}
impl FieldType for BTreeMap<String, String> {
    const KIND: Kind = Kind::Map;
}

/// Declares a section: the struct that mirrors it in the file, and its fields' descriptions.
///
/// `name: type = "default as TOML", rule;`, under the doc comment that becomes its description. The `nested` sections,
/// at the top only, are structs that another call has declared.
macro_rules! section {
    ($section:literal, $(#[doc = $about:literal])* $name:ident {
        $($(#[doc = $doc:literal])* $field:ident: $type:ty = $default:literal, $rule:expr;)*
    } $(nested { $($sub:ident: $sub_type:ty,)* })?) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $name {
            $($(#[doc = $doc])* pub(crate) $field: $type,)*
            $($(pub(crate) $sub: $sub_type,)*)?
        }

        impl $name {
            /// The section's fields, in the order of the reference.
            pub(crate) const FIELDS: &[$crate::service::config::schema::Field] = &[$($crate::service::config::schema::Field {
                section: $section,
                name: stringify!($field),
                docs: &[$($doc),*],
                kind: <$type as $crate::service::config::schema::FieldType>::KIND,
                default: $default,
                rule: $rule,
            }),*];
        }
    };
}

pub(super) use section;
