//! Every template has a host side, whose launcher has an instance for every call.

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::host::{self, HostPlan};
use kernel_plan::spec::expr::Value;
use kernel_plan::spec::launch::TemplateValue;
use kernel_plan::spec::op::{Axis, AxisKind, Case, Device, Purpose};
use kernel_plan::spec::{OpSpec, parse_op};

use crate::base::random::SplitMix;
use crate::scaffold::template;

/// The operators of every template that leaves its host side to the generator.
fn operators() -> Vec<(String, OpSpec)> {
    let mut found = vec![];
    for template in template::all().unwrap() {
        let answers = template::sample(&template, "fast-one".parse().unwrap());
        let set = template::render(&template, &answers).unwrap();
        if set.get("torch-ext/torch_binding.cpp").is_some() {
            continue;
        }
        for file in ["op.toml", "backward.toml"] {
            let Some(text) = set.get(file) else { continue };
            let text = String::from_utf8(text.to_vec()).unwrap();
            let (op, problems) = parse_op(SourceFile::new(file, text));
            found.push((format!("{}/{file}", template.name), op.unwrap_or_else(|| panic!("{problems:?}"))));
        }
    }
    assert!(found.len() > 30);
    found
}

/// A length that the axis allows: mostly small, at times large, often round.
fn length(axis: &Axis, random: &mut SplitMix) -> u64 {
    let AxisKind::Var { multiple_of, min, max } = axis.kind else { return 0 };
    let bits = random.next() % 18;
    let drawn = random.next() % (1 << bits) + 1;
    let round = if random.next().is_multiple_of(2) { drawn } else { drawn.next_multiple_of(64) };
    (round * multiple_of).max(min.unwrap_or(0)).min(max.unwrap_or(u64::MAX))
}

fn has(plan: &HostPlan, place: usize, case: &Case, op: &OpSpec, template: &[TemplateValue]) -> bool {
    let dtypes = op.dtypes.iter().map(|variable| {
        let dtype = case.dtypes[&variable.name.value];
        format!("int64_t(Element::k{})", dtype.as_str().to_ascii_uppercase())
    });
    let values = template.iter().filter_map(|value| match value {
        TemplateValue::Value(Value::Integer(number)) => Some(number.to_string()),
        TemplateValue::Value(Value::Boolean(truth)) => Some(i64::from(*truth).to_string()),
        TemplateValue::Type(_) => None,
    });
    let key: Vec<String> = dtypes.chain(values).collect();
    plan.launch.as_ref().unwrap().spaces[0].instances[place].iter().any(|instance| instance.key == key)
}

#[test]
fn every_call_of_every_template_has_its_instances() {
    let mut random = SplitMix(7);
    for (name, op) in operators() {
        let plan = host::plan(&op, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
        let launch = op.launch.as_ref().unwrap();
        let cases = op.cases(Purpose::Verify, Device::Cuda);
        let mut started = 0;
        for turn in 0..200 {
            let mut case = cases[turn % cases.len()].clone();
            // The first ones are the workloads themselves.
            if turn >= cases.len() {
                for axis in op.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. })) {
                    case.axes.insert(axis.name.value.clone(), length(axis, &mut random));
                }
            }
            // A drawn call may be larger than any GPU.
            let Ok(concrete) = launch.evaluate(&case, &op.tune.default_tuning()) else { continue };
            for kernel in concrete.kernels {
                started += 1;
                let fits = has(&plan, kernel.place, &case, &op, &kernel.template);
                assert!(
                    fits,
                    "{name}: no {} for {:?} {:?}",
                    kernel.name_expression(),
                    case.axes,
                    case.dtypes
                );
            }
        }
        assert!(started > 50, "{name}: {started}");
    }
}
