//! Lengths that the programs see only as their product.
//!
//! Owns: which places these are, and the products to try. Never: evaluates a program.
//!
//! A row over four axes depends on the number of its elements alone. There are millions of choices of four lengths, and few
//! thousand products of them.

use std::collections::BTreeMap;

use super::Operation;
use super::Program;

/// Groups of at least two places that occur only as factors of the same products, once in each.
pub(super) fn products<'a>(programs: impl Iterator<Item = &'a Program>) -> Vec<Vec<usize>> {
    let mut seen = Occurrences::default();
    programs.for_each(|program| seen.visit(program));
    let mut groups: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for (place, products) in seen.products {
        if products.is_sorted_by(|one, next| one < next) {
            groups.entry(products).or_default().push(place);
        }
    }
    groups.into_values().filter(|places| places.len() > 1).collect()
}

/// The products in which each place is a factor, by number. A slot that is not a factor is a product of one.
#[derive(Default)]
struct Occurrences {
    products: BTreeMap<usize, Vec<usize>>,
    number: usize,
}

impl Occurrences {
    fn visit(&mut self, program: &Program) {
        self.number += 1;
        self.factor(program, self.number);
    }

    /// Visits a factor of the product with this number.
    fn factor(&mut self, program: &Program, product: usize) {
        match program {
            Program::Constant(_) => {}
            Program::Slot(place) => self.products.entry(*place).or_default().push(product),
            Program::Binary(Operation::Multiply, left, right) => {
                self.factor(left, product);
                self.factor(right, product);
            }
            Program::Not(operand) | Program::Negate(operand) => self.visit(operand),
            Program::Binary(_, left, right) | Program::CeilDiv(left, right) => {
                self.visit(left);
                self.visit(right);
            }
            Program::Min(all) | Program::Max(all) => all.iter().for_each(|one| self.visit(one)),
        }
    }
}

/// Every product of one number of each list that fits 64 bits, ascending. No call has more elements.
pub(super) fn multiplied<'a>(lists: impl Iterator<Item = &'a [i64]>) -> Vec<i64> {
    lists.fold(vec![1], |products, list| {
        let mut next: Vec<i64> = products
            .iter()
            .flat_map(|product| list.iter().filter_map(|one| product.checked_mul(*one)))
            .collect();
        next.sort_unstable();
        next.dedup();
        next
    })
}
