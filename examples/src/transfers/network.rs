//! The transfers: the store that bounds degrees, and everyday payments.

use crate::rng::Rng;
use crate::transfers::people::Account;
use crate::transfers::{ACCOUNTS, DAY_S, DAYS, MAX_DEGREE, TRANSFERS, Transfer};

/// Transfers so far, with every account's degrees.
pub(super) struct Network {
    transfers: Vec<Transfer>,
    sent: Vec<u32>,
    received: Vec<u32>,
}

impl Default for Network {
    fn default() -> Self {
        Self { transfers: Vec::with_capacity(TRANSFERS), sent: vec![0; ACCOUNTS], received: vec![0; ACCOUNTS] }
    }
}

impl Network {
    /// Adds a transfer unless it goes nowhere, lies outside the 180 days or would exceed [`MAX_DEGREE`].
    pub(super) fn add(&mut self, transfer: Transfer) -> bool {
        let Transfer { time, sender, receiver, .. } = transfer;
        let in_time = (0..i64::from(DAYS) * DAY_S).contains(&time);
        if sender == receiver || !in_time || self.sent[sender] == MAX_DEGREE || self.received[receiver] == MAX_DEGREE {
            return false;
        }
        self.sent[sender] += 1;
        self.received[receiver] += 1;
        self.transfers.push(transfer);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.transfers.len()
    }

    pub(super) fn max_degree(&self) -> u32 {
        self.sent.iter().chain(&self.received).copied().max().unwrap_or(0)
    }

    /// In the order of time.
    pub(super) fn into_sorted(mut self) -> Vec<Transfer> {
        self.transfers.sort_unstable();
        self.transfers
    }
}

/// Fills the network with payments among acquaintances, up to [`TRANSFERS`].
pub(super) fn everyday(accounts: &[Account], confirmed: &[Option<i64>], network: &mut Network, rng: &mut Rng) {
    let circles = circles(accounts);
    let contacts: Vec<Vec<usize>> = accounts.iter().map(|a| contacts(a, &circles, rng)).collect();
    let senders = Senders::new(accounts);
    // A confirmed mule's account is closed.
    let open = |i: usize, time: i64| confirmed[i].is_none_or(|at| time < at);
    while network.len() < TRANSFERS {
        let time = moment(rng);
        let sender = senders.draw(rng);
        // The smaller of two draws: some acquaintances are paid again and again.
        let Some(&receiver) =
            contacts[sender].get(rng.below(contacts[sender].len()).min(rng.below(contacts[sender].len())))
        else {
            continue;
        };
        if !open(sender, time) || !open(receiver, time) {
            continue;
        }
        let cents = amount(rng, 55.0, 0.9);
        network.add(Transfer { time, sender, receiver, cents });
        if accounts[sender].trader {
            trade(sender, time, accounts, &contacts[sender], network, rng);
        }
    }
}

/// A trader is paid by strangers and pays suppliers within hours: harmless, but it flows as a mule's money does.
fn trade(trader: usize, time: i64, accounts: &[Account], contacts: &[usize], network: &mut Network, rng: &mut Rng) {
    let customer = rng.below(accounts.len());
    if accounts[customer].mule || network.len() >= TRANSFERS {
        return;
    }
    let cents = amount(rng, 400.0, 0.8);
    if network.add(Transfer { time, sender: customer, receiver: trader, cents }) && network.len() < TRANSFERS {
        let later = time + hours(rng, 0.5, 24.0);
        if let Some(&supplier) = rng.pick(contacts)
            && !accounts[supplier].mule
        {
            network.add(Transfer { time: later, sender: trader, receiver: supplier, cents: cents * 9 / 10 });
        }
    }
}

fn circles(accounts: &[Account]) -> Vec<Vec<usize>> {
    let mut circles = vec![Vec::new(); accounts.iter().map(|a| a.circle + 1).max().unwrap_or(0)];
    for (i, account) in accounts.iter().enumerate() {
        circles[account.circle].push(i);
    }
    circles
}

fn contacts(account: &Account, circles: &[Vec<usize>], rng: &mut Rng) -> Vec<usize> {
    let near = &circles[account.circle];
    (0..4 + rng.below(9))
        .map(|_| if rng.chance(0.75) { near[rng.below(near.len())] } else { rng.below(ACCOUNTS) })
        .collect()
}

/// Draws senders by their rates, by bisection in the running sums.
struct Senders(Vec<f64>);

impl Senders {
    fn new(accounts: &[Account]) -> Self {
        let mut sum = 0.0;
        Self(
            accounts
                .iter()
                .map(|a| {
                    sum += a.rate;
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let total = self.0.last().copied().unwrap_or(0.0);
        let point = rng.range(0.0, total);
        self.0.partition_point(|&sum| sum <= point).min(self.0.len() - 1)
    }
}

/// Some second of the 180 days, by day rather than by night.
pub(super) fn moment(rng: &mut Rng) -> i64 {
    let day = rng.below(DAYS as usize) as i64;
    let hour = if rng.chance(0.85) { rng.range(7.0, 23.0) } else { rng.range(0.0, 24.0) };
    day * DAY_S + (hour * 3600.0) as i64
}

/// A time span in seconds.
pub(super) fn hours(rng: &mut Rng, low: f64, high: f64) -> i64 {
    (rng.range(low, high) * 3600.0) as i64
}

/// An amount in cents.
pub(super) fn amount(rng: &mut Rng, median: f64, spread: f64) -> i64 {
    (rng.around(median, spread) * 100.0).clamp(100.0, 5_000_000.0) as i64
}
