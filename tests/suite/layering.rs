//! The folders of `src/` are layers: a file names only folders of a lower rank. With it, what else can be seen from the
//! text alone: who may name rdkafka, where `unsafe` may stand, and which files decide without doing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folder (or file) under `src/`, lowest layer first. Same number: siblings, which never meet.
const RANK: &[(&str, u8)] = &[
    ("clock", 0),
    ("metrics", 0),
    ("tuple", 1),
    ("ack", 2),
    ("state", 2),
    ("topology", 3),
    ("kafka", 4),
    ("broker", 4),
    ("runtime", 4),
    ("topologies", 5),
    ("audit", 5),
    ("chaos", 6),
    ("service", 7),
];

/// Plain values: event and `now` in, outcome out. The guarantee is read here, so nothing else may happen here. Besides these
/// folders, every file that calls itself pure in its first paragraph.
const PURE: &[&str] = &["ack/", "state/", "broker/core/"];
const IMPURE: &[&str] = &["tokio::", "async fn", "tracing::", "rand::", "std::thread", "Instant::now", "SystemTime"];

fn rank(name: &str) -> Option<u8> {
    RANK.iter().find(|(n, _)| *n == name).map(|(_, r)| *r)
}

/// Everything wrong with one file; `path` is relative to `src/`.
fn violations(path: &str, text: &str) -> Vec<String> {
    let (layer, inner) = path.split_once('/').unwrap_or((path.trim_end_matches(".rs"), "mod.rs"));
    if matches!(layer, "lib" | "main") {
        return Vec::new();
    }
    let Some(own) = rank(layer) else {
        return vec![format!("{path}: add `{layer}` to RANK, every folder has a layer")];
    };
    let code = without_comments(text);
    let mut named = modules_after("crate::", &code);
    if inner == "mod.rs" {
        // One level up is the crate's root; deeper down it is the folder itself. `super::super` is not followed, so it
        // is not allowed there.
        named.extend(modules_after("super::", &code).into_iter().filter(|name| rank(name).is_some()));
    }
    let mut found = Vec::new();
    for other in named.iter().filter(|other| *other != layer) {
        match rank(other) {
            None => found.push(format!("{path}: names `crate::{other}`, which is no folder: name where it lives")),
            Some(rank) if rank >= own => found.push(format!("{path}: `{layer}` may not use `crate::{other}`")),
            Some(_) => {}
        }
    }
    if code.contains("super::super::") {
        found.push(format!("{path}: write `crate::` instead of `super::super::`"));
    }
    if layer != "kafka" && names_crate(&code, "rdkafka") {
        found.push(format!("{path}: only `kafka` knows rdkafka"));
    }
    if PURE.iter().any(|pure| path.starts_with(pure)) || calls_itself_pure(text) {
        let used = IMPURE.iter().filter(|word| code.contains(**word));
        found.extend(used.map(|word| format!("{path}: decides, and may not do: `{word}`")));
    }
    found
}

fn calls_itself_pure(text: &str) -> bool {
    let first: Vec<_> = text.lines().map_while(|line| line.strip_prefix("//! ")).collect();
    let first = first.join(" ").to_lowercase();
    first.contains("pure.") || first.contains("pure:") || first.contains("a pure ")
}

fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// First path segments after a prefix, in single paths and at depth 1 of `crate::{a, b::C}`.
fn modules_after(prefix: &str, code: &str) -> BTreeSet<String> {
    let first = |path: &str| -> String { path.trim_start().chars().take_while(|c| is_word(*c)).collect() };
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(prefix) {
        // `$crate::` in a macro, `pub(in crate::x)` and `super::super::` are other things than an import.
        if code[..at].ends_with(|c| is_word(c) || c == '$' || c == ':') || code[..at].ends_with("(in ") {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.insert(first(rest));
            continue;
        };
        let (mut depth, mut start) = (1, 0);
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if (c == ',' && depth == 1) || depth == 0 {
                found.insert(first(&group[start..at]));
                start = at + 1;
            }
            if depth == 0 {
                break;
            }
        }
    }
    found.remove("");
    found
}

