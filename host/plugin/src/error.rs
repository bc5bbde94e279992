//! What can go wrong with a plugin: when it is loaded ([`LoadError`]) and when it is called ([`PluginError`]).

use std::fmt;
use std::sync::Arc;

use sagehost_types::{Code, Fault};

use crate::api::Role;

/// Why bytes are not a plugin that this host can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Larger than any plugin may be.
    #[error("the plugin has {size} bytes; at most {limit} are taken")]
    TooLarge {
        /// Bytes given.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Not WebAssembly at all.
    #[error("not a WebAssembly component: the file does not begin with the WebAssembly header")]
    NotWasm,
    /// A core module.
    #[error(
        "a core WebAssembly module, not a component: make one of it with `cargo xtask plugins` or `wasm-tools component new`"
    )]
    CoreModule,
    /// Truncated or otherwise invalid.
    #[error("the component is damaged or truncated: {0}")]
    Damaged(String),
    /// Built for another version of the contract.
    #[error(
        "`{interface}` is of version range {found}; this host runs {supported}: build the plugin against {supported} of \
         sagehost:plugin, or use a host that runs {found}"
    )]
    UnknownVersion {
        /// The import or export that names the version.
        interface: String,
        /// The range that the plugin needs.
        found: String,
        /// The range that this host runs.
        supported: &'static str,
    },
    /// It exports no role's interface, not `configure`, or several roles'.
    #[error("{problem}: it exports {exports}; expected is exactly one of the worlds {expected}")]
    WrongWorld {
        /// What is wrong.
        problem: &'static str,
        /// What it exports, as text.
        exports: String,
        /// The worlds that this host knows, as text.
        expected: String,
    },
    /// It plays another role than the release gives it.
    #[error("the plugin is of the world `{found}`; the release uses it as `{expected}`")]
    WrongRole {
        /// The role that the release gives it.
        expected: Role,
        /// The role that it was built for.
        found: Role,
    },
    /// It needs something that its world does not offer.
    #[error("it imports `{import}`, which the host does not give a {role}: the world offers {offered}")]
    MissingImport {
        /// The import.
        import: String,
        /// The plugin's role.
        role: Role,
        /// What may be imported, as text.
        offered: String,
    },
    /// The interfaces have the right names and the wrong types.
    #[error("an interface does not fit the contract {supported}: {detail}")]
    Mismatch {
        /// The range that this host runs.
        supported: &'static str,
        /// What does not fit.
        detail: String,
    },
    /// It could not be compiled: it uses a WebAssembly feature that is off, or is too large for the compiler.
    #[error("the component could not be compiled: {0}")]
    Compile(String),
}

/// Kinds of [`PluginError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The guest trapped: a panic, an arithmetic fault, too deep a recursion.
    Trap,
    /// The call did not end within its limit.
    Timeout,
    /// The instance wanted more memory than its limit.
    Memory,
    /// The plugin says that the request's data are wrong.
    InvalidInput,
    /// The plugin says that something required is missing.
    Missing,
    /// The plugin says that something it needs is not there now, or every instance was busy until the deadline.
    Unavailable,
    /// The plugin reported a fault of its own, or the host failed to run it.
    Internal,
    /// The plugin answered with something that breaks the contract.
    BadOutput,
    /// `configure` refused the settings.
    Configure,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Trap,
        Self::Timeout,
        Self::Memory,
        Self::InvalidInput,
        Self::Missing,
        Self::Unavailable,
        Self::Internal,
        Self::BadOutput,
        Self::Configure,
    ];

    /// A stable text for metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trap => "trap",
            Self::Timeout => "timeout",
            Self::Memory => "memory",
            Self::InvalidInput => "invalid-input",
            Self::Missing => "missing",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::BadOutput => "bad-output",
            Self::Configure => "configure",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A call of a plugin that gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{plugin}` ({role}): {message}")]
pub struct PluginError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The plugin's name.
    pub plugin: Arc<str>,
    /// The role in which it was called.
    pub role: Role,
    /// What happened, in a line for the caller of the request; what the guest did inside is in the host's log.
    pub message: String,
}

impl From<PluginError> for Fault {
    fn from(error: PluginError) -> Self {
        let code = match error.kind {
            ErrorKind::InvalidInput => Code::InvalidField,
            ErrorKind::Missing => Code::MissingField,
            ErrorKind::Unavailable => Code::Unavailable,
            ErrorKind::Timeout => Code::PluginTimeout,
            ErrorKind::Trap | ErrorKind::Memory | ErrorKind::Internal | ErrorKind::BadOutput | ErrorKind::Configure => {
                Code::PluginFailed
            }
        };
        let fault = Self::new(code, error.to_string());
        if code == Code::Unavailable { fault.retry_after(std::time::Duration::from_secs(1)) } else { fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_the_documented_fault() {
        let code = |kind| {
            let fault = Fault::from(PluginError { kind, plugin: "p".into(), role: Role::Sampler, message: "m".into() });
            assert!(fault.detail.contains("`p` (sampler)"), "{fault}");
            assert_eq!(fault.retry_after.is_some(), kind == ErrorKind::Unavailable);
            fault.code
        };
        let expected = [
            (ErrorKind::InvalidInput, Code::InvalidField),
            (ErrorKind::Missing, Code::MissingField),
            (ErrorKind::Unavailable, Code::Unavailable),
            (ErrorKind::Timeout, Code::PluginTimeout),
        ];
        for kind in ErrorKind::ALL {
            let want = expected.iter().find(|(k, _)| *k == kind).map_or(Code::PluginFailed, |(_, c)| *c);
            assert_eq!(code(kind), want, "{kind}");
        }
    }
}
