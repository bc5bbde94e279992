//! A generated money-transfer network: 20,000 accounts, 200,000 directed transfers over 180 days, and rings of mule accounts
//! as ground truth. Everything follows from the seed, to the byte.
//!
//! A mule's own profile says little: half of the mules are bought or recruited accounts that look like anyone's. What gives
//! them away is whom they deal with: money comes in from strangers and goes on to other mules of the ring within hours.

mod network;
mod people;
mod rings;

use std::path::Path;

use crate::error::ExampleError;
use crate::rng::Rng;
use crate::tables::{self, Table};
use network::Network;
use people::Account;

/// The seed of the committed releases' graph.
pub const SEED: u64 = 20_250_101;
/// Accounts, keyed 1 to this.
pub const ACCOUNTS: usize = 20_000;
/// Transfers.
pub const TRANSFERS: usize = 200_000;
/// Mules among the accounts.
pub const MULES: usize = 1_000;
/// 2025-01-01T00:00:00Z in seconds since 1970: when the first day begins.
pub const START_S: i64 = 1_735_689_600;
/// Days that transfers spread over.
pub const DAYS: u32 = 180;
/// Most transfers that one account sends, and most that it receives: what bounds a full neighbourhood.
pub const MAX_DEGREE: u32 = 60;

/// Seconds of a day.
const DAY_S: i64 = 86_400;
/// The node feature columns, as in `graph.toml`.
pub const FEATURES: [&str; 5] = ["age_days", "kyc_level", "country_risk", "device_count", "monthly_income"];

const GRAPH_TOML: &str = r#"# The transfers example, for `sagehost graph build`. See docs/examples.md.
format = 1
key = "u64"

[nodes]
file = "accounts.csv"
id = "account"
features = ["age_days", "kyc_level", "country_risk", "device_count", "monthly_income"]

# One transfer is an edge of two relations: into its receiver and, turned round, into its sender.
[[relations]]
name = "received"
file = "transfers.csv"
from = "sender"
to = "receiver"
time = { column = "time", unit = "s" }
weight = "amount"
columns = ["amount"]

[[relations]]
name = "sent"
file = "transfers.csv"
from = "receiver"
to = "sender"
time = { column = "time", unit = "s" }
weight = "amount"
columns = ["amount"]
"#;

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Transfer {
    /// Seconds since `START_S`.
    time: i64,
    /// Index of the sending account.
    sender: usize,
    /// Index of the receiving account.
    receiver: usize,
    /// Cents.
    cents: i64,
}

/// What was generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Rows of `accounts.csv` and `labels.csv`.
    pub accounts: usize,
    /// Rows of `transfers.csv`.
    pub transfers: usize,
    /// Mules.
    pub mules: usize,
    /// Mules that were found out within the 180 days.
    pub confirmed: usize,
    /// Most transfers that one account sent or received.
    pub max_degree: u32,
}

/// Writes `accounts.csv`, `transfers.csv`, `labels.csv` and `graph.toml` into `folder`.
///
/// `labels.csv` has the ground truth: whether the account is a mule, when it was confirmed as one (seconds since 1970; empty:
/// not within the 180 days) and whether the account is for training,
/// validation or testing. It is no part of the graph.
///
/// # Errors
/// Only what the system says while writing.
pub fn generate(folder: &Path, seed: u64) -> Result<Summary, ExampleError> {
    let accounts = people::accounts(&mut Rng::new(seed, 1));
    let rings = rings::rings(&accounts, &mut Rng::new(seed, 2));
    let mut network = Network::default();
    let confirmed = rings::launder(&rings, &accounts, &mut network, &mut Rng::new(seed, 3));
    network::everyday(&accounts, &confirmed, &mut network, &mut Rng::new(seed, 4));
    let max_degree = network.max_degree();
    let transfers = network.into_sorted();

    tables::make_folder(folder)?;
    tables::write(folder, "accounts.csv", account_table(&accounts).as_bytes())?;
    tables::write(folder, "transfers.csv", transfer_table(&transfers).as_bytes())?;
    tables::write(folder, "labels.csv", label_table(&accounts, &confirmed, &mut Rng::new(seed, 5)).as_bytes())?;
    // Last: who finds it finds the tables as well.
    tables::write(folder, "graph.toml", GRAPH_TOML.as_bytes())?;
    Ok(Summary {
        accounts: accounts.len(),
        transfers: transfers.len(),
        mules: accounts.iter().filter(|a| a.mule).count(),
        confirmed: confirmed.iter().flatten().count(),
        max_degree,
    })
}

fn account_table(accounts: &[Account]) -> Table {
    let mut columns = vec!["account"];
    columns.extend(FEATURES);
    let mut table = Table::new(&columns);
    for (i, a) in accounts.iter().enumerate() {
        let [age, kyc, devices, income] = [a.age_days, a.kyc_level, a.device_count, a.monthly_income]
            .map(|v| v.map_or(String::new(), |v| v.to_string()));
        let risk = a.country_risk_percent.map_or(String::new(), |p| format!("{}.{:02}", p / 100, p % 100));
        table.row(format_args!("{},{age},{kyc},{risk},{devices},{income}", i + 1));
    }
    table
}

fn transfer_table(transfers: &[Transfer]) -> Table {
    let mut table = Table::new(&["sender", "receiver", "time", "amount"]);
    for t in transfers {
        let (whole, part, time) = (t.cents / 100, t.cents % 100, START_S + t.time);
        table.row(format_args!("{},{},{time},{whole}.{part:02}", t.sender + 1, t.receiver + 1));
    }
    table
}

fn label_table(accounts: &[Account], confirmed: &[Option<i64>], rng: &mut Rng) -> Table {
    let mut table = Table::new(&["account", "mule", "confirmed", "split"]);
    for (i, (account, at)) in accounts.iter().zip(confirmed).enumerate() {
        let at = at.map_or(String::new(), |t| (START_S + t).to_string());
        let split = match rng.unit() {
            u if u < 0.45 => "train",
            u if u < 0.6 => "validation",
            _ => "test",
        };
        table.row(format_args!("{},{},{at},{split}", i + 1, u8::from(account.mule)));
    }
    table
}

#[cfg(test)]
mod tests;
