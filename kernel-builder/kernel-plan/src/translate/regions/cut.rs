//! The cut of a graph: which operators make a region, and in which order everything runs.
//!
//! Owns: the rule of costs between regions. Never: looks into a region.

use std::collections::{BTreeMap, BTreeSet};

use super::division::Step;
use super::graph::{Graph, Kind};

/// A graph in parts.
pub(super) struct Cut {
    /// The operators of each region, with what is free and needed there, and the values that others take of it.
    pub(super) regions: Vec<(BTreeSet<usize>, Vec<String>)>,
    /// The order.
    pub(super) steps: Vec<Step>,
}

/// Who takes a value, through what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// An operator of a region.
    Core(usize),
    /// An operator that stays, or the caller.
    Other,
}

/// Cuts a graph. Operators are in one region if no operator that stays is between them, and one follows from the other.
pub(super) fn cut(graph: &Graph<'_>) -> Cut {
    let readers = readers(graph);
    let depths = depths(graph, &readers);
    let members = members(graph, &depths);
    let mut regions: Vec<(BTreeSet<usize>, Vec<String>)> = Vec::new();
    let mut of: BTreeMap<usize, usize> = BTreeMap::new();
    for places in members {
        places.iter().for_each(|place| {
            of.insert(*place, regions.len());
        });
        let results = places.iter().map(|place| graph.traced.nodes[*place].name.as_str());
        let results = results.filter(|name| {
            let all = readers.get(name).map(Vec::as_slice).unwrap_or_default();
            all.iter().any(|reader| match reader {
                Reader::Core(place) => !places.contains(place),
                Reader::Other => true,
            })
        });
        let results = results.map(str::to_owned).collect();
        regions.push((with_free(graph, &places), results));
    }
    let steps = ordered(graph, &regions, &of);
    Cut { regions, steps }
}

fn readers<'t>(graph: &Graph<'t>) -> BTreeMap<&'t str, Vec<Reader>> {
    let mut readers: BTreeMap<&str, Vec<Reader>> = BTreeMap::new();
    for place in 0..graph.traced.nodes.len() {
        let reader = match graph.kinds[place] {
            Kind::Core => Reader::Core(place),
            Kind::Stays => Reader::Other,
            Kind::Free => continue,
        };
        for value in graph.sources(place) {
            readers.entry(value).or_default().push(reader);
        }
    }
    for output in &graph.traced.outputs {
        match graph.producer(output) {
            Some(place) if graph.kinds[place] == Kind::Free => {
                graph.sources(place).into_iter().for_each(|value| {
                    readers.entry(value).or_default().push(Reader::Other);
                });
            }
            _ => readers.entry(output).or_default().push(Reader::Other),
        }
    }
    readers
}

/// How many operators that stay come before each operator of a region, at most. One that is only used further on is computed
/// there, if that moves fewer bytes than storing its result.
fn depths(graph: &Graph<'_>, readers: &BTreeMap<&str, Vec<Reader>>) -> Vec<usize> {
    let count = graph.traced.nodes.len();
    let mut depths = vec![0; count];
    for place in 0..count {
        let before =
            graph.traced.nodes[place].operands().into_iter().filter_map(|value| graph.producer(value));
        depths[place] = before
            .map(|one| {
                depths[one]
                    + usize::from(graph.kinds[one] == Kind::Stays && graph.kinds[place] != Kind::Stays)
            })
            .max()
            .unwrap_or(0);
    }
    for place in (0..count).rev() {
        let node = &graph.traced.nodes[place];
        if graph.kinds[place] != Kind::Core || node.op == "getitem" || node.results.len() != 1 {
            continue;
        }
        let all = readers.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let at: BTreeSet<Option<usize>> = all
            .iter()
            .map(|reader| match reader {
                Reader::Core(place) => Some(depths[*place]),
                Reader::Other => None,
            })
            .collect();
        let Some(later) =
            at.first().copied().flatten().filter(|later| at.len() == 1 && *later > depths[place])
        else {
            continue;
        };
        let own = depths[place];
        let cost = |value: &&str| {
            let is_new = graph.producer(value).is_some_and(|one| {
                let others = readers.get(value).map(Vec::as_slice).unwrap_or_default();
                let stored = |reader: &Reader| match reader {
                    Reader::Core(other) => *other != place && depths[*other] != own,
                    Reader::Other => true,
                };
                graph.kinds[one] == Kind::Core && depths[one] == own && !others.iter().any(stored)
            });
            graph.elements(value) * if is_new { 2 } else { 1 }
        };
        let moved: i64 = graph.sources(place).iter().map(cost).sum();
        let is_item =
            |value: &&str| graph.producer(value).is_some_and(|one| graph.traced.nodes[one].results.len() > 1);
        if moved <= 2 * graph.elements(&node.name) && !graph.sources(place).iter().any(is_item) {
            depths[place] = later;
        }
    }
    depths
}

