//! Translates exported graphs, for tests/translation/check.py: a JSON list of graphs on standard input, the files of each on
//! standard output. An element with `op`, the text of an op.toml, and `lengths` asks for the kernel launches in float32 at each
//! of these lengths.
//!
//! Owns: the form of both. Never: writes a file.
#![expect(clippy::disallowed_macros, reason = "a program without the workspace's own output")]

use std::collections::BTreeMap;
use std::error::Error;

use kernel_plan::diagnostic::SourceFile;
use kernel_plan::spec::op::{Device, Purpose};
use kernel_plan::spec::parse_op;
use kernel_plan::translate::{
    Choices, FixedAxis, Part, Plan, Program, Project, Refusal, TracedGraph, agree, divide, emit, emit_whole,
    lower, lower_gradient, plan,
};
use kernel_plan::units::{Dtype, PythonName};
use serde_json::{Value, json};

/// A program with its kernels.
fn planned(program: Result<Program, Refusal>) -> Result<(Program, Plan), Refusal> {
    let program = program?;
    let plan = plan(&program, &Choices::default())?;
    Ok((program, plan))
}

fn project(name: &str) -> Project {
    Project {
        module: name.to_owned(),
        op: name.to_owned(),
        file: "functions.py".to_owned(),
        reference: name.to_owned(),
        part: Part::Alone,
    }
}

/// The files of a function whose parts are translated, if it can be divided.
fn parts(name: &str, graph: &TracedGraph) -> Result<Value, Refusal> {
    let whole = emit_whole(&divide(graph, &Choices::default())?, &project(name))?;
    let regions = whole
        .regions
        .iter()
        .map(|(op, emitted)| json!({ "name": op, "op": emitted.op, "body": emitted.body }));
    Ok(json!({ "op": whole.op, "forward": whole.forward, "regions": regions.collect::<Vec<_>>() }))
}

/// The files of a program.
fn forward(name: &str, program: &Program, plan: &Plan) -> Result<Value, Refusal> {
    let emitted = emit(program, plan, &project(name))?;
    let kernels: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.form().words()).collect();
    Ok(json!({ "op": emitted.op, "cuda": emitted.cuda, "body": emitted.body, "kernels": kernels }))
}

fn refused(refusal: &Refusal) -> Value {
    json!({ "refused": refusal.what, "op_name": refusal.op, "line": refusal.line })
}

/// The files of a program, or the reason why there are none.
fn files(name: &str, planned: &Result<(Program, Plan), Refusal>) -> Value {
    let outcome = planned.as_ref().map_err(Refusal::clone);
    outcome
        .and_then(|(program, plan)| forward(name, program, plan))
        .unwrap_or_else(|refusal| refused(&refusal))
}

/// The kernel launches of an op.toml with default settings, for each set of lengths; null for lengths that it does not take.
fn launches(text: &str, lengths: Vec<BTreeMap<String, u64>>) -> Result<Value, Box<dyn Error>> {
    let (op, _) = parse_op(SourceFile::new("op.toml", text.to_owned()));
    let op = op.ok_or("op.toml cannot be read")?;
    let launch = op.launch.as_ref().ok_or("op.toml has no [launch]")?;
    let tuning = op.tune.default_tuning();
    let cases = op.cases(Purpose::Verify, Device::Cuda);
    let like = cases.iter().find(|case| case.dtypes.values().all(|dtype| *dtype == Dtype::F32));
    let like = like.ok_or("no workload is verified in float32 on a GPU")?;
    let mut found = Vec::new();
    for one in lengths {
        let named = one.into_iter().map(|(name, length)| Ok((name.parse()?, length)));
        let one: BTreeMap<PythonName, u64> = named.collect::<Result<_, Box<dyn Error>>>()?;
        let Some(case) = op.at(like, &one) else {
            found.push(Value::Null);
            continue;
        };
        let concrete = launch.evaluate(&case, &tuning)?;
        let kernels = concrete.kernels.iter().map(|kernel| {
            json!({
                "name": kernel.name_expression(), "grid": kernel.grid, "block": kernel.block, "shared": kernel.shared,
                "arguments": kernel.arguments,
            })
        });
        let defines = concrete.defines.iter().map(|(name, value)| format!("-D{name}={value}"));
        found.push(json!({
            "defines": defines.collect::<Vec<_>>(), "workspaces": concrete.workspaces, "kernels": kernels.collect::<Vec<_>>(),
        }));
    }
    Ok(found.into())
}

/// The files of a function and of its gradient, or an axis that always has to have the length of the example.
fn answer(name: &str, graph: &TracedGraph, gradient: Option<&TracedGraph>) -> Result<Value, FixedAxis> {
    let mut function = planned(lower(graph));
    let gradient = gradient.map(|gradient| {
        let mut found = planned(lower_gradient(gradient, graph));
        if let (Ok(function), Ok(found)) = (&mut function, &mut found) {
            agree((&mut function.0, &function.1), (&mut found.0, &found.1));
        }
        files(&format!("{name}_backward"), &found)
    });
    let made =
        function.as_ref().map_err(Refusal::clone).and_then(|(program, plan)| forward(name, program, plan));
    // What stays PyTorch's is told of, if nothing can be translated beside it.
    let made = made.or_else(|refusal| match parts(name, graph) {
        Err(other) if !other.wants_lengths() => Err(refusal),
        outcome => outcome,
    });
    let forward = match made {
        Ok(files) => files,
        Err(refusal) => match FixedAxis::after(&refusal, graph) {
            Some(axis) => return Err(axis),
            None => refused(&refusal),
        },
    };
    Ok(json!({ "name": name, "forward": forward, "gradient": gradient }))
}

fn main() -> Result<(), Box<dyn Error>> {
    let graphs: Vec<Value> = serde_json::from_reader(std::io::stdin())?;
    let mut answers = Vec::new();
    for one in graphs {
        if let Some(text) = one["op"].as_str() {
            answers.push(launches(text, serde_json::from_value(one["lengths"].clone())?)?);
            continue;
        }
        let name = one["name"].as_str().ok_or("a graph without a name")?;
        let mut graph: TracedGraph = serde_json::from_value(one["graph"].clone())?;
        let mut gradient: Option<TracedGraph> = serde_json::from_value(one["gradient"].clone())?;
        answers.push(loop {
            match answer(name, &graph, gradient.as_ref()) {
                Ok(answer) => break answer,
                Err(axis) => {
                    graph.fix(&axis);
                    gradient.iter_mut().for_each(|gradient| gradient.fix(&axis));
                }
            }
        });
    }
    println!("{}", Value::Array(answers));
    Ok(())
}
