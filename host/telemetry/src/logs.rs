//! Log set-up: one line per event on standard error, as text for people or JSON for machines.

use std::str::FromStr;

use tracing::subscriber::{Subscriber, set_global_default};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogsError;

    fn from_str(text: &str) -> Result<Self, LogsError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(LogsError::Format(other.to_string())),
        }
    }
}

/// Why the log could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogsError {
    /// The filter is not one.
    #[error("log filter `{filter}`: {source}; an example is `info,sagehost_pipeline=debug`")]
    Filter {
        /// As given.
        filter: String,
        /// What the parser said.
        source: tracing_subscriber::filter::ParseError,
    },
    /// No such format.
    #[error("log format `{0}` is neither `text` nor `json`")]
    Format(String),
    /// [`init_logs`] was called before.
    #[error("the log is already set up")]
    Twice,
}

/// Sends the log of the whole process to standard error. `filter` is in the syntax of
/// [`EnvFilter`]: a level, or levels by module.
///
/// # Errors
/// The filter cannot be read, or the log is already set up.
pub fn init_logs(filter: &str, format: LogFormat) -> Result<(), LogsError> {
    set_global_default(subscriber(filter, format, std::io::stderr)?).map_err(|_| LogsError::Twice)
}

fn subscriber<W>(filter: &str, format: LogFormat, writer: W) -> Result<Box<dyn Subscriber + Send + Sync>, LogsError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let parsed =
        EnvFilter::try_new(filter).map_err(|source| LogsError::Filter { filter: filter.to_string(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(filter: &str, format: LogFormat) -> String {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber = subscriber(filter, format, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("request", request_id = "r-1");
            let _entered = span.enter();
            tracing::info!(target: "sagehost_test", rows = 3, "line\nbroken");
            tracing::debug!(target: "sagehost_test", "hidden");
        });
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_is_one_object_a_line_with_the_spans_fields() {
        let text = logged("info", LogFormat::Json);
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains(r#""rows":3"#) && text.contains(r#""request_id":"r-1""#), "{text}");
        assert!(text.contains(r"line\nbroken"), "{text}");
    }

    #[test]
    fn the_filter_decides() {
        assert!(logged("sagehost_test=debug", LogFormat::Text).contains("hidden"));
        assert!(!logged("info", LogFormat::Text).contains("hidden"));
        assert!(logged("off", LogFormat::Text).is_empty());
    }

    #[test]
    fn a_bad_filter_is_said() {
        let error = init_logs("sagehost=loud", LogFormat::Text).unwrap_err().to_string();
        assert!(error.contains("sagehost=loud"), "{error}");
        assert!("xml".parse::<LogFormat>().is_err());
    }
}
