//! Translates exported graphs, for tests/translation/check.py: a JSON list of graphs on standard input, the files of each on
//! standard output.
//!
//! Owns: the form of both. Never: writes a file.
#![expect(clippy::disallowed_macros, reason = "a program without the workspace's own output")]

use std::error::Error;

use kernel_plan::translate::{
    Choices, Part, Plan, Program, Project, Refusal, TracedGraph, agree, divide, emit, emit_whole, lower,
    lower_gradient, plan,
};
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

/// The files of a program, or the reason why there are none.
fn files(name: &str, planned: &Result<(Program, Plan), Refusal>) -> Value {
    let made = |(program, plan): &(Program, Plan)| -> Result<Value, Refusal> {
        let emitted = emit(program, plan, &project(name))?;
        let kernels: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.form().words()).collect();
        Ok(json!({ "op": emitted.op, "cuda": emitted.cuda, "body": emitted.body, "kernels": kernels }))
    };
    let outcome = planned.as_ref().map_err(Refusal::clone).and_then(made);
    outcome.unwrap_or_else(
        |refusal| json!({ "refused": refusal.what, "op_name": refusal.op, "line": refusal.line }),
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let graphs: Vec<Value> = serde_json::from_reader(std::io::stdin())?;
    let mut answers = Vec::new();
    for one in graphs {
        let name = one["name"].as_str().ok_or("a graph without a name")?;
        let graph: TracedGraph = serde_json::from_value(one["graph"].clone())?;
        let mut function = planned(lower(&graph));
        let mut gradient = None;
        if !one["gradient"].is_null() {
            let traced: TracedGraph = serde_json::from_value(one["gradient"].clone())?;
            let mut found = planned(lower_gradient(&traced, &graph));
            if let (Ok(function), Ok(found)) = (&mut function, &mut found) {
                agree((&mut function.0, &function.1), (&mut found.0, &found.1));
            }
            gradient = Some(files(&format!("{name}_backward"), &found));
        }
        let forward = match &function {
            Ok(_) => files(name, &function),
            // What stays PyTorch's is told of, if nothing can be translated beside it.
            Err(_) => parts(name, &graph).unwrap_or_else(|_| files(name, &function)),
        };
        let answer = json!({ "name": name, "forward": forward, "gradient": gradient });
        answers.push(answer);
    }
    println!("{}", Value::Array(answers));
    Ok(())
}
