use super::*;
use proptest::prelude::*;

fn json(text: &str) -> Body<'_> {
    Body::Json(text.as_bytes())
}

#[test]
fn a_list_is_no_document() {
    let mut documents = Documents::default();
    documents.put("releases/m/1", json("[]"), 1);
    documents.put("routes/predict", json(" [\"m\", 1]"), 1);
    assert!(documents.releases.is_empty() && documents.routes.is_empty());
    assert!(documents.refused.values().all(|reason| reason.contains("not a JSON object")), "{:?}", documents.refused);
    assert_eq!(documents.refused.len(), 2);
}

#[test]
fn the_same_documents_read_from_json_and_toml() {
    let mut from_json = Documents::default();
    from_json.put("routes/predict", json(r#"{"model":"m","version":"latest"}"#), 1);
    from_json.put("routes/score", json(r#"{"model":"m","version":3}"#), 1);
    from_json.put("policies/risk", json(r#"{"version":2,"values":{"a":0.5,"b":["x"],"c":true,"d":7}}"#), 1);
    let mut from_toml = Documents::default();
    from_toml.put("routes/predict", Body::Toml("model = \"m\"\nversion = \"latest\""), 1);
    from_toml.put("routes/score", Body::Toml("model = \"m\"\nversion = 3"), 1);
    let text = "version = 2\n[values]\na = 0.5\nb = [\"x\"]\nc = true\nd = 7";
    from_toml.put("policies/risk", Body::Toml(text), 1);
    assert_eq!(from_json, from_toml);
    assert_eq!(from_json.refused, BTreeMap::new());
    assert_eq!(from_json.routes["score"].version, VersionChoice::Number(3));
}

#[test]
fn what_is_wrong_is_refused_and_the_old_stays() {
    let digest = Digest::of(b"x");
    let good_release = format!(r#"{{"path":"a/b","digest":"{digest}","author":"ann","reason":"why"}}"#);
    let cases = [
        ("releases/m/1", good_release.as_str(), r#"{"pfad":"x"}"#, "pfad"),
        ("releases/m/1", &good_release, r#"{"path":"../../etc"}"#, "`..`"),
        ("releases/m/1", &good_release, r#"{"digest":"sha256:00"}"#, "digest"),
        ("routes/predict", r#"{"model":"m","version":"latest"}"#, r#"{"model":"m","version":"newest"}"#, "latest"),
        ("routes/predict", r#"{"model":"m","version":1}"#, r#"{"model":"m","version":0}"#, "positive"),
        ("routes/predict", r#"{"model":"m","version":1}"#, r#"{"model":"m","version":-1}"#, "positive"),
        ("routes/predict", r#"{"model":"m","version":1}"#, r#"{"model":"a/b","version":1}"#, "name a model"),
        ("routes/predict", r#"{"model":"m","version":1}"#, "{", "EOF"),
        ("policies/p", r#"{"version":1}"#, r#"{"version":0}"#, "positive"),
        ("policies/p", r#"{"version":1}"#, r#"{"version":1,"values":{"a":null}}"#, "null"),
        ("policies/p", r#"{"version":1}"#, r#"{"version":1,"values":{"a":{"b":1}}}"#, "values.a"),
        ("policies/p", r#"{"version":1}"#, r#"{"version":1,"values":{"a":[1,"x"]}}"#, "values.a"),
    ];
    for (name, good, bad, word) in cases {
        let mut documents = Documents::default();
        documents.put(name, json(good), 1);
        assert_eq!(documents.refused, BTreeMap::new(), "{name} {good}");
        let before = documents.clone();
        documents.put(name, json(bad), 2);
        assert!(documents.refused[name].contains(word), "{bad}: {:?}", documents.refused);
        // A listing of the same keeps it as well.
        let listed = documents.replaced_by([(name, json(bad), 2)], 2);
        for after in [&documents, &listed] {
            assert_eq!((&after.releases, &after.routes), (&before.releases, &before.routes));
            assert_eq!(after.policies, before.policies);
        }
        documents.put(name, json(good), 1);
        assert_eq!(documents, before);
        documents.delete(name);
        assert_eq!(documents, Documents::default());
    }
}

#[test]
fn names_are_strict_and_refusals_bounded() {
    let mut documents = Documents::default();
    for name in ["releases/m/01", "releases/m/0", "releases/m", "releases/a b/1", "releases/m/1/x", "routes/x", "x", ""]
    {
        documents.put(name, json("{}"), 1);
        assert!(documents.refused.contains_key(name), "{name}");
    }
    (0..2 * MAX_REFUSED).for_each(|i| documents.put(&format!("junk/{i}"), json("{}"), 1));
    assert_eq!(documents.refused.len(), MAX_REFUSED);
    assert!(documents.releases.is_empty());
    let long = format!("{{\"version\":1}}{}", " ".repeat(MAX_DOCUMENT));
    documents.put("policies/p", json(&long), 1);
    assert!(documents.policies.is_empty());
}

#[test]
fn a_listing_synthesises_deletes() {
    let mut documents = Documents::default();
    documents.put("releases/m/1", json("{}"), 1);
    documents.put("releases/m/2", json("{}"), 1);
    documents.put("policies/p", json(r#"{"version":1}"#), 1);
    let after = documents.replaced_by([("releases/m/2", json("{}"), 5)], 9);
    assert_eq!(after.releases.keys().map(ToString::to_string).collect::<Vec<_>>(), ["m@2"]);
    assert!(after.policies.is_empty());
    assert_eq!((after.revision, after.releases.values().next().unwrap().revision), (9, 5));
}

proptest! {
    #[test]
    fn no_text_panics_or_replaces_anything_by_rubbish(
        name in "(releases/m/[0-9]{0,2}|routes/(predict|x)|policies/[a-z ]{0,3}|\\PC{0,8})",
        text in "\\PC{0,40}",
    ) {
        let mut documents = Documents::default();
        documents.put(&name, json(&text), 1);
        documents.put(&name, Body::Toml(&text), 1);
        documents.delete(&name);
        prop_assert_eq!(documents, Documents::default());
    }
}
