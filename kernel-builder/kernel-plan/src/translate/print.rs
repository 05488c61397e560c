//! Plans as text, for people and for snapshots.
//!
//! Owns: the form. Never: decides.

use std::fmt::{self, Write as _};

use super::index::Index;
use super::kernel::{Buffer, Expression, Form, Kernel, Role};
use super::length::Length;
use super::plan::Plan;
use super::program::{Kind, Program, ValueId};
use super::spell;

impl Form {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Pointwise => "pointwise",
            Self::Transposition => "transposition",
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
        let mut written: Vec<Buffer> = Vec::new();
        for store in &kernel.stores {
            if !written.contains(&store.buffer) {
                written.push(store.buffer);
            }
        }
        (read, written)
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
                    Expression::Mean(number) => format!("mean of reduction {number}"),
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

fn shape_text(shape: &[Length]) -> String {
    let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", lengths.join(", "))
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", spell::index(self, &|axis| format!("i{axis}"), &|number| format!("v{number}")))
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in &self.inputs {
            writeln!(f, "input {}: {} {}", input.name, input.element.word(), shape_text(&input.shape))?;
        }
        for (number, value) in self.values.iter().enumerate() {
            let shape = shape_text(&value.shape);
            let places = |of: &[Index]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let list = |of: &[ValueId]| of.iter().map(|one| format!("v{one}")).collect::<Vec<_>>().join(", ");
            let what = match &value.kind {
                Kind::Input(input) => format!("input {}", self.inputs[*input].name),
                Kind::Number(number) => format!("{number:?}"),
                Kind::Quantity(quantity) => format!("quantity {}", spell::quantity(quantity)),
                Kind::Place(index) => format!("place {index}"),
                Kind::Pointwise(op, of) => format!("{op:?}({})", list(of)),
                Kind::View(of, place) => format!("v{of} at [{}]", places(place)),
                Kind::Gather(of, place, by) => format!("v{of} at [{}] by {}", places(place), list(by)),
                Kind::Reduce(how, of, axes) => format!("{how:?}(v{of}) over {axes:?}"),
                Kind::Scan(how, of, axis) => format!("{how:?}(v{of}) along {axis}"),
            };
            writeln!(f, "v{number} {} = {what} {shape} {:?}", value.name, value.class)?;
        }
        for (tensor, value) in &self.outputs {
            let shape = shape_text(&tensor.shape);
            writeln!(f, "output {} = v{value} {} {shape}", tensor.name, tensor.element.word())?;
        }
        Ok(())
    }
}
