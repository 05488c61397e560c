//! Plans as text, for people and for snapshots.
//!
//! Owns: the form. Never: decides.

use std::fmt::Write as _;

use super::index::Index;
use super::kernel::{Buffer, Expression, Form, Kernel, Role};
use super::plan::Plan;
use super::program::Program;
use super::spell;

impl Form {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Pointwise => "pointwise",
            Self::Row => "row reduction",
            Self::Column => "column reduction",
            Self::Scan => "scan",
        }
    }
}

impl Plan {
    /// The name of a tensor.
    pub fn name<'a>(&'a self, program: &'a Program, buffer: Buffer) -> &'a str {
        match buffer {
            Buffer::Input(number) => &program.inputs[number].name,
            Buffer::Output(number) => &program.outputs[number].0.name,
            Buffer::Workspace(number) => &self.workspaces[number].name,
        }
    }

    /// What a kernel reads and writes, each once.
    pub fn moved(&self, kernel: &Kernel) -> (Vec<Buffer>, Vec<Buffer>) {
        let mut read: Vec<Buffer> = Vec::new();
        for node in &kernel.nodes {
            if let Expression::Load(buffer, _) = &node.expression
                && !read.contains(buffer)
            {
                read.push(*buffer);
            }
        }
        (read, kernel.stores.iter().map(|store| store.buffer).collect())
    }

    /// Everything, for snapshots.
    pub fn listing(&self, program: &Program) -> String {
        let mut text = String::new();
        for (number, kernel) in self.kernels.iter().enumerate() {
            let axes: Vec<String> = kernel
                .axes
                .iter()
                .map(|axis| {
                    let role = match axis.role {
                        Role::Parallel => "",
                        Role::Reduced => " reduced",
                        Role::Scanned => " scanned",
                    };
                    format!("{}{role}", axis.length)
                })
                .collect();
            let _ = writeln!(text, "kernel {number}: {} over [{}]", kernel.form().words(), axes.join(", "));
            let place =
                |index: &Index| spell::index(index, &|axis| format!("i{axis}"), &|node| format!("e{node}"));
            for (node, own) in kernel.nodes.iter().enumerate() {
                let what = match &own.expression {
                    Expression::Load(buffer, index) => {
                        format!("{}[{}]", self.name(program, *buffer), place(index))
                    }
                    Expression::Number(number) => format!("{number:?}"),
                    Expression::Quantity(quantity) => spell::quantity(quantity),
                    Expression::Place(index) => format!("place {}", place(index)),
                    Expression::Operation(op, of) => {
                        let list: Vec<String> = of.iter().map(|one| format!("e{one}")).collect();
                        format!("{op:?}({})", list.join(", "))
                    }
                    Expression::Reduced(number) => format!("reduction {number}"),
                    Expression::Scanned => "scan".to_owned(),
                };
                let _ = writeln!(text, "  e{node} {} = {what}", own.name);
            }
            for (number, one) in kernel.reductions.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "  reduction {number} {} = {:?}(e{}) in round {}",
                    one.name, one.how, one.of, one.level
                );
            }
            if let Some(scan) = &kernel.scan {
                let _ = writeln!(text, "  scan {} = {:?}(e{})", scan.name, scan.how, scan.of);
            }
            for store in &kernel.stores {
                let _ = writeln!(
                    text,
                    "  {}[{}] = e{}",
                    self.name(program, store.buffer),
                    place(&store.offset),
                    store.value
                );
            }
        }
        text
    }
}
