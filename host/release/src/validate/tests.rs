use super::*;
use crate::spec::PluginSpec;
use proptest::prelude::*;

const GOOD: &str = r#"
format = 1
kind = "graphsage"
graph = "transfers"

[[schema.node]]
name = "age_days"
fill = 0.0

[[schema.node]]
name = "income"

[[schema.request]]
name = "amount"
plugin_fills = true

[[model.layers]]
convs = [{ relation = "received", aggregator = "mean", weights = "convs.0" }]
activation = "relu"

[[model.layers]]
convs = [{ relation = "received", aggregator = "weigher", weights = "convs.1" }]

[model]
head = "head"
output = "softmax"
classes = ["good", "mule"]
scaler = { shift = "scaler.shift", scale = "scaler.scale" }

[sampling]
hops = [{ fanout = 10 }, { fanout = -1 }]

[plugins.edge-weigher]
file = "plugins/trust_weigher.wasm"
settings = { half_life_days = 30, names = ["a", "b"], on = true }

[plugins.pre-processor]
file = "plugins/standardize.wasm"

[plugins.post-processor]
file = "plugins/risk_decision.wasm"

[decision]
policy = "risk"
values = { review = 0.5, blocked = [1, 2.5] }
"#;

pub(super) fn good() -> ReleaseSpec {
    parse_spec("release.toml", GOOD).unwrap()
}

fn places(spec: &ReleaseSpec) -> Vec<String> {
    validate(spec).0.into_iter().map(|p| p.place).collect()
}

#[test]
fn a_good_release_has_no_problem() {
    assert_eq!(places(&good()), Vec::<String>::new());
}

#[test]
fn each_rule_names_its_place() {
    type Change = fn(&mut ReleaseSpec);
    let cases: &[(&str, Change)] = &[
        ("format", |s| s.format = 2),
        ("graph", |s| s.graph = "../g".into()),
        ("schema.node", |s| s.schema.node.clear()),
        ("schema.node[1].name", |s| s.schema.node[1].name = "age_days".into()),
        ("schema.request[0].name", |s| s.schema.request[0].name = "income".into()),
        ("schema.node[0].name", |s| s.schema.node[0].name = String::new()),
        ("schema.node[0].fill", |s| s.schema.node[0].fill = Some(f32::NAN)),
        ("schema.node[0].plugin_fills", |s| s.schema.node[0].plugin_fills = true),
        ("schema.request[0].plugin_fills", |s| drop(s.plugins.remove(&PluginRole::PreProcessor))),
        ("model.layers[0].convs", |s| s.model.layers[0].convs.clear()),
        ("model.layers[0].convs[1].relation", |s| {
            let conv = s.model.layers[0].convs[0].clone();
            s.model.layers[0].convs.push(conv);
        }),
        ("model.layers[0].convs[0].relation", |s| s.model.layers[0].convs[0].relation = String::new()),
        ("model.layers[0].convs[0].weights", |s| s.model.layers[0].convs[0].weights = String::new()),
        ("model.layers[1].convs[0].aggregator", |s| drop(s.plugins.remove(&PluginRole::EdgeWeigher))),
        ("plugins.edge-weigher", |s| s.model.layers[1].convs[0].aggregator = AggregatorKind::Sum),
        ("model.layers[0].convs[0].aggregator", |s| s.model.layers[0].convs[0].aggregator = AggregatorKind::Reducer),
        ("model.layers[0].convs[0].aggregator", |s| s.model.layers[0].convs[0].aggregator = AggregatorKind::Pool),
        ("model.layers[0].convs[0].layout", |s| {
            s.model.layers[0].convs[0].layout = Layout::Dgl;
            s.model.layers[0].convs[0].project = true;
        }),
        ("model.layers[0].convs[0].pad_to", |s| s.model.layers[0].convs[0].aggregator = AggregatorKind::Lstm),
        ("model.layers[0].convs[0].pad_to", |s| s.model.layers[0].convs[0].pad_to = Some(3)),
        ("model.head", |s| s.model.head = Some(String::new())),
        ("model.classes[1]", |s| s.model.classes[1] = "good".into()),
        ("sampling.hops", |s| s.sampling.hops.truncate(1)),
        ("sampling.hops[0].fanout", |s| s.sampling.hops[0].fanout = 0),
        ("sampling.hops[1].fanout", |s| s.sampling.hops[1].fanout = -2),
        ("plugins.edge-weigher.file", |s| plugin(s).file = "../x.wasm".into()),
        ("plugins.edge-weigher.file", |s| plugin(s).file = "x.so".into()),
        ("plugins.edge-weigher.call_ms", |s| plugin(s).call_ms = 0),
        ("plugins.edge-weigher.memory_mib", |s| plugin(s).memory_mib = 5000),
        ("plugins.edge-weigher.settings.t", |s| {
            plugin(s).settings.insert("t".into(), toml::Value::Table(toml::Table::new()));
        }),
        ("batching.max_batch", |s| s.batching.max_batch = 0),
        ("batching.max_queue", |s| s.batching.max_queue = 0),
        ("batching.max_wait_ms", |s| s.batching.max_wait_ms = 1000),
        ("limits.deadline_ms", |s| s.limits.deadline_ms = MAX_MS + 1),
        ("decision.policy", |s| s.decision.policy = Some("a/b".into())),
        ("decision", |s| drop(s.plugins.remove(&PluginRole::PostProcessor))),
        ("decision.values.mixed", |s| {
            s.decision.values.insert("mixed".into(), toml::Value::Array(vec!["a".into(), 1.into()]));
        }),
    ];
    for (place, change) in cases {
        let mut spec = good();
        change(&mut spec);
        assert_eq!(places(&spec), [*place]);
    }
}

