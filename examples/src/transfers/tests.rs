use std::collections::HashMap;
use std::fs;

use sagehost_types::Digest;

use super::*;

fn digests(folder: &Path) -> Vec<String> {
    ["accounts.csv", "transfers.csv", "labels.csv", "graph.toml"]
        .map(|name| Digest::of(&fs::read(folder.join(name)).unwrap()).short())
        .to_vec()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let (a, b, c) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let summary = generate(a.path(), SEED).unwrap();
    assert_eq!(summary, generate(b.path(), SEED).unwrap());
    generate(c.path(), SEED + 1).unwrap();
    assert_eq!(digests(a.path()), digests(b.path()));
    assert_ne!(digests(a.path())[..3], digests(c.path())[..3]);
}

/// The committed weights and `expected/` were made from exactly these files.
#[test]
fn the_committed_releases_graph_is_this_one() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), SEED).unwrap();
    assert_eq!(digests(folder.path()), ["bc7d4b272364", "588ce15464e9", "987b6898e8c8", "7c602aaa39f7"]);
}

#[test]
fn counts_bounds_and_references_hold() {
    let folder = tempfile::tempdir().unwrap();
    let summary = generate(folder.path(), SEED).unwrap();
    assert_eq!((summary.accounts, summary.transfers, summary.mules), (ACCOUNTS, TRANSFERS, MULES));
    assert!(summary.confirmed > MULES / 2 && summary.confirmed < MULES);
    assert!(summary.max_degree <= MAX_DEGREE);

    let mut labels = csv::Reader::from_path(folder.path().join("labels.csv")).unwrap();
    let confirmed: HashMap<u64, i64> = labels
        .records()
        .map(|r| r.unwrap())
        .filter(|r| !r[2].is_empty())
        .map(|r| {
            assert_eq!(&r[1], "1", "only mules are confirmed");
            (r[0].parse().unwrap(), r[2].parse().unwrap())
        })
        .collect();
    assert_eq!(confirmed.len(), summary.confirmed);

    let mut rows = csv::Reader::from_path(folder.path().join("transfers.csv")).unwrap();
    let mut before = START_S;
    for row in rows.records() {
        let row = row.unwrap();
        let (sender, receiver): (u64, u64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
        let time: i64 = row[2].parse().unwrap();
        assert!(
            (1..=ACCOUNTS as u64).contains(&sender) && (1..=ACCOUNTS as u64).contains(&receiver) && sender != receiver
        );
        assert!(time >= before && time < START_S + i64::from(DAYS) * DAY_S);
        assert!(row[3].parse::<f64>().unwrap() > 0.0);
        for account in [sender, receiver] {
            assert!(confirmed.get(&account).is_none_or(|&at| time < at), "a closed account moves no money");
        }
        before = time;
    }
}

#[test]
fn some_profile_values_are_missing_and_the_rest_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    generate(folder.path(), SEED).unwrap();
    let mut rows = csv::Reader::from_path(folder.path().join("accounts.csv")).unwrap();
    assert_eq!(rows.headers().unwrap().iter().skip(1).collect::<Vec<_>>(), FEATURES);
    let mut missing = [0; FEATURES.len()];
    for row in rows.records() {
        for (count, cell) in missing.iter_mut().zip(row.unwrap().iter().skip(1)) {
            if cell.is_empty() {
                *count += 1;
            } else {
                assert!(cell.parse::<f32>().unwrap().is_finite());
            }
        }
    }
    let [age, kyc, risk, devices, income] = missing;
    assert_eq!((age, kyc), (0, 0));
    assert!(risk > 0 && devices > 0 && income > 1000, "{missing:?}");
}
