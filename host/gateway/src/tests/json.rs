use proptest::prelude::*;

use super::*;

fn detail(text: &[u8]) -> String {
    parse(text).unwrap_err().detail
}

#[test]
fn faults_have_a_place() {
    for (text, expected) in [
        ("{\"a\": 1,\n \"b\": }", "not JSON: expected a value, at line 2, column 7"),
        ("", "not JSON: the text ends where a value is expected, at line 1, column 1"),
        ("[1 2]", "not JSON: expected `,` or `]` after an element, at line 1, column 4"),
        ("[NaN]", "not JSON: NaN and Infinity are not JSON; a missing value is null, at line 1, column 2"),
        ("[-Infinity]", "not JSON: NaN and Infinity are not JSON; a missing value is null, at line 1, column 3"),
        ("{}x", "not JSON: there is more after the end of the document, at line 1, column 3"),
        ("{\"é\": tru}", "not JSON: expected `true`, at line 1, column 7"),
        (
            "{\"a\":1,\"a\":2}",
            "not JSON: the member `a` appears twice in the object that ends here, at line 1, column 14",
        ),
        ("[01]", "not JSON: a number does not begin with 0, at line 1, column 3"),
    ] {
        assert_eq!(detail(text.as_bytes()), expected);
    }
    assert_eq!(detail(b"{\"a\n\": \xff"), "not JSON: the text is not UTF-8, at line 2, column 4");
}

#[test]
fn nesting_is_bounded() {
    assert!(parse("[".repeat(MAX_DEPTH).as_bytes()).unwrap_err().detail.contains("ends where"));
    assert!(parse("[".repeat(1_000_000).as_bytes()).unwrap_err().detail.contains("deeper than"));
}

#[test]
fn a_repeat_among_many_members_is_found() {
    let members: Vec<_> = (0..100).map(|i| format!("\"m{i}\":0")).collect();
    assert!(parse(format!("{{{}}}", members.join(",")).as_bytes()).is_ok());
    assert!(parse(format!("{{{},\"m7\":0}}", members.join(",")).as_bytes()).is_err());
}

/// The same document as serde_json reads it.
fn same(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Number(a), serde_json::Value::Number(b)) => a.parse::<f64>().ok() == b.as_f64(),
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(&**name).is_some_and(|b| same(a, b)))
        }
        _ => false,
    }
}

pub(crate) fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "\\PC{0,8}|[\"\\\\/\u{0}-\u{1f}é𝄞]{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::vec(("\\PC{0,6}", inner), 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reads_what_serde_writes(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.unwrap();
        prop_assert!(same(&parse(&text).unwrap(), &value));
    }

    #[test]
    fn accepts_what_serde_accepts(text in "[\\[\\]{},:\"\\\\u0-9a-f.eE+\\- tnr]{0,24}") {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match (parse(text.as_bytes()), theirs) {
            (Ok(ours), Ok(theirs)) => prop_assert!(same(&ours, &theirs)),
            (Err(_), Err(_)) => {}
            // serde takes the last of two equal members and refuses numbers that f64 cannot hold.
            (Err(ours), Ok(_)) => prop_assert!(ours.detail.contains("appears twice"), "{}", ours.detail),
            (Ok(_), Err(theirs)) => prop_assert!(theirs.to_string().contains("out of range"), "{}", theirs),
        }
    }

    #[test]
    fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = parse(&bytes);
    }
}
