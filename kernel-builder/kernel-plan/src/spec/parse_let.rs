//! Reads `[let]` of op.toml: names for numbers and conditions.
//!
//! Owns: the order in which expressions are tied to the names that they use, and circles among them.
//! Never: evaluates.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::Problem;
use crate::units::{Dtype, PythonName};

use super::defined::Defined;
use super::expr::{self, Definition, Expr, Function};
use super::read::{Node, Table};
use super::{Spanned, codes, values};

/// One entry of `[let]`.
struct Entry<'a> {
    name: Spanned<PythonName>,
    node: Node<'a>,
    tree: Expr,
    /// Places of the entries that it uses.
    uses: BTreeSet<usize>,
}

/// Every name of `[let]` with its expression, each after those that it uses, else in file order. Those with a problem are
/// reported and left out.
pub(crate) fn definitions(table: &Table<'_>, defined: &Defined<'_>) -> Vec<Arc<Definition>> {
    let mut entries: Vec<Entry<'_>> = table
        .entries()
        .into_iter()
        .filter_map(|(key, node)| {
            let name = values::name(&key, &node, codes::NOT_AN_IDENTIFIER);
            let is_free = is_free(&key, &node, defined);
            let tree = expr::tree(&node);
            Some(Entry { name: name.filter(|_| is_free)?, node, tree: tree?, uses: BTreeSet::new() })
        })
        .collect();
    let names: Vec<PythonName> = entries.iter().map(|entry| entry.name.value.clone()).collect();
    for entry in &mut entries {
        let used = entry.tree.names();
        entry.uses =
            used.iter().filter_map(|(name, _)| names.iter().position(|known| known == *name)).collect();
    }
    let mut scope = defined.scope();
    let mut found = Vec::new();
    let mut waiting: BTreeSet<usize> = (0..entries.len()).collect();
    while let Some(place) = waiting.iter().copied().find(|place| entries[*place].uses.is_disjoint(&waiting)) {
        waiting.remove(&place);
        let Entry { name, node, tree, .. } = &entries[place];
        let value = expr::checked(node, tree.clone(), &scope);
        let Some(value) = value else { continue };
        let definition = Arc::new(Definition::new(name.clone(), value));
        if let Some((_, slot)) = scope.definitions.iter_mut().find(|(known, _)| known == name.as_str()) {
            *slot = Some(Arc::clone(&definition));
        }
        found.push(definition);
    }
    circles(table, &entries, waiting);
    found
}

/// Whether a name means nothing else in an expression; reports what it means.
fn is_free(key: &Spanned<String>, node: &Node<'_>, defined: &Defined<'_>) -> bool {
    let is = |names: &[String]| names.contains(&key.value);
    let what = if is(&defined.axis_names) {
        "an axis"
    } else if is(&defined.tunable_names) {
        "a tunable"
    } else if is(&defined.scalar_names) {
        "a scalar"
    } else if is(&defined.dtype_names) {
        "a type variable"
    } else if is(&defined.input_names) {
        "an input"
    } else if is(&defined.output_names) {
        "an output"
    } else if key.value.parse::<Dtype>().is_ok() {
        "a dtype"
    } else if key.value.parse::<Function>().is_ok() {
        "a function of the language"
    } else if matches!(key.value.as_str(), "true" | "false" | "and" | "or" | "not") {
        "a keyword of the language"
    } else {
        return true;
    };
    let message = format!("`{}` of [let] has the same name as {what}", key.value);
    let problem = Problem::error(codes::DUPLICATE_NAME, message)
        .help("give it another name: expressions need to tell them apart");
    node.report(problem, &key.span, format!("{what} already"));
    false
}

/// Reports each circle among the entries that wait for each other.
fn circles(table: &Table<'_>, entries: &[Entry<'_>], mut waiting: BTreeSet<usize>) {
    while let Some(first) = waiting.first().copied() {
        let (mut path, mut next) = (vec![], first);
        while !path.contains(&next) {
            path.push(next);
            let uses = &entries[next].uses;
            // One that waits for nothing any more leads to a circle that has been reported.
            let Some(used) = uses.iter().copied().find(|used| waiting.contains(used)) else {
                waiting.remove(&next);
                break;
            };
            next = used;
        }
        let Some(start) = path.iter().position(|place| *place == next) else { continue };
        if !waiting.contains(&next) {
            continue;
        }
        let circle = &path[start..];
        let steps = circle.iter().zip(circle.iter().cycle().skip(1));
        let names = |place: &usize| entries[*place].name.value.clone();
        let words = steps.clone().skip(1).map(|(_, used)| format!(", which uses `{}`", names(used)));
        let (first, second) = (names(&circle[0]), names(circle.get(1).unwrap_or(&circle[0])));
        let message = format!("`{first}` of [let] uses `{second}`{}", words.collect::<String>());
        let mut problem = Problem::error(codes::LET_CYCLE, message)
            .help("names of [let] must not use each other in a cycle; write one of the expressions out");
        for (place, used) in steps {
            let label = format!("uses `{}`", names(used));
            problem = problem.at(table.file(), &entries[*place].name.span, label);
        }
        table.push(problem);
        for place in circle {
            waiting.remove(place);
        }
    }
}
