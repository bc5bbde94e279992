//! The one table of what can go wrong with a request: every code with its HTTP status, gRPC status and title.
//!
//! Libraries convert their typed errors into a [`Fault`] at the edge of a request; the gateway renders it.

use std::fmt;
use std::time::Duration;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $http:literal, $grpc:literal, $title:literal;)+) => {
        /// A fault's kind. Its text form is stable: clients match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)+ }

        impl Code {
            /// Every code, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];
            /// The stable text, as in a problem document's `code` and in metric labels.
            #[must_use]
            pub const fn as_str(self) -> &'static str { match self { $(Self::$name => $text,)+ } }
            /// The HTTP status.
            #[must_use]
            pub const fn http(self) -> u16 { match self { $(Self::$name => $http,)+ } }
            /// The gRPC status number.
            #[must_use]
            pub const fn grpc(self) -> u8 { match self { $(Self::$name => $grpc,)+ } }
            /// A short human title.
            #[must_use]
            pub const fn title(self) -> &'static str { match self { $(Self::$name => $title,)+ } }
        }
    };
}

codes! {
    /// The body is not JSON, or not of the documented shape.
    Malformed = "malformed", 400, 3, "The request could not be read";
    /// A field has a value that cannot be used.
    InvalidField = "invalid-field", 422, 3, "A field of the request is invalid";
    /// A required field or feature is missing and the release's schema says refuse.
    MissingField = "missing-field", 422, 3, "A required field is missing";
    /// The graph does not know a node.
    UnknownNode = "unknown-node", 404, 5, "The graph does not know this node";
    /// No such path, model, version or route.
    NotFound = "not-found", 404, 5, "There is nothing at this address";
    /// The path exists, the method does not.
    MethodNotAllowed = "method-not-allowed", 405, 12, "This address does not take this method";
    /// The body is larger than the limit.
    TooLarge = "too-large", 413, 8, "The request is too large";
    /// The content type is not JSON.
    UnsupportedMediaType = "unsupported-media-type", 415, 3, "This content type is not understood";
    /// The body did not arrive in time.
    RequestTimeout = "request-timeout", 408, 4, "The request took too long to arrive";
    /// A queue is full.
    Overloaded = "overloaded", 429, 8, "Too many requests are waiting";
    /// The deadline passed before there was an answer.
    DeadlineExceeded = "deadline-exceeded", 504, 4, "The deadline passed";
    /// A plugin of the release failed on this request.
    PluginFailed = "plugin-failed", 502, 13, "A plugin failed on this request";
    /// A plugin used more time than its limit.
    PluginTimeout = "plugin-timeout", 504, 4, "A plugin exceeded its time limit";
    /// The score is not a finite number, which JSON cannot carry and a rule must not decide on.
    NotFinite = "not-finite", 422, 11, "The result is not a finite number";
    /// Not serving yet, or no longer.
    Unavailable = "unavailable", 503, 14, "The service cannot answer now";
    /// The client went away; nobody reads this.
    Cancelled = "cancelled", 499, 1, "The client closed the request";
    /// A fault of ours.
    Internal = "internal", 500, 13, "Something went wrong inside sagehost";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What was wrong with a request, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub code: Code,
    /// A sentence for the caller: what was wrong and what would be right.
    pub detail: String,
    /// The field at fault, as a JSON pointer (`/nodes/3`), where there is one.
    pub field: Option<String>,
    /// When a retry may succeed, for [`Code::Overloaded`] and [`Code::Unavailable`].
    pub retry_after: Option<Duration>,
}

impl Fault {
    /// A fault without a field.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), field: None, retry_after: None }
    }

    /// Names the field at fault by its JSON pointer.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}: {} (at {field})", self.code, self.detail),
            None => write!(f, "{}: {}", self.code, self.detail),
        }
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_distinct_and_have_error_statuses() {
        let texts: HashSet<_> = Code::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        for code in Code::ALL {
            assert!((400..600).contains(&code.http()), "{code}");
            assert!((1..=16).contains(&code.grpc()), "{code}");
        }
    }
}
