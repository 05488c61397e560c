//! Results that are written elsewhere than they are computed.
//!
//! Owns: which results are written so. Never: changes what is computed.

use std::collections::BTreeMap;

use super::pieces::{Piece, carried, is_pointwise, operands, placed, turned};
use super::program::Program;
use super::rows::rows;

/// The program with its concatenations carried as far as its results, and the pieces of such results.
pub(super) fn divided(program: &Program) -> (Program, BTreeMap<usize, Vec<Piece>>) {
    let mut program = program.clone();
    let mut found = BTreeMap::new();
    for place in 0..program.outputs.len() {
        let value = program.outputs[place].1;
        // A value that something else needs is made as a whole.
        let is_needed = program.outputs.iter().filter(|(_, one)| *one == value).count() > 1
            || program.values.iter().any(|one| operands(one).contains(&value));
        let before = program.values.len();
        if is_needed {
            continue;
        }
        if let Some(piece) = turned(&program, value) {
            found.insert(place, vec![piece]);
            continue;
        }
        let whole = carried(&mut program, value);
        let pieces = if is_pointwise(&program, value) {
            whole.map(|whole| placed(&program, value, whole))
        } else {
            rows(&mut program, value, whole)
        };
        match pieces {
            Some(pieces) => _ = found.insert(place, pieces),
            None => program.values.truncate(before),
        }
    }
    (program, found)
}
