//! Translates exported graphs, for tests/translation/check.py: a JSON list of graphs on standard input, the files of each on
//! standard output.
//!
//! Owns: the form of both. Never: writes a file.
#![expect(clippy::disallowed_macros, reason = "a program without the workspace's own output")]

use std::error::Error;

use kernel_plan::translate::{
    Part, Plan, Program, Project, Refusal, Traced, emit, lower, lower_gradient, plan,
};
use serde_json::{Value, json};

/// The files of a program, or the reason why there are none.
fn files(name: &str, program: Result<Program, Refusal>) -> Value {
    let made = |program: Program| -> Result<Value, Refusal> {
        let plan: Plan = plan(&program)?;
        let project = Project {
            module: name.to_owned(),
            op: name.to_owned(),
            file: "functions.py".to_owned(),
            reference: name.to_owned(),
            part: Part::Alone,
        };
        let emitted = emit(&program, &plan, &project)?;
        let kernels: Vec<&str> = plan.kernels.iter().map(|kernel| kernel.form().words()).collect();
        Ok(
            json!({ "op": emitted.op, "body": emitted.body, "kernels": kernels, "symbols": program.symbols.len() }),
        )
    };
    program.and_then(made).unwrap_or_else(
        |refusal| json!({ "refused": refusal.what, "op_name": refusal.op, "line": refusal.line }),
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let graphs: Vec<Value> = serde_json::from_reader(std::io::stdin())?;
    let mut answers = Vec::new();
    for one in graphs {
        let name = one["name"].as_str().ok_or("a graph without a name")?;
        let graph: Traced = serde_json::from_value(one["graph"].clone())?;
        let mut answer = json!({ "name": name, "forward": files(name, lower(&graph)) });
        if !one["gradient"].is_null() {
            let gradient: Traced = serde_json::from_value(one["gradient"].clone())?;
            answer["gradient"] = files(&format!("{name}_backward"), lower_gradient(&gradient, &graph));
        }
        answers.push(answer);
    }
    println!("{}", Value::Array(answers));
    Ok(())
}
