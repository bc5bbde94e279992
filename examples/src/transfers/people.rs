//! The accounts and their profiles.

use crate::rng::Rng;
use crate::transfers::{ACCOUNTS, MULES};

/// An account. `None` is a missing value.
#[derive(Clone, Debug)]
pub(super) struct Account {
    /// Which circle of acquaintances it belongs to.
    pub circle: usize,
    /// Days since it was opened, on the first day.
    pub age_days: Option<u32>,
    /// How well its owner was identified: 1 to 3.
    pub kyc_level: Option<u32>,
    /// Risk of the owner's country, in hundredths.
    pub country_risk_percent: Option<u32>,
    /// Devices seen.
    pub device_count: Option<u32>,
    /// Stated income.
    pub monthly_income: Option<u32>,
    /// How often it pays, relative to others.
    pub rate: f64,
    /// Whether it takes payments from strangers and pays its circle with them: a trader, whose flow looks like a mule's.
    pub trader: bool,
    /// The ground truth.
    pub mule: bool,
}

/// What the people of a circle have in common.
#[derive(Clone, Copy)]
enum Circle {
    Settled,
    /// Young accounts with little income that pay each other: harmless, and like mules in their profiles.
    Student,
    /// From riskier countries: harmless as well.
    Abroad,
}

/// Draws all accounts. Their order says nothing: circles and mules are spread over it.
pub(super) fn accounts(rng: &mut Rng) -> Vec<Account> {
    let mut accounts = Vec::with_capacity(ACCOUNTS);
    let mut circle = 0;
    while accounts.len() < ACCOUNTS {
        let kind = match rng.unit() {
            u if u < 0.74 => Circle::Settled,
            u if u < 0.88 => Circle::Student,
            _ => Circle::Abroad,
        };
        for _ in 0..(20 + rng.below(41)).min(ACCOUNTS - accounts.len()) {
            accounts.push(account(circle, kind, rng));
        }
        circle += 1;
    }
    rng.shuffle(&mut accounts);
    let mut order: Vec<usize> = (0..ACCOUNTS).collect();
    rng.shuffle(&mut order);
    for &i in &order[..MULES] {
        make_mule(&mut accounts[i], rng);
    }
    for account in &mut accounts {
        forget(account, rng);
    }
    accounts
}

fn account(circle: usize, kind: Circle, rng: &mut Rng) -> Account {
    let (age, income, risk) = match kind {
        Circle::Settled => (rng.around(900.0, 0.8), rng.around(2400.0, 0.45), rng.range(5.0, 40.0)),
        Circle::Student => (rng.around(220.0, 0.7), rng.around(800.0, 0.4), rng.range(5.0, 45.0)),
        Circle::Abroad => (rng.around(500.0, 0.8), rng.around(1500.0, 0.5), rng.range(25.0, 80.0)),
    };
    let kyc = 1 + usize::from(rng.chance(0.85)) + usize::from(rng.chance(0.5));
    Account {
        circle,
        age_days: whole(age, 1, 3650),
        kyc_level: u32::try_from(kyc).ok(),
        country_risk_percent: whole(risk, 0, 100),
        device_count: Some(devices(0.35, rng)),
        monthly_income: whole(income, 0, 20_000),
        rate: rng.around(1.0, 0.6),
        trader: rng.chance(0.03),
        mule: false,
    }
}

/// Half of the mules are accounts of real people, bought or recruited: their profiles stay as they are.
fn make_mule(account: &mut Account, rng: &mut Rng) {
    account.mule = true;
    account.trader = false;
    account.rate *= 0.6;
    if rng.chance(0.5) {
        account.age_days = whole(rng.around(130.0, 0.8), 1, 3650);
        account.kyc_level = Some(if rng.chance(0.45) { 1 } else { 2 });
        account.country_risk_percent = account.country_risk_percent.map(|p| (p + 8).min(100));
        account.device_count = Some(devices(0.5, rng));
        account.monthly_income = whole(rng.around(1100.0, 0.6), 0, 20_000);
    }
}

fn forget(account: &mut Account, rng: &mut Rng) {
    let income_unknown = if account.mule { 0.2 } else { 0.12 };
    if rng.chance(income_unknown) {
        account.monthly_income = None;
    }
    if rng.chance(0.04) {
        account.device_count = None;
    }
    if rng.chance(0.02) {
        account.country_risk_percent = None;
    }
}

fn devices(more: f64, rng: &mut Rng) -> u32 {
    let mut count = 1;
    while count < 9 && rng.chance(more) {
        count += 1;
    }
    count
}

/// A positive number rounded and kept within bounds.
fn whole(value: f64, low: u32, high: u32) -> Option<u32> {
    // Every value drawn is finite, and clamped to a u32's range.
    Some((value + 0.5).clamp(f64::from(low), f64::from(high)) as u32)
}