/// The operators of each region, in the order of the first of each.
fn members(graph: &Graph<'_>, depths: &[usize]) -> Vec<BTreeSet<usize>> {
    let mut groups: Vec<usize> = (0..depths.len()).collect();
    fn root(groups: &mut [usize], mut one: usize) -> usize {
        while groups[one] != one {
            groups[one] = groups[groups[one]];
            one = groups[one];
        }
        one
    }
    let cores = || (0..depths.len()).filter(|place| graph.kinds[*place] == Kind::Core);
    for place in cores() {
        for value in graph.sources(place) {
            let source = graph.producer(value).filter(|one| graph.kinds[*one] == Kind::Core);
            if let Some(source) = source.filter(|one| depths[*one] == depths[place]) {
                let (one, other) = (root(&mut groups, place), root(&mut groups, source));
                groups[one.max(other)] = one.min(other);
            }
        }
    }
    let mut found: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for place in cores() {
        let first = root(&mut groups, place);
        found.entry(first).or_default().insert(place);
    }
    found.into_values().collect()
}

/// A region with what is free and leads to it.
fn with_free(graph: &Graph<'_>, places: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut all = places.clone();
    let mut pending: Vec<usize> = places.iter().copied().collect();
    while let Some(place) = pending.pop() {
        for before in
            graph.traced.nodes[place].operands().into_iter().filter_map(|value| graph.producer(value))
        {
            if graph.kinds[before] == Kind::Free && all.insert(before) {
                pending.push(before);
            }
        }
    }
    all
}

/// What is needed for the results, each step after those that it needs.
fn ordered(
    graph: &Graph<'_>,
    regions: &[(BTreeSet<usize>, Vec<String>)],
    of: &BTreeMap<usize, usize>,
) -> Vec<Step> {
    let step = |place: usize| match of.get(&place) {
        Some(region) => Step::Region(*region),
        None => Step::Operator(place),
    };
    let needs = |step: Step| -> Vec<usize> {
        let values: Vec<&str> = match step {
            Step::Operator(place) => graph.traced.nodes[place].operands(),
            Step::Region(number) => {
                let inside = &regions[number].0;
                inside.iter().flat_map(|place| graph.traced.nodes[*place].operands()).collect()
            }
        };
        let inside =
            |place: &usize| matches!(step, Step::Region(number) if regions[number].0.contains(place));
        values.into_iter().filter_map(|value| graph.producer(value)).filter(|place| !inside(place)).collect()
    };
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Vec<Step> = Vec::new();
    let outputs = graph.traced.outputs.iter().filter_map(|output| graph.producer(output));
    let mut pending: Vec<Step> = outputs.map(step).collect();
    pending.reverse();
    while let Some(next) = pending.last().copied() {
        if steps.contains(&next) {
            pending.pop();
            continue;
        }
        let mut missing: Vec<Step> = needs(next)
            .into_iter()
            .map(step)
            .filter(|one| !steps.contains(one) && !open.contains(one))
            .collect();
        if missing.is_empty() {
            steps.push(next);
            open.retain(|one| *one != next);
            pending.pop();
        } else {
            open.push(next);
            missing.reverse();
            pending.extend(missing);
        }
    }
    steps
}
