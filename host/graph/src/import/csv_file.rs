//! A CSV file with named columns, read row by row; errors carry file and line.

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::PathBuf;

use super::Progress;
use super::config::CsvSource;
use crate::error::GraphError;

/// A CSV file whose header is known.
#[derive(Clone, Debug)]
pub(super) struct CsvFile {
    pub(super) path: PathBuf,
    pub(super) header: Vec<String>,
    has_header: bool,
    delimiter: u8,
    bytes: u64,
}

/// Rows between two calls of [`Progress::advance`].
const REPORT: u64 = 4096;

impl CsvFile {
    /// Opens the file and reads its header line, unless the configuration gives the names.
    pub(super) fn open(source: &CsvSource) -> Result<Self, GraphError> {
        let path = source.path.clone();
        let bytes = std::fs::metadata(&path).map_err(GraphError::io(&path))?.len();
        let mut file = Self {
            path,
            header: source.header.clone().unwrap_or_default(),
            has_header: source.header.is_none(),
            delimiter: source.delimiter,
            bytes,
        };
        if file.has_header {
            let mut reader = file.reader()?;
            let header = reader.headers().map_err(|error| file.csv_error(error))?;
            file.header = header.iter().map(|name| name.trim().to_owned()).collect();
        }
        let header = &file.header;
        if let Some((_, twice)) = header.iter().enumerate().find(|(i, name)| header[..*i].contains(name)) {
            return Err(file.error(1, format!("two columns are named `{twice}`")));
        }
        Ok(file)
    }

    /// A column's place.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|column| column == name)
    }

    /// A column's place, which was looked for before.
    pub(super) fn known(&self, name: &str) -> Result<usize, GraphError> {
        self.column(name).ok_or_else(|| self.error(0, format!("no column `{name}`")))
    }

    /// Reads every row.
    pub(super) fn rows(
        &self,
        stage: &str,
        progress: &mut dyn Progress,
        mut each: impl FnMut(&Row<'_>) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let mut reader = self.reader()?;
        let mut record = csv::ByteRecord::new();
        progress.begin(stage, self.bytes);
        let mut rows = 0_u64;
        while reader.read_byte_record(&mut record).map_err(|error| self.csv_error(error))? {
            let row = Row { file: self, record: &record };
            if record.len() != self.header.len() {
                return Err(row.error(format!("{} fields: {} are expected", record.len(), self.header.len())));
            }
            each(&row)?;
            rows += 1;
            if rows.is_multiple_of(REPORT) {
                progress.advance(reader.position().byte());
            }
        }
        progress.end();
        Ok(())
    }

    fn reader(&self) -> Result<csv::Reader<File>, GraphError> {
        let file = File::open(&self.path).map_err(GraphError::io(&self.path))?;
        let mut builder = csv::ReaderBuilder::new();
        // Lengths are checked row by row, against the header.
        builder.has_headers(self.has_header).delimiter(self.delimiter).flexible(true).buffer_capacity(1 << 16);
        Ok(builder.from_reader(file))
    }

    /// The line on which a record begins, counted in the file itself: the reader's own count is of where it began to look,
    /// before empty lines. 0 where the file cannot be read again.
    fn line(&self, position: &csv::Position) -> u64 {
        let Ok(file) = File::open(&self.path) else { return 0 };
        let mut line = 1;
        for (at, byte) in (0_u64..).zip(BufReader::with_capacity(1 << 16, file).bytes()) {
            match byte {
                Ok(b'\n') => line += 1,
                Ok(b'\r') => {}
                Ok(_) if at >= position.byte() => return line,
                Ok(_) => {}
                Err(_) => return 0,
            }
        }
        line
    }

    pub(super) fn error(&self, line: u64, detail: impl Into<String>) -> GraphError {
        GraphError::Import { path: self.path.clone(), line, detail: detail.into() }
    }

    fn csv_error(&self, error: csv::Error) -> GraphError {
        let line = error.position().map_or(0, |position| self.line(position));
        let detail = error.to_string();
        match error.into_kind() {
            csv::ErrorKind::Io(source) => GraphError::Io { path: self.path.clone(), source },
            csv::ErrorKind::Utf8 { .. } => self.error(line, "not UTF-8"),
            _ => self.error(line, detail),
        }
    }
}

/// A row.
pub(super) struct Row<'a> {
    file: &'a CsvFile,
    record: &'a csv::ByteRecord,
}

impl Row<'_> {
    /// A cell's text.
    pub(super) fn text(&self, column: usize) -> Result<&str, GraphError> {
        let cell = self.record.get(column).unwrap_or_default();
        std::str::from_utf8(cell).map_err(|_| self.bad(column, "is not UTF-8"))
    }

    /// An error in this row.
    pub(super) fn error(&self, detail: impl Into<String>) -> GraphError {
        self.file.error(self.record.position().map_or(0, |position| self.file.line(position)), detail)
    }

    /// An error in a cell of this row.
    pub(super) fn bad(&self, column: usize, detail: &str) -> GraphError {
        let name = self.file.header.get(column).map_or("", String::as_str);
        let cell = String::from_utf8_lossy(self.record.get(column).unwrap_or_default());
        let cell: String = cell.chars().take(60).collect();
        self.error(format!("column `{name}`: `{cell}` {detail}"))
    }

    /// The user's words for what the graph's builder found wrong.
    pub(super) fn wrap(&self, error: GraphError) -> GraphError {
        match error {
            GraphError::BadArgument(detail) => self.error(detail),
            other => other,
        }
    }
}
