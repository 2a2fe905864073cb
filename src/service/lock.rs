//! One process for each identity on this host: a file that it holds a lock on for as long as it lives.
//!
//! The group would let a second process of the same identity take the first one's place. On one host that is a mistake in
//! every case, and it is refused before the group hears of it. The kernel gives the lock back however a process ends, so
//! the file may stay; it says who held the lock last.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process,
};

use super::{
    config::IdentitySettings,
    exit::{Cause, Failure},
};

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct InstanceLock {
    _held: File,
}

impl InstanceLock {
    /// Takes the lock of `instance` in its group.
    ///
    /// # Errors
    /// Another process holds it ([`Cause::Occupied`]), or there can be no such file ([`Cause::CannotCreate`]).
    pub(crate) fn take(identity: &IdentitySettings, instance: &str) -> Result<Self, Failure> {
        let path = path(&identity.state_dir, &identity.group, instance);
        let cannot = |error: io::Error| {
            let sentence = format!(
                "the lock file of instance \"{instance}\" cannot be written at {}: {error}. {}",
                path.display(),
                remedy(error.kind())
            );
            Failure::new(Cause::CannotCreate, sentence)
        };
        let mut file = open(&path).map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {
                note_owner(&mut file).map_err(cannot)?;
                Ok(Self { _held: file })
            }
            Err(TryLockError::WouldBlock) => Err(occupied(&path, &mut file, &identity.group, instance)),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }
}

fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Free some space, or set state_dir to another folder"
        }
        io::ErrorKind::InvalidFilename => "Shorten kafka.group, kafka.instance or state_dir",
        _ => "Set state_dir to a folder that this user may write",
    }
}

fn occupied(path: &Path, file: &mut File, group: &str, instance: &str) -> Failure {
    let mut owner = String::new();
    // Whoever has just taken the lock may not have written yet.
    let read = file.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
    let owner = if read { format!("process {}", owner.trim()) } else { "another process".to_owned() };
    let sentence = format!(
        "{owner} runs as instance \"{instance}\" of group \"{group}\" on this host (it holds {}): stop it first, or give \
         this one another kafka.instance",
        path.display()
    );
    Failure::new(Cause::Occupied, sentence)
}

fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// Always as long as the last owner's, so that nothing of it is left.
fn note_owner(file: &mut File) -> io::Result<()> {
    file.write_all(format!("{:<10}\n", process::id()).as_bytes())?;
    file.flush()
}

/// `GROUP@INSTANCE.lock`; what may not stand in a file's name is written as `%` and its bytes in hexadecimal.
fn path(folder: &Path, group: &str, instance: &str) -> PathBuf {
    let escape = |text: &str| -> String {
        let one = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        text.bytes().map(one).collect()
    };
    folder.join(format!("{}@{}.lock", escape(group), escape(instance)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn identity(state_dir: &Path) -> IdentitySettings {
        IdentitySettings {
            group: "words/eu".to_owned(),
            instance: None,
            session_timeout: Duration::from_secs(45),
            state_dir: state_dir.to_owned(),
        }
    }

    #[test]
    fn a_second_process_of_the_same_identity_is_refused_until_the_first_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity(&folder.path().join("made/at/need"));
        let first = InstanceLock::take(&identity, "0").unwrap();
        let other = InstanceLock::take(&identity, "1").unwrap();
        let refused = InstanceLock::take(&identity, "0").unwrap_err();
        let sentence = format!("{:#}", refused.error.unwrap());
        assert_eq!(refused.cause.code(), 75);
        let expected = [format!("process {} runs as", process::id()), "words%2Feu@0.lock".to_owned()];
        assert!(expected.iter().all(|part| sentence.contains(part)), "{sentence}");
        drop((first, other));
        InstanceLock::take(&identity, "0").unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_said_with_73() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = InstanceLock::take(&identity(&file), "0").unwrap_err();
        let sentence = format!("{:#}", refused.error.unwrap());
        assert_eq!(refused.cause.code(), 73);
        assert!(sentence.contains("words%2Feu@0.lock"), "{sentence}");
        assert!(sentence.ends_with(". Set state_dir to a folder that this user may write"), "{sentence}");
    }

    #[test]
    fn a_name_that_is_too_long_is_to_be_shortened() {
        let folder = tempfile::tempdir().unwrap();
        let refused = InstanceLock::take(&identity(folder.path()), &"i".repeat(249)).unwrap_err();
        let sentence = format!("{:#}", refused.error.unwrap());
        assert!(sentence.ends_with(". Shorten kafka.group, kafka.instance or state_dir"), "{sentence}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said_with_73() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity(folder.path());
        std::os::unix::fs::symlink("/dev/full", path(folder.path(), &identity.group, "0")).unwrap();
        let refused = InstanceLock::take(&identity, "0").unwrap_err();
        let sentence = format!("{:#}", refused.error.unwrap());
        assert_eq!(refused.cause.code(), 73);
        assert!(sentence.contains("No space left on device") && sentence.contains("Free some space"), "{sentence}");
    }
}
