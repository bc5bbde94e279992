//! Whether `release.toml` and `golden.json` make sense, without graph or engine: everything that is wrong at once, each with
//! its place.

use std::collections::{BTreeMap, BTreeSet};

use sagehost_types::ids::valid_name;
use sagehost_types::limits::{MAX_HOPS, MAX_KEY, MAX_NAME, MAX_SEEDS};

use crate::error::{Problems, ReleaseError};
use crate::golden::Golden;
use crate::paths::path_problem;
use crate::spec::{AggregatorKind, ConvSpec, Layout, PluginRole, ReleaseSpec, Schema};

mod golden;

/// Most columns of a schema: node and request columns together.
pub const MAX_COLUMNS: usize = 16_384;
/// Most convolutions of one layer.
pub const MAX_CONVS: usize = 64;
/// Most settings of a plugin, and most values of a policy.
pub const MAX_VALUES: usize = 256;
/// Most items of a list among settings or policy values.
pub const MAX_LIST: usize = 100_000;
/// Largest fan-out that is not "all".
pub const MAX_FANOUT: i32 = 65_536;
/// Longest wait or deadline that a release can ask for, in milliseconds.
pub const MAX_MS: u32 = 600_000;

impl PluginRole {
    /// The role's name, as in `release.toml`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampler => "sampler",
            Self::EdgeWeigher => "edge-weigher",
            Self::Reducer => "reducer",
            Self::PreProcessor => "pre-processor",
            Self::PostProcessor => "post-processor",
        }
    }
}

/// Reads and validates a `release.toml`; `file` is its name in messages.
///
/// # Errors
/// [`ReleaseError::Syntax`] with line and column, [`ReleaseError::UnknownFormat`], or [`ReleaseError::Invalid`] with every
/// problem.
pub fn parse_spec(file: &str, text: &str) -> Result<ReleaseSpec, ReleaseError> {
    let syntax = |error: &toml::de::Error| {
        let (line, column) = position(text, error.span().map_or(0, |span| span.start));
        ReleaseError::Syntax { file: file.into(), line, column, message: error.message().trim().to_string() }
    };
    // The format number first: unknown keys of a later format must not hide that it is one.
    let table: toml::Table = toml::from_str(text).map_err(|e| syntax(&e))?;
    if let Some(format) = table.get("format").filter(|format| format.as_integer() != Some(1)) {
        return Err(ReleaseError::UnknownFormat { file: file.into(), found: format.to_string() });
    }
    let spec: ReleaseSpec = toml::from_str(text).map_err(|e| syntax(&e))?;
    let problems = validate(&spec);
    if problems.is_empty() { Ok(spec) } else { Err(ReleaseError::Invalid { file: file.into(), problems }) }
}

/// Reads a `golden.json` and validates it against the release's spec.
///
/// # Errors
/// As [`parse_spec`].
pub fn parse_golden(file: &str, bytes: &[u8], spec: &ReleaseSpec) -> Result<Golden, ReleaseError> {
    let golden: Golden = serde_json::from_slice(bytes).map_err(|error| ReleaseError::Syntax {
        file: file.into(),
        line: error.line(),
        column: error.column(),
        message: error.to_string(),
    })?;
    if golden.format != 1 {
        return Err(ReleaseError::UnknownFormat { file: file.into(), found: golden.format.to_string() });
    }
    let problems = golden::validate(&golden, spec);
    if problems.is_empty() { Ok(golden) } else { Err(ReleaseError::Invalid { file: file.into(), problems }) }
}

/// Line and column (from 1, in characters) of a byte offset.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |i| i + 1);
    (before.matches('\n').count() + 1, before.get(line_start..).unwrap_or_default().chars().count() + 1)
}

/// Everything that is wrong with a spec.
#[must_use]
pub fn validate(spec: &ReleaseSpec) -> Problems {
    let mut problems = Problems::default();
    let p = &mut problems;
    if spec.format != 1 {
        p.add("format", "must be 1");
    }
    if !valid_name(&spec.graph) {
        p.add("graph", "must be a graph's name: letters, digits, `-`, `_` and `.`");
    }
    schema(&spec.schema, spec.plugins.contains_key(&PluginRole::PreProcessor), p);
    model(spec, p);
    sampling(spec, p);
    plugins(spec, p);
    queue_and_deadline(spec, p);
    decision(spec, p);
    problems
}

