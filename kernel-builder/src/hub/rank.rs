//! How well a published kernel fits what is looked for, and why.
//!
//! Owns: the points and the sentences. Never: asks a hub.

use serde::Serialize;

use super::facts;
use super::find::Published;
use super::subject::{Subject, normal, shows, words};

/// A kernel, with how well it fits.
#[derive(Debug, Clone, Serialize)]
pub struct Ranked {
    /// The kernel.
    #[serde(flatten)]
    pub kernel: Published,
    /// Points; only their order means something.
    pub points: f64,
    /// Whether it computes what is looked for as far as names tell; else it only may.
    pub named: bool,
    /// Why, the strongest reason first.
    pub why: Vec<String>,
}

/// The kernels in their order, the best first. Those of which nothing speaks for the subject are left out.
pub fn rank(subject: &Subject, kernels: Vec<Published>, backend: &str) -> Vec<Ranked> {
    let judged = kernels.into_iter().filter_map(|kernel| judge(subject, kernel, backend));
    let mut ranked: Vec<Ranked> = judged.collect();
    ranked.sort_by(|one, other| {
        let by_points = other.points.total_cmp(&one.points);
        by_points.then_with(|| one.kernel.id.cmp(&other.kernel.id))
    });
    ranked
}

fn judge(subject: &Subject, kernel: Published, backend: &str) -> Option<Ranked> {
    let (mut points, mut why) = (0.0, Vec::new());
    let name = kernel.id.rsplit('/').next().unwrap_or_default();
    let mut add_reason = |gain: f64, sentence: String| {
        points += gain;
        why.push(sentence);
    };
    let by_name = subject.names.iter().find_map(|own| {
        let (own_normal, there) = (normal(own), normal(name));
        let gain = if own_normal == there {
            50.0
        } else if own_normal.len() > 2 && there.contains(&own_normal) {
            35.0
        } else {
            return None;
        };
        Some((gain, format!("its name has `{own}`")))
    });
    let by_ops = subject.names.iter().find_map(|own| {
        let same = |op: &&String| normal(op) == normal(own);
        let near = |op: &&String| normal(own).len() > 3 && normal(op).contains(&normal(own));
        let exact = kernel.ops.iter().find(same).map(|op| (45.0, format!("its package has `{op}`")));
        exact.or_else(|| kernel.ops.iter().find(near).map(|op| (25.0, format!("its package has `{op}`"))))
    });
    let by_card = subject.names.iter().find_map(|own| {
        let (text, own_words) = (words(&kernel.card), words(own));
        let joined = own_words.concat();
        let spoken = !own_words.is_empty()
            && (text.windows(own_words.len()).any(|window| window == own_words) || text.contains(&joined));
        spoken.then(|| (15.0, format!("its card mentions `{own}`")))
    });
    let named = by_name.is_some() || by_ops.is_some();
    for (gain, sentence) in [by_name, by_ops, by_card].into_iter().flatten() {
        add_reason(gain, sentence);
    }
    let family = subject.families.iter().find(|family| {
        let of = |text: &str| shows(text, &normal(family)) || words(text).iter().any(|word| word == *family);
        of(name) || kernel.tags.iter().any(|tag| of(tag))
    });
    if let Some(family) = family {
        add_reason(10.0, format!("it is of the family `{family}`"));
    }
    if let Some(question) = &kernel.found_by
        && !named
    {
        add_reason(3.0, format!("the hub's search finds it for `{question}`"));
    }
    if why.is_empty() {
        return None;
    }
    let mut add_reason = |gain: f64, sentence: String| {
        points += gain;
        why.push(sentence);
    };
    let here = kernel.variants.iter().find(|variant| facts::backend(variant).is_none_or(|of| of == backend));
    match here {
        Some(variant) => add_reason(10.0, format!("it has {variant}, for {backend}")),
        None if !kernel.variants.is_empty() => add_reason(-10.0, format!("it has no variant for {backend}")),
        None => {}
    }
    if let Some(downloads) = kernel.downloads.filter(|count| *count > 0) {
        add_reason((downloads as f64).log10().min(6.0), format!("{downloads} downloads a month"));
    }
    points += kernel.likes.map_or(0.0, |likes| (likes as f64 + 1.0).log10());
    Some(Ranked { kernel, points, named, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(id: &str, ops: &[&str], card: &str, variants: &[&str]) -> Published {
        let own = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        Published {
            id: id.to_owned(),
            ops: own(ops),
            card: card.to_owned(),
            variants: own(variants),
            ..Published::default()
        }
    }

    fn order(kernels: Vec<Published>) -> Vec<(String, bool)> {
        let ranked = rank(&Subject::from_names(["rms_norm"]), kernels, "cuda");
        ranked.into_iter().map(|one| (one.kernel.id, one.named)).collect()
    }

    #[test]
    fn what_computes_it_comes_before_what_may_and_strangers_are_left_out() {
        let cuda = &["torch-cuda"];
        let kernels = vec![
            kernel("a/flash-attn", &["flash_attn"], "Attention.", cuda),
            kernel("a/layer-norm", &["layer_norm"], "", cuda),
            kernel("a/activation", &["silu", "rms_norm"], "", cuda),
            kernel("a/rmsnorm", &["rms_norm"], "RMS norm", cuda),
            kernel("b/rmsnorm", &["rms_norm"], "RMS norm", &["torch-cpu"]),
            kernel("a/layers", &[], "Speaks of RMS-Norm.", cuda),
        ];
        let expected = [
            ("a/rmsnorm", true),
            ("b/rmsnorm", true),
            ("a/activation", true),
            ("a/layers", false),
            ("a/layer-norm", false),
        ];
        assert_eq!(order(kernels), expected.map(|(id, named)| (id.to_owned(), named)));
    }

    #[test]
    fn downloads_decide_between_equals_and_each_reason_is_said() {
        let mut popular = kernel("z/rms-norm", &[], "", &["torch-universal"]);
        popular.downloads = Some(12_000);
        let plain = kernel("a/rms-norm", &[], "", &["torch-universal"]);
        let ranked = rank(&Subject::from_names(["rms_norm"]), vec![plain, popular], "cpu");
        assert_eq!(ranked[0].kernel.id, "z/rms-norm");
        let expected = [
            "its name has `rms_norm`",
            "it is of the family `norm`",
            "it has torch-universal, for cpu",
            "12000 downloads a month",
        ];
        assert_eq!(ranked[0].why, expected);
    }
}
