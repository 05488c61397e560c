//! Lengths of axes as polynomials over symbols.
//!
//! Owns: their arithmetic and how they are written. Never: knows a tensor.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Mul, Sub};

/// A sum of products of symbols, each with a factor. No term has the factor 0.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Length(BTreeMap<Vec<String>, i64>);

impl Length {
    /// A number.
    pub fn number(value: i64) -> Self {
        Self::term(value, Vec::new())
    }

    /// A symbol.
    pub fn symbol(name: impl Into<String>) -> Self {
        Self::term(1, vec![name.into()])
    }

    /// A product of symbols with a factor.
    pub fn term(factor: i64, mut symbols: Vec<String>) -> Self {
        symbols.sort();
        let mut terms = BTreeMap::new();
        if factor != 0 {
            terms.insert(symbols, factor);
        }
        Self(terms)
    }

    /// The product of some lengths.
    pub fn product<'a>(lengths: impl IntoIterator<Item = &'a Length>) -> Self {
        lengths.into_iter().fold(Self::number(1), |all, one| &all * one)
    }

    /// Its value, if it has no symbol.
    pub fn value(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// Whether it is this number.
    pub fn is(&self, value: i64) -> bool {
        self.value() == Some(value)
    }

    /// Its terms: factors with their symbols.
    pub fn terms(&self) -> Vec<(i64, Vec<String>)> {
        self.0.iter().map(|(symbols, factor)| (*factor, symbols.clone())).collect()
    }

    /// The symbol that it is, if it is one.
    pub fn as_symbol(&self) -> Option<&str> {
        match self.0.iter().next() {
            Some((symbols, 1)) if self.0.len() == 1 && symbols.len() == 1 => Some(&symbols[0]),
            _ => None,
        }
    }

    /// The symbols, each once.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        let mut all: Vec<&str> = self.0.keys().flatten().map(String::as_str).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    /// Whether it is at least this number whenever every symbol is at least 1.
    pub fn at_least(&self, bound: i64) -> bool {
        let grows = self.0.iter().all(|(symbols, factor)| symbols.is_empty() || *factor > 0);
        grows && self.0.values().sum::<i64>() >= bound
    }

    /// The quotient, if this is a multiple of `by` for all values of the symbols.
    pub fn divided(&self, by: &Self) -> Option<Self> {
        if self == by && !self.0.is_empty() {
            return Some(Self::number(1));
        }
        let (symbols, factor) = by.0.iter().next().filter(|_| by.0.len() == 1)?;
        let mut terms = BTreeMap::new();
        for (own, times) in &self.0 {
            let mut rest = own.clone();
            for symbol in symbols {
                rest.remove(rest.iter().position(|one| one == symbol)?);
            }
            if times % factor != 0 {
                return None;
            }
            terms.insert(rest, times / factor);
        }
        Some(Self(terms))
    }

    /// Its value at lengths of the symbols.
    pub fn at(&self, lengths: &BTreeMap<String, i64>) -> i64 {
        let term = |(symbols, factor): (&Vec<String>, &i64)| {
            symbols.iter().fold(*factor, |all, name| all * lengths.get(name).copied().unwrap_or(1))
        };
        self.0.iter().map(term).sum()
    }

    /// The same with another length in place of each symbol.
    #[must_use]
    pub fn replaced(&self, by: &dyn Fn(&str) -> Option<Self>) -> Self {
        let mut sum = Self::default();
        for (symbols, factor) in &self.0 {
            let term = symbols.iter().fold(Self::number(*factor), |all, name| {
                &all * &by(name).unwrap_or_else(|| Self::symbol(name.clone()))
            });
            sum = &sum + &term;
        }
        sum
    }

    /// Whether it is written as one factor.
    fn is_factor(&self) -> bool {
        self.value().is_some() || self.as_symbol().is_some()
    }

    /// Written for a product.
    pub fn as_factor(&self) -> String {
        if self.is_factor() { self.to_string() } else { format!("({self})") }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return write!(f, "0");
        }
        // Terms with symbols come first.
        for (place, (symbols, factor)) in self.0.iter().rev().enumerate() {
            let sign = match (place, *factor < 0) {
                (0, true) => "-",
                (0, false) => "",
                (_, true) => " - ",
                (_, false) => " + ",
            };
            let size = factor.unsigned_abs();
            let product = symbols.join(" * ");
            match (size, product.is_empty()) {
                (_, true) => write!(f, "{sign}{size}")?,
                (1, false) => write!(f, "{sign}{product}")?,
                (_, false) => write!(f, "{sign}{size} * {product}")?,
            }
        }
        Ok(())
    }
}

impl Add for &Length {
    type Output = Length;

    fn add(self, other: &Length) -> Length {
        let mut terms = self.0.clone();
        for (symbols, factor) in &other.0 {
            *terms.entry(symbols.clone()).or_default() += factor;
        }
        terms.retain(|_, factor| *factor != 0);
        Length(terms)
    }
}

impl Mul for &Length {
    type Output = Length;

    fn mul(self, other: &Length) -> Length {
        let mut sum = Length::default();
        for (one, factor) in &self.0 {
            for (two, times) in &other.0 {
                let symbols = one.iter().chain(two).cloned().collect();
                sum = &sum + &Length::term(factor * times, symbols);
            }
        }
        sum
    }
}

impl Sub for &Length {
    type Output = Length;

    fn sub(self, other: &Length) -> Length {
        self + &(&Length::number(-1) * other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_polynomials() {
        let (a, b) = (Length::symbol("a"), Length::symbol("b"));
        let sum = &(&a * &b) + &Length::number(2);
        assert_eq!((&sum * &sum).to_string(), "4 * a * b + a * a * b * b + 4");
        assert_eq!((&sum - &sum).value(), Some(0));
        assert_eq!((&(&a * &b) * &b).divided(&(&b * &a)), Some(b.clone()));
        assert_eq!(sum.divided(&a), None);
        assert!(sum.at_least(3) && !sum.at_least(4) && !(&a - &b).at_least(0));
        assert_eq!(sum.at(&BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 5)])), 17);
        assert_eq!(sum.replaced(&|name| (name == "a").then(|| Length::number(4))).to_string(), "4 * b + 2");
    }
}