fn schema(schema: &Schema, has_pre_processor: bool, p: &mut Problems) {
    if schema.node.is_empty() {
        p.add("schema.node", "must name the model's input columns; there is none");
    }
    if schema.node.len() + schema.request.len() > MAX_COLUMNS {
        p.add("schema", format!("has more than {MAX_COLUMNS} columns"));
        return;
    }
    let mut names = BTreeSet::new();
    let columns = [("node", &schema.node), ("request", &schema.request)];
    for (list, index, column) in columns.iter().flat_map(|(l, c)| c.iter().enumerate().map(move |(i, c)| (l, i, c))) {
        let place = |key: &str| format!("schema.{list}[{index}].{key}");
        if text_problem(&column.name) {
            p.add(place("name"), format!("must have 1 to {MAX_NAME} bytes and no control characters"));
        }
        if !names.insert(&column.name) {
            p.add(
                place("name"),
                format!("`{}` is used twice; node and request columns share their names", column.name),
            );
        }
        if column.fill.is_some_and(|fill| !fill.is_finite()) {
            p.add(place("fill"), "must be a finite number");
        }
        if column.plugin_fills && column.fill.is_some() {
            p.add(place("plugin_fills"), "excludes `fill`: either the host fills or the pre-processor does");
        }
        if column.plugin_fills && !has_pre_processor {
            p.add(place("plugin_fills"), "needs [plugins.pre-processor]; the release has none");
        }
    }
}

fn model(spec: &ReleaseSpec, p: &mut Problems) {
    let model = &spec.model;
    if model.layers.is_empty() || model.layers.len() > MAX_HOPS {
        p.add("model.layers", format!("must have 1 to {MAX_HOPS} layers; there are {}", model.layers.len()));
    }
    for (l, layer) in model.layers.iter().enumerate() {
        let place = format!("model.layers[{l}].convs");
        if layer.convs.is_empty() || layer.convs.len() > MAX_CONVS {
            p.add(&place, format!("must have 1 to {MAX_CONVS} convolutions; there are {}", layer.convs.len()));
        }
        let mut relations = BTreeSet::new();
        for (c, layer_conv) in layer.convs.iter().enumerate() {
            let place = format!("{place}[{c}]");
            if !relations.insert(&layer_conv.relation) {
                let relation = &layer_conv.relation;
                p.add(format!("{place}.relation"), format!("`{relation}` is read twice by this layer"));
            }
            conv(layer_conv, &place, spec, p);
        }
    }
    for (place, name) in [
        ("model.head", model.head.as_ref()),
        ("model.scaler.shift", model.scaler.as_ref().map(|s| &s.shift)),
        ("model.scaler.scale", model.scaler.as_ref().map(|s| &s.scale)),
    ] {
        if name.is_some_and(|name| text_problem(name)) {
            p.add(place, format!("must be a tensor's name of 1 to {MAX_NAME} bytes"));
        }
    }
    let mut classes = BTreeSet::new();
    for (i, class) in model.classes.iter().enumerate() {
        if text_problem(class) {
            p.add(format!("model.classes[{i}]"), format!("must have 1 to {MAX_NAME} bytes and no control characters"));
        }
        if !classes.insert(class) {
            p.add(format!("model.classes[{i}]"), format!("`{class}` is used twice"));
        }
    }
}

fn conv(conv: &ConvSpec, place: &str, spec: &ReleaseSpec, p: &mut Problems) {
    use AggregatorKind::{Gcn, Lstm, Pool, Reducer, Weigher};
    let (layout, aggregator) = (conv.layout, conv.aggregator);
    let mut add = |key: &str, message: &str| p.add(format!("{place}.{key}"), message);
    if text_problem(&conv.relation) {
        add("relation", "must be a relation's name of 1 to 128 bytes");
    }
    if text_problem(&conv.weights) {
        add("weights", "must be the prefix of this convolution's tensors, of 1 to 128 bytes");
    }
    if aggregator == Weigher && !spec.plugins.contains_key(&PluginRole::EdgeWeigher) {
        add("aggregator", "`weigher` needs [plugins.edge-weigher]; the release has none");
    }
    if aggregator == Reducer && !spec.plugins.contains_key(&PluginRole::Reducer) {
        add("aggregator", "`reducer` needs [plugins.reducer]; the release has none");
    }
    if matches!(aggregator, Pool | Gcn) && layout == Layout::Pyg {
        add("aggregator", "`pool` and `gcn` are DGL's: set layout = \"dgl\"");
    }
    if layout == Layout::Dgl && (conv.project || conv.normalize) {
        add("layout", "`project` and `normalize` are PyG's; DGL normalises after the layer (`normalize_after`)");
    }
    match (aggregator == Lstm && layout == Layout::Pyg, conv.pad_to) {
        (true, None) => add("pad_to", "is missing: PyG pads the neighbourhoods of an LSTM to one length"),
        (true, Some(length)) if length == 0 || length > MAX_FANOUT.unsigned_abs() => {
            add("pad_to", "must be 1 to 65536");
        }
        (false, Some(_)) => add("pad_to", "is only for `lstm` in PyG's layout"),
        _ => {}
    }
}

fn sampling(spec: &ReleaseSpec, p: &mut Problems) {
    let (hops, layers) = (spec.sampling.hops.len(), spec.model.layers.len());
    if hops != layers {
        p.add("sampling.hops", format!("must be one per layer: {layers} layers, {hops} hops"));
    }
    for (h, hop) in spec.sampling.hops.iter().enumerate().take(MAX_HOPS) {
        if hop.fanout == 0 || !(-1..=MAX_FANOUT).contains(&hop.fanout) {
            let message = format!("is {}; it must be 1 to {MAX_FANOUT}, or -1 for all neighbours", hop.fanout);
            p.add(format!("sampling.hops[{h}].fanout"), message);
        }
    }
}

