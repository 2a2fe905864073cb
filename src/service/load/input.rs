//! Where lines come from: generated, or out of a file.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    os::fd::AsFd as _,
    path::Path,
};

use super::lines::Lines;

/// A sequence of lines that ends.
#[derive(Debug)]
pub(crate) enum Input {
    /// So many lines more of a generated sequence.
    Generated(Lines, u64),
    /// The lines of a file, whatever their bytes are.
    File(BufReader<File>),
}

impl Input {
    /// The lines of the file at `path`.
    ///
    /// # Errors
    /// If it cannot be opened, or is a folder, which opens and cannot be read.
    pub(crate) fn file(path: &Path) -> io::Result<Self> {
        Self::opened(File::open(path)?)
    }

    /// The lines of the standard input.
    ///
    /// # Errors
    /// See [`Input::file`].
    pub(crate) fn standard() -> io::Result<Self> {
        Self::opened(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }

    fn opened(file: File) -> io::Result<Self> {
        if file.metadata()?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(Self::File(BufReader::with_capacity(1 << 18, file)))
    }

    /// How many lines are left, if that is known.
    pub(crate) const fn left(&self) -> Option<u64> {
        match self {
            Self::Generated(_, left) => Some(*left),
            Self::File(_) => None,
        }
    }

    /// Replaces what is in `line` by the next one, without its line end; false if there is none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        match self {
            Self::Generated(_, 0) => Ok(false),
            Self::Generated(lines, left) => {
                *left -= 1;
                lines.push_line(line);
                Ok(true)
            }
            Self::File(file) => {
                if file.read_until(b'\n', line)? == 0 {
                    return Ok(false);
                }
                if line.last() == Some(&b'\n') {
                    line.pop();
                }
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_its_lines_whatever_their_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"one two\n\n\xff\xfe\nlast").unwrap();
        let mut input = Input::file(file.path()).unwrap();
        let (mut line, mut lines) = (Vec::new(), Vec::new());
        while input.next(&mut line).unwrap() {
            lines.push(line.clone());
        }
        assert_eq!(lines, [&b"one two"[..], b"", b"\xff\xfe", b"last"]);
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Input::file(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }
}
