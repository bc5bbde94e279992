//! Writing the tables of an example: whole files, replaced at once, so that an interrupted run leaves no half table.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::error::ExampleError;

/// Makes the folder of an example.
///
/// # Errors
/// What the system says, with the path.
pub fn make_folder(folder: &Path) -> Result<(), ExampleError> {
    fs::create_dir_all(folder).map_err(ExampleError::io(folder))
}

/// Writes `folder/name` through a temporary file beside it.
///
/// # Errors
/// What the system says, with the path.
pub fn write(folder: &Path, name: &str, contents: &[u8]) -> Result<(), ExampleError> {
    let path = folder.join(name);
    let part = folder.join(format!("{name}.part"));
    let put = || -> std::io::Result<()> {
        let mut file = fs::File::create(&part)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&part, &path)
    };
    put().map_err(ExampleError::io(&path))
}

/// Rows as CSV text with a header. Our cells are numbers and plain words: nothing to quote.
#[derive(Debug)]
pub struct Table(String);

impl Table {
    /// A table with these columns.
    #[must_use]
    pub fn new(columns: &[&str]) -> Self {
        Self(columns.join(",") + "\n")
    }

    /// Adds a row.
    pub fn row(&mut self, cells: std::fmt::Arguments<'_>) {
        use std::fmt::Write as _;
        // Writing into a String cannot fail.
        let _ = self.0.write_fmt(cells);
        self.0.push('\n');
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