/// As a path (`rdkafka::`, `rdkafka_sys::`) or in `use rdkafka as`; a word in a message is no import.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let starts = !code[..at].ends_with(is_word);
        let rest = code[at + name.len()..].trim_start_matches("_sys");
        starts && (rest.starts_with("::") || code[..at].ends_with("use "))
    })
}

/// `unsafe` as code, not as a word in a sentence.
fn has_unsafe(text: &str) -> bool {
    let code = without_comments(text);
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "unsafe("]
        .iter()
        .any(|u| code.contains(u))
}

/// The one folder that may hold unsafe code.
const HOME_OF_UNSAFE: &str = "kafka/librdkafka/native/";

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Path under `src/` and text of each file.
fn all() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src).into_iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    let named = files.map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&src).unwrap().to_str().unwrap().replace('\\', "/"), text)
    });
    named.collect()
}

#[test]
fn folders_use_only_lower_layers() {
    let bad: Vec<_> = all().iter().flat_map(|(path, text)| violations(path, text)).collect();
    assert!(bad.is_empty(), "against the layering:\n{}", bad.join("\n"));
}

#[test]
fn unsafe_code_has_one_home() {
    let files = all();
    let (home, astray): (Vec<_>, Vec<_>) = files
        .iter()
        .filter(|(_, text)| has_unsafe(text))
        .map(|(path, _)| path.as_str())
        .partition(|path| path.starts_with(HOME_OF_UNSAFE));
    assert!(astray.is_empty(), "unsafe code in {astray:?}");
    assert!(!home.is_empty(), "the rule looks for it where it is");
}

/// The rules above are alive: each planted violation is seen, and what is allowed is not.
#[test]
fn planted_violations_are_seen() {
    for (path, code, expected) in [
        ("ack/ledger.rs", "use crate::topology::Bolt;", "may not use `crate::topology`"),
        ("kafka/source.rs", "use crate::{clock::Clock, runtime};", "may not use `crate::runtime`"),
        ("ack/ledger.rs", "fn f() { crate::state::open() }", "may not use `crate::state`"),
        ("topology/mod.rs", "use super::service::Cli;", "may not use `crate::service`"),
        ("clock.rs", "use super::{tuple::Row};", "may not use `crate::tuple`"),
        ("runtime/a/b.rs", "use super::super::x;", "instead of `super::super::`"),
        ("runtime/a.rs", "use crate::Tuple;", "which is no folder"),
        ("utils/mod.rs", "", "add `utils` to RANK"),
        ("service/run.rs", "use rdkafka::ClientConfig;", "only `kafka` knows rdkafka"),
        ("runtime/x.rs", "use rdkafka as client;", "only `kafka` knows rdkafka"),
        ("runtime/x.rs", "rdkafka_sys::rd_kafka_new()", "only `kafka` knows rdkafka"),
        ("ack/timeouts.rs", "let now = Instant::now();", "decides, and may not do"),
        ("kafka/round.rs", "//! One\n//! commit. Pure.\nfn f() { tracing::info!() }", "decides, and may not do"),
    ] {
        let found = violations(path, code).join("\n");
        assert!(found.contains(expected), "{path}: {code}: {found:?}");
    }
    for (path, code) in [
        ("service/run.rs", "use crate::{kafka::{Source, runtime}, topology};"),
        ("kafka/source.rs", "use rdkafka::consumer::BaseConsumer; use super::sink;"),
        ("runtime/x.rs", "// like crate::kafka\nlet text = \"a librdkafka property\";"),
        ("topology/x.rs", "macro_rules! m { () => { $crate::kafka::f() } } pub(in crate::topology) fn f() {}"),
        ("lib.rs", "pub use crate::service::main;"),
    ] {
        assert_eq!(violations(path, code), [""; 0], "{path}: {code}");
    }
    assert!(has_unsafe("let x = unsafe { f() };") && !has_unsafe("// unsafe {\n\"refuses unsafe edits\""));
}
