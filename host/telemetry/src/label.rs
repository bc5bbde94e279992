//! Label values and sets: cheap to clone, so that a request's labels cost no allocation.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use prometheus_client::encoding::{
    EncodeLabel as _, EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, LabelValueEncoder,
};

/// A label's value. Who makes one from outside input must bound how many different values there can be.
#[derive(Clone)]
pub struct Label(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Label {
    /// The value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Label {
    fn from(text: &'static str) -> Self {
        Self(Text::Static(text))
    }
}

impl From<Arc<str>> for Label {
    fn from(text: Arc<str>) -> Self {
        Self(Text::Shared(text))
    }
}

impl From<&Arc<str>> for Label {
    fn from(text: &Arc<str>) -> Self {
        Self(Text::Shared(Arc::clone(text)))
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Label {}

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl EncodeLabelValue for Label {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        encoder.write_str(self.as_str())
    }
}

/// The labels of one series: names from the table, values of this series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels<const N: usize> {
    pub(crate) names: &'static [&'static str; N],
    pub(crate) values: [Label; N],
}

impl<const N: usize> Hash for Labels<N> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The names are the same for all series of a family.
        self.values.hash(state);
    }
}

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        for (name, value) in self.names.iter().zip(&self.values) {
            (*name, value.clone()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}
