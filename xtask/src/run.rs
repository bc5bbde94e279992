//! Starting programs, and saying so.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Runs one step under a heading and says how long it took.
///
/// # Errors
/// The step's, with its name.
pub(crate) fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("\n=== {name}");
    let start = Instant::now();
    let result = work().with_context(|| format!("step failed: {name}"));
    let verdict = if result.is_ok() { "done" } else { "FAILED" };
    println!("=== {name}: {verdict} in {}", seconds(start.elapsed()));
    result
}

/// Shows a command, runs it with our own input and output, and fails if it does.
///
/// # Errors
/// It cannot be started, or exits with another status than 0.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start: {}", shown(command)))?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(())
}

/// Runs a command quietly and returns what it printed.
///
/// # Errors
/// It cannot be started, or fails: with what it wrote to standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start: {}", shown(command)))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}\n{}", output.status, shown(command), said.trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("not text: {}", shown(command)))
}

/// Runs a command and passes its output on as it comes, remembering it, so that a summary can repeat a part of it. Both of
/// its streams become our standard output, in order.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn tee(command: &mut Command) -> Result<String> {
    println!("$ {}", shown(command));
    let (mut reader, writer) = std::io::pipe().context("no pipe")?;
    command.stdin(Stdio::null()).stdout(writer.try_clone().context("no pipe")?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot start: {}", shown(command)))?;
    // The command keeps its ends of the pipe open; without this the reader would wait for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut seen = Vec::new();
    let mut piece = [0; 8192];
    loop {
        let length = reader.read(&mut piece).context("the command's output cannot be read")?;
        if length == 0 {
            break;
        }
        std::io::Write::write_all(&mut std::io::stdout(), &piece[..length]).context("standard output is closed")?;
        seen.extend_from_slice(&piece[..length]);
    }
    let status = child.wait().context("the command cannot be waited for")?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(String::from_utf8_lossy(&seen).into_owned())
}

/// Whether a program is on the PATH.
#[must_use]
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A duration to a tenth of a second, with minutes where there are some.
#[must_use]
pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 { format!("{:.1} s", time.as_secs_f64()) } else { format!("{} min {} s", whole / 60, whole % 60) }
}

/// A command as one would type it, without the environment that we add.
fn shown(command: &Command) -> String {
    let program = command.get_program();
    // The toolchain's own path to cargo is long and says nothing.
    let is_cargo = std::path::Path::new(program).file_name().is_some_and(|name| name == "cargo");
    let mut words = vec![if is_cargo { "cargo".to_owned() } else { program.to_string_lossy().into_owned() }];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    let quoted = words.iter().map(|word| {
        if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "'\"$&|;<>(){}*?".contains(c)) {
            format!("'{}'", word.replace('\'', r"'\''"))
        } else {
            word.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["test", "a b", "it's", ""]);
        assert_eq!(shown(&command), r"cargo test 'a b' 'it'\''s' ''");
    }

    #[test]
    fn tee_returns_both_streams_and_reports_failure() {
        let text = tee(Command::new("sh").args(["-c", "echo out; echo err >&2"])).expect("sh works");
        assert_eq!(text, "out\nerr\n");
        assert!(tee(Command::new("sh").args(["-c", "exit 3"])).is_err());
    }

    #[test]
    fn output_tells_what_went_wrong() {
        let error = output(Command::new("sh").args(["-c", "echo reason >&2; exit 1"])).expect_err("it fails");
        assert!(error.to_string().contains("reason"));
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(seconds(Duration::from_millis(1260)), "1.3 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 5 s");
    }
}
