//! `docs/symptoms.md` names only tests that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The names between backticks, in the column of tests.
fn named(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let tests = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    tests.flat_map(|tests| tests.split('`').skip(1).step_by(2)).filter(|name| name.contains('_')).collect()
}

#[test]
fn every_test_that_the_page_of_symptoms_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/symptoms.md")).unwrap();
    let mut files = Vec::new();
    ["src", "tests", "testcontainers"].iter().for_each(|folder| rust_files(&root.join(folder), &mut files));
    let code: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let exists = |name: &&str| code.iter().any(|text| text.contains(&format!("fn {name}(")));
    let (there, missing): (Vec<_>, Vec<_>) = named(&page).into_iter().partition(exists);
    assert_eq!(missing, Vec::<&str>::new());
    assert!(there.len() > 100, "the page was not understood: {}", there.len());
}