fn plugins(spec: &ReleaseSpec, p: &mut Problems) {
    let used = |kind| spec.model.layers.iter().flat_map(|l| &l.convs).any(|c| c.aggregator == kind);
    for (role, kind, name) in [
        (PluginRole::EdgeWeigher, AggregatorKind::Weigher, "weigher"),
        (PluginRole::Reducer, AggregatorKind::Reducer, "reducer"),
    ] {
        if spec.plugins.contains_key(&role) && !used(kind) {
            p.add(format!("plugins.{}", role.as_str()), format!("is never used: no layer has aggregator = \"{name}\""));
        }
    }
    for (role, plugin) in &spec.plugins {
        let place = format!("plugins.{}", role.as_str());
        if let Some(problem) = path_problem(&plugin.file) {
            p.add(format!("{place}.file"), format!("`{}` {problem}", plugin.file.escape_debug()));
        } else if !plugin.file.ends_with(".wasm") {
            p.add(format!("{place}.file"), "must be a component's path inside the folder, ending in .wasm");
        }
        if plugin.call_ms == 0 || plugin.call_ms > MAX_MS {
            p.add(format!("{place}.call_ms"), format!("must be 1 to {MAX_MS}"));
        }
        if plugin.memory_mib == 0 || plugin.memory_mib > 4096 {
            p.add(format!("{place}.memory_mib"), "must be 1 to 4096");
        }
        values(&plugin.settings, &format!("{place}.settings"), p);
    }
}

fn queue_and_deadline(spec: &ReleaseSpec, p: &mut Problems) {
    let (batching, deadline) = (&spec.batching, spec.limits.deadline_ms);
    if batching.max_batch == 0 || batching.max_batch > MAX_SEEDS {
        p.add("batching.max_batch", format!("must be 1 to {MAX_SEEDS}"));
    }
    if batching.max_queue == 0 || batching.max_queue > 1 << 20 {
        p.add("batching.max_queue", "must be 1 to 1048576");
    }
    if deadline == 0 || deadline > MAX_MS {
        p.add("limits.deadline_ms", format!("must be 1 to {MAX_MS}"));
    }
    if batching.max_wait_ms >= deadline {
        let wait = batching.max_wait_ms;
        p.add("batching.max_wait_ms", format!("is {wait}; it must be below limits.deadline_ms, {deadline}"));
    }
}

fn decision(spec: &ReleaseSpec, p: &mut Problems) {
    let decision = &spec.decision;
    if decision.policy.as_deref().is_some_and(|name| !valid_name(name)) {
        p.add("decision.policy", "must be a policy's name: letters, digits, `-`, `_` and `.`");
    }
    let unread = !spec.plugins.contains_key(&PluginRole::PostProcessor);
    if unread && (decision.policy.is_some() || !decision.values.is_empty()) {
        p.add("decision", "is read by nobody: the release has no [plugins.post-processor]");
    }
    values(&decision.values, "decision.values", p);
}

fn text_problem(text: &str) -> bool {
    text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control)
}

/// Checks plugin settings or policy values: what `named-setting` of the WIT package can carry.
pub fn values(values: &BTreeMap<String, toml::Value>, place: &str, p: &mut Problems) {
    if values.len() > MAX_VALUES {
        p.add(place, format!("has {} entries; the limit is {MAX_VALUES}", values.len()));
        return;
    }
    for (name, value) in values {
        if text_problem(name) {
            p.add(place, format!("the name `{}` must have 1 to {MAX_NAME} bytes", name.escape_debug()));
        }
        if let Some(problem) = value_problem(value) {
            p.add(format!("{place}.{name}"), problem);
        }
    }
}

fn value_problem(value: &toml::Value) -> Option<String> {
    use toml::Value::{Array, Boolean, Datetime, Float, Integer, String, Table};
    match value {
        Boolean(_) | Integer(_) => None,
        Float(number) => (!number.is_finite()).then(|| "must be a finite number".into()),
        String(text) => (text.len() > MAX_KEY).then(|| format!("has more than {MAX_KEY} bytes")),
        Datetime(_) | Table(_) => Some("must be a boolean, number, text, or list of numbers or of texts".into()),
        Array(items) if items.len() > MAX_LIST => Some(format!("has more than {MAX_LIST} items")),
        Array(items) => {
            let texts = items.iter().all(toml::Value::is_str);
            let numbers = items.iter().all(|item| item.is_integer() || item.is_float());
            if !texts && !numbers {
                return Some("must hold only numbers or only texts".into());
            }
            items.iter().find_map(value_problem)
        }
    }
}

#[cfg(test)]
mod tests;
