//! Rings of mules: who belongs together, how their money flows, and when they are found out.

use crate::rng::Rng;
use crate::transfers::network::{Network, amount, hours};
use crate::transfers::people::Account;
use crate::transfers::{DAY_S, Transfer};

/// A ring, with its active time in seconds since the first day.
pub(super) struct Ring {
    members: Vec<usize>,
    start: i64,
    end: i64,
}

/// Puts all mules into rings of 10 to 25.
pub(super) fn rings(accounts: &[Account], rng: &mut Rng) -> Vec<Ring> {
    let mut mules: Vec<usize> = (0..accounts.len()).filter(|&i| accounts[i].mule).collect();
    rng.shuffle(&mut mules);
    let mut rings = Vec::new();
    let mut rest = mules.as_slice();
    while !rest.is_empty() {
        let (members, others) = rest.split_at((10 + rng.below(16)).min(rest.len()));
        let start = hours(rng, 0.0, 155.0 * 24.0);
        let end = start + hours(rng, 25.0 * 24.0, 50.0 * 24.0);
        rings.push(Ring { members: members.to_vec(), start, end });
        rest = others;
    }
    rings
}

/// Runs the rings' money through the network. Returns when each account was confirmed as a mule, in seconds since the first
/// day: some weeks after its ring began, and not at all for a few.
pub(super) fn launder(rings: &[Ring], accounts: &[Account], network: &mut Network, rng: &mut Rng) -> Vec<Option<i64>> {
    let mut confirmed = vec![None; accounts.len()];
    let last = i64::from(crate::transfers::DAYS) * DAY_S;
    for ring in rings {
        for &mule in &ring.members {
            let at = ring.start + hours(rng, 20.0 * 24.0, 65.0 * 24.0);
            confirmed[mule] = (at < last && !rng.chance(0.05)).then_some(at);
        }
    }
    // Only now: a job may pass money to a mule of another ring, whose account may be closed.
    for ring in rings {
        for _ in 0..ring.members.len() * 5 {
            job(ring, accounts, &confirmed, network, rng);
        }
    }
    confirmed
}

/// One job: a victim pays a mule, the mule passes it on within hours to one or two others, they to a collector or out.
fn job(ring: &Ring, accounts: &[Account], confirmed: &[Option<i64>], network: &mut Network, rng: &mut Rng) {
    let (collectors, runners) = ring.members.split_at(2);
    let time = ring.start + (rng.unit() * (ring.end - ring.start) as f64) as i64;
    let open = |i: usize, time: i64| confirmed[i].is_none_or(|at| time < at);
    let victim = rng.below(accounts.len());
    let Some(&entry) = rng.pick(runners) else { return };
    let cents = amount(rng, 700.0, 0.8);
    if accounts[victim].mule || !open(entry, time) {
        return;
    }
    network.add(Transfer { time, sender: victim, receiver: entry, cents });
    let parts = 1 + rng.below(2) as i64;
    for _ in 0..parts {
        let second = time + hours(rng, 0.5, 12.0);
        let passed = cents * 9 / 10 / parts;
        // A part of the money leaves the ring at once, to accounts that have nothing to do with it.
        let Some(&middle) = rng.pick(runners) else { return };
        let middle = if rng.chance(0.3) { rng.below(accounts.len()) } else { middle };
        if !open(entry, second) || !open(middle, second) {
            continue;
        }
        network.add(Transfer { time: second, sender: entry, receiver: middle, cents: passed });
        let third = second + hours(rng, 0.5, 24.0);
        if let Some(&collector) = rng.pick(collectors)
            && accounts[middle].mule
            && rng.chance(0.6)
            && open(middle, third)
            && open(collector, third)
        {
            network.add(Transfer { time: third, sender: middle, receiver: collector, cents: passed * 9 / 10 });
        }
    }
}
