//! Uniform sampling without replacement: Floyd's algorithm, one draw per item taken.
//!
//! Source: J. Bentley, R. Floyd, "Programming Pearls: a sample of brilliance", CACM 1987.

use crate::rng::Draws;

/// Up to this many items a scan of the list is quicker than the table.
const SCAN: u32 = 24;

/// Appends `count` distinct positions below `degree` (`count ≤ degree`), in the order of drawing.
pub(super) fn floyd(degree: u32, count: u32, draws: &mut Draws, table: &mut Table, out: &mut Vec<u32>) {
    let start = out.len();
    if count > SCAN {
        table.reset(count);
    }
    for bound in degree - count..degree {
        let drawn = draws.below_u32(bound + 1);
        let fresh = if count > SCAN { table.insert(drawn) } else { !out[start..].contains(&drawn) };
        let position = if fresh { drawn } else { bound };
        if !fresh && count > SCAN {
            table.insert(bound);
        }
        out.push(position);
    }
}

/// A set of positions: open addressing, emptied without being freed.
#[derive(Default)]
pub(super) struct Table {
    slots: Vec<u32>,
}

impl Table {
    /// No position is this large: a degree is a u32, positions are below it.
    const EMPTY: u32 = u32::MAX;

    /// Empties the set and makes room for `count` positions.
    fn reset(&mut self, count: u32) {
        let size = (count as usize * 2).next_power_of_two();
        self.slots.clear();
        self.slots.resize(size, Self::EMPTY);
    }

    /// Whether the position was not there yet.
    fn insert(&mut self, position: u32) -> bool {
        let mask = self.slots.len() - 1;
        let mut slot = (u64::from(position).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & mask;
        // At most half of the slots are used, so an empty one is met.
        loop {
            match self.slots[slot] {
                Self::EMPTY => {
                    self.slots[slot] = position;
                    return true;
                }
                found if found == position => return false,
                _ => slot = (slot + 1) & mask,
            }
        }
    }
}
