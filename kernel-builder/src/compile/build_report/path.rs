//! What the end of a build waited for.
//!
//! Owns: the chain of steps that ends last. Never: guesses what was not run.

use super::super::timeline::Step;

/// Steps that were ready when their predecessor ended began to wait within so many seconds of it.
const AT_ONCE: f64 = 0.1;

/// The steps from the first to the one that ended last, each of which waited for the one before: a step for the last one of
/// its unit that was over when it came, a link for the last one of its variant.
pub(super) fn critical(steps: &[Step]) -> Vec<&Step> {
    let latest = |one: &&&Step, two: &&&Step| one.ended.total_cmp(&two.ended);
    let all: Vec<&Step> = steps.iter().collect();
    let Some(last) = all.iter().max_by(latest) else { return Vec::new() };
    let mut chain = vec![*last];
    while let Some(before) = all
        .iter()
        .filter(|step| {
            let now = chain[chain.len() - 1];
            let of_unit = step.unit == now.unit || now.unit == "link";
            let is_before = step.ended <= now.queued + AT_ONCE && step.started < now.started;
            step.variant == now.variant && of_unit && is_before
        })
        .max_by(latest)
    {
        chain.push(before);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::super::tests::record;
    use super::*;

    #[test]
    fn it_leads_from_the_last_step_back_to_the_first() {
        let record = record();
        let names: Vec<&str> = critical(&record.steps).iter().map(|step| step.step.as_str()).collect();
        assert_eq!(names, ["cicc sm_80", "link"], "b.cu's only step, then the link that waited for it");
        assert!(critical(&[]).is_empty());
    }
}