fn plugin(spec: &mut ReleaseSpec) -> &mut PluginSpec {
    spec.plugins.get_mut(&PluginRole::EdgeWeigher).unwrap()
}

#[test]
fn problems_are_reported_together() {
    let text = GOOD.replace("fanout = 10", "fanout = 0").replace("\"good\", \"mule\"", "\"mule\", \"mule\"");
    let error = parse_spec("m/release.toml", &text).unwrap_err().to_string();
    let expected = "m/release.toml: 2 problems:\n  - model.classes[1]: `mule` is used twice\n  \
                    - sampling.hops[0].fanout: is 0; it must be 1 to 65536, or -1 for all neighbours";
    assert_eq!(error, expected);
}

#[test]
fn syntax_and_shape_errors_have_file_line_and_column() {
    let position_of = |text: &str| match parse_spec("release.toml", text).unwrap_err() {
        ReleaseError::Syntax { line, column, message, .. } => (line, column, message),
        other => panic!("{other}"),
    };
    let line_of = |text: &str| GOOD.lines().position(|line| line.contains(text)).unwrap() + 1;
    let (line, column, message) = position_of("format = 1\nkind = graphsage\n");
    assert_eq!((line, column), (2, 8), "{message}");
    let (line, column, message) = position_of(&GOOD.replace("output = ", "outputt = "));
    assert_eq!((line, column), (line_of("output = "), 1), "{message}");
    assert!(message.contains("outputt"), "{message}");
    let (line, _, message) = position_of(&GOOD.replace("\"mean\"", "\"average\""));
    assert_eq!(line, line_of("\"mean\""), "{message}");
}

#[test]
fn a_later_format_is_named_as_such() {
    let error = parse_spec("release.toml", "format = 2\nsurprise = true\n").unwrap_err().to_string();
    assert_eq!(error, "release.toml: format 2 is not known to this sagehost, which reads format 1");
}

#[test]
fn golden_examples_must_fit_the_spec() {
    let good_text = r#"{"format":1,"graph":{"nodes":[{"key":1,"features":[1.5,null]},{"key":2,"features":[0,0]}],
        "edges":{"received":[{"src":2,"dst":1,"time_ms":5}]}},
        "examples":[{"node":1,"logits":[0.5,-0.5],"tolerance":1e-4,"features":{"amount":3}}]}"#;
    let parse = |text: &str| parse_golden("golden.json", text.as_bytes(), &good());
    assert_eq!(parse(good_text).unwrap().examples.len(), 1);
    for (from, to, place) in [
        ("[1.5,null]", "[1.5]", "graph.nodes[0].features"),
        ("\"key\":2", "\"key\":1", "graph.nodes[1].key"),
        ("\"src\":2", "\"src\":3", "graph.edges.received[0].src"),
        ("\"received\"", "\"sent\"", "graph.edges.sent"),
        ("\"node\":1", "\"node\":9", "examples[0].node"),
        ("[0.5,-0.5]", "[0.5]", "examples[0].logits"),
        ("1e-4", "-1", "examples[0].tolerance"),
        ("amount", "amuont", "examples[0].features.amuont"),
    ] {
        let ReleaseError::Invalid { problems, .. } = parse(&good_text.replace(from, to)).unwrap_err() else {
            panic!("{place}")
        };
        assert!(problems.0.iter().any(|p| p.place == place), "{place}: {problems}");
    }
    let misspelt = parse(&good_text.replace("\"received\"", "\"sent\"")).unwrap_err().to_string();
    assert!(misspelt.ends_with("the convs of release.toml read `received`"), "{misspelt}");
    assert!(matches!(parse("{\"format\":1,"), Err(ReleaseError::Syntax { line: 1, .. })));
}

#[test]
fn the_documentation_names_every_key() {
    fn keys(value: &toml::Value, found: &mut BTreeSet<String>) {
        match value {
            toml::Value::Table(table) => {
                for (key, value) in table {
                    found.insert(key.clone());
                    keys(value, found);
                }
            }
            toml::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }
    let mut spec = good();
    spec.plugins.values_mut().for_each(|plugin| plugin.settings.clear());
    spec.decision.values.clear();
    // Keys that are left out where they have their default.
    spec.model.layers[0].convs[0].pad_to = Some(1);
    spec.schema.node[0].plugin_fills = true;
    let mut found = BTreeSet::new();
    keys(&toml::Value::try_from(&spec).unwrap(), &mut found);
    for role in ["sampler", "reducer"] {
        found.insert(role.into());
    }
    assert!(found.contains("plugin_fills") && found.contains("pad_to") && found.len() > 40, "{found:?}");
    let page = include_str!("../../../../docs/release.md");
    let missing: Vec<_> = found.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/release.md does not explain {missing:?}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}", cut in 0..GOOD.len()) {
        let _ = parse_spec("f", &text);
        let _ = parse_golden("f", text.as_bytes(), &good());
        let mixed = format!("{}{text}{}", &GOOD[..cut], &GOOD[cut..]);
        let _ = parse_spec("f", &mixed);
    }
}
