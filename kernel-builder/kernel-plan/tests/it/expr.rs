//! The expression language: what is read, how it prints, what it is worth.

use kernel_plan::spec::expr::{
    BinaryOp, Bindings, Cause, Expr, ExprKind, Function, MAX_DEPTH, TensorBinding, UnaryOp, Value,
    parse_expression,
};
use kernel_plan::units::{Dtype, PythonName};
use proptest::prelude::*;

fn name(text: &str) -> PythonName {
    text.parse().expect("a name")
}

/// Values with something for everyone: both ends, zero, a negative number, a truth.
fn bindings() -> Bindings {
    let numbers =
        [("rows", 7), ("zero", 0), ("below", -3), ("least", i64::MIN), ("most", i64::MAX), ("hidden", 4096)];
    let mut bindings = Bindings::default();
    bindings.names.extend(numbers.map(|(text, number)| (name(text), Value::Integer(number))));
    bindings.names.insert(name("causal"), Value::Boolean(true));
    bindings.dtypes.insert(name("T"), Dtype::Bf16);
    bindings.tensors.insert(name("input"), TensorBinding { given: true, strides: vec![4096, 1] });
    bindings.tensors.insert(name("bias"), TensorBinding { given: false, strides: vec![] });
    bindings
}

fn evaluate(text: &str) -> String {
    match parse_expression(text).expect("an expression").evaluate(&bindings()) {
        Ok(value) => value.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values() {
    let table = [
        ("1 + 2 * 3 - 4", "3"),
        ("(1 + 2) * 3", "9"),
        ("10 - 4 - 3", "3"),
        ("2 - (3 - 4)", "3"),
        ("1_000_000", "1000000"),
        ("-7 / 2", "-4"),
        ("7 / -2", "-4"),
        ("-7 % 2", "1"),
        ("7 % -2", "-1"),
        ("-8 / 2", "-4"),
        ("ceil_div(7, 2)", "4"),
        ("ceil_div(-7, 2)", "-3"),
        ("ceil_div(8, 2)", "4"),
        ("ceil_div(0, 5)", "0"),
        ("min(3, rows, 5)", "3"),
        ("max(3, rows, 5)", "7"),
        ("- - rows", "7"),
        ("sizeof(T) * hidden", "8192"),
        ("sizeof(f64)", "8"),
        ("stride(input, 0) + stride(input, 1)", "4097"),
        ("given(input) and not given(bias)", "true"),
        ("not rows == 7 or causal", "true"),
        ("rows > 1 and hidden % 8 == 0", "true"),
        ("true or 1 / 0 == 1", "true"),
        ("false and 1 / 0 == 1", "false"),
        ("least % -1", "0"),
    ];
    for (text, value) in table {
        assert_eq!(evaluate(text), value, "{text}");
    }
}

#[test]
fn what_has_no_value_says_which_part() {
    let table = [
        ("1 + rows / zero", "`rows / zero` divides by zero"),
        ("rows % zero", "`rows % zero` divides by zero"),
        ("2 * ceil_div(rows, zero)", "`ceil_div(rows, zero)` divides by zero"),
        ("most + 1", "`most + 1` does not fit in 64 bits"),
        ("least - 1", "`least - 1` does not fit in 64 bits"),
        ("2 * (most * 2)", "`most * 2` does not fit in 64 bits"),
        ("-least", "`-least` does not fit in 64 bits"),
        ("least / -1", "`least / -1` does not fit in 64 bits"),
        ("ceil_div(least, -1)", "`ceil_div(least, -1)` does not fit in 64 bits"),
        ("nothing + 1", "`nothing` has no value here"),
        ("stride(input, 2)", "`stride(input, 2)` has no value here"),
        ("causal + 1", "`causal` is of the wrong type"),
        ("rows and causal", "`rows` is of the wrong type"),
    ];
    for (text, error) in table {
        assert_eq!(evaluate(text), error, "{text}");
    }
}

#[test]
fn printing_leaves_out_what_is_not_needed() {
    let table = [
        ("((1)+(2*3))", "1 + 2 * 3"),
        ("(1+2)*3", "(1 + 2) * 3"),
        ("1-(2-3)", "1 - (2 - 3)"),
        ("(1-2)-3", "1 - 2 - 3"),
        ("8/(4/2)", "8 / (4 / 2)"),
        ("-(a*b)", "-(a * b)"),
        ("(-a)*b", "-a * b"),
        ("--a", "--a"),
        ("not (a or b) and c", "not (a or b) and c"),
        ("not (a == b)", "not a == b"),
        ("(not a) == b", "(not a) == b"),
        ("(a < b) == (c < d)", "(a < b) == (c < d)"),
        ("a and (b or c)", "a and (b or c)"),
        ("(a and b) or c", "a and b or c"),
        ("a or (b or c)", "a or (b or c)"),
        ("min( a,b , (c) )", "min(a, b, c)"),
        ("true==false", "true == false"),
    ];
    for (text, printed) in table {
        assert_eq!(parse_expression(text).expect("an expression").to_string(), printed, "{text}");
    }
}

#[test]
fn places_cover_the_text_of_a_part() {
    let text = "1 + min(rows, (2 * 3))";
    let expr = parse_expression(text).expect("an expression");
    let ExprKind::Binary(BinaryOp::Add, _, call) = &expr.kind else { panic!("a sum") };
    let ExprKind::Call(Function::Min, arguments) = &call.kind else { panic!("a call") };
    assert_eq!(&text[expr.span.clone()], text);
    assert_eq!(&text[call.span.clone()], "min(rows, (2 * 3))");
    assert_eq!(&text[arguments[1].span.clone()], "(2 * 3)");
}

#[test]
fn what_is_no_expression_says_where() {
    let table = [
        ("", 0..0, "the expression is empty"),
        ("1 +", 2..3, "the expression ends early"),
        ("1 < 2 < 3", 6..7, "comparisons cannot be chained"),
        ("min(1, 2) < min(3, 4) < 5", 22..23, "comparisons cannot be chained"),
        ("1 + not a", 4..7, "`not` needs parentheses here"),
        ("a ? b", 2..3, "`?` is not part of the expression language"),
        ("f(1)", 0..1, "`f` is not a function of the expression language"),
        ("if", 0..2, "unexpected `if` in the expression"),
        ("1__0", 0..4, "`1__0` is not a number"),
        ("(1", 0..1, "a parenthesis is not closed"),
        ("min(1,", 5..6, "the expression ends early"),
        ("min(1 2)", 6..7, "unexpected `2` in the expression"),
        ("1)", 1..2, "unexpected `)` in the expression"),
        ("é", 0..2, "`é` is not part of the expression language"),
    ];
    for (text, span, message) in table {
        let error = parse_expression(text).expect_err(text);
        assert_eq!((error.span, error.message.as_str()), (span, message), "{text}");
    }
}

#[test]
fn what_other_languages_have_is_told_with_what_stands_for_it() {
    let table = [
        ("rows ** 2", "powers are not supported; multiply"),
        ("rows // 2", "write `/`: it rounds down"),
        ("rows << 2", "shifts are not supported; multiply or divide by a power of two"),
        ("a > 1 AND b > 1", "write `and`"),
        ("True", "write `true`"),
        ("x.shape", "write the name of the axis for a length, and `stride(input, 0)` for a stride"),
        ("x1[0]", "write the name of the axis for a length, and `stride(input, 0)` for a stride"),
        ("rows * 1.5", "expressions support whole numbers only"),
        ("rows * .5", "expressions support whole numbers only"),
        ("2 if a else 1", "conditional values are not supported"),
        ("a ? 2 : 1", "conditional values are not supported"),
        ("T == 'bf16'", "strings are not supported; for the size of a dtype write `sizeof(T)`"),
    ];
    for (text, help) in table {
        let error = parse_expression(text).expect_err(text);
        assert!(error.help.starts_with(help), "{text}: {}", error.help);
    }
}

#[test]
fn depth_has_a_limit_and_what_is_below_it_works() {
    let nested = |count: usize| format!("{}1{}", "(".repeat(count), ")".repeat(count));
    let minuses = |count: usize| format!("{}1", "-".repeat(count));
    let sum = |count: usize| format!("1{}", " + 1".repeat(count));
    let calls = |count: usize| format!("{}1{}", "max(1, ".repeat(count), ")".repeat(count));
    let shapes: [&dyn Fn(usize) -> String; 4] = [&nested, &minuses, &sum, &calls];
    for shape in shapes {
        let expr = parse_expression(&shape(MAX_DEPTH - 1)).expect("just deep enough");
        assert_eq!(parse_expression(&expr.to_string()), Ok(expr.clone()));
        assert!(expr.evaluate(&bindings()).is_ok());
        for count in [MAX_DEPTH, 100_000] {
            let error = parse_expression(&shape(count)).expect_err("too deep");
            assert!(error.message.contains("nested deeper than 128"), "{}", error.message);
        }
    }
}

fn tree(kind: ExprKind) -> Expr {
    Expr { kind, span: 0..0 }
}

fn number() -> impl Strategy<Value = Expr> {
    prop_oneof![0..4i64, Just(i64::MAX), 0..=i64::MAX].prop_map(|number| tree(ExprKind::Integer(number)))
}

fn names(names: &'static [&'static str]) -> impl Strategy<Value = Expr> {
    prop::sample::select(names).prop_map(|text| tree(ExprKind::Name(name(text))))
}

fn binary(
    ops: &'static [BinaryOp],
    operands: impl Strategy<Value = Expr> + Clone,
) -> impl Strategy<Value = Expr> {
    (prop::sample::select(ops), operands.clone(), operands)
        .prop_map(|(op, left, right)| tree(ExprKind::Binary(op, Box::new(left), Box::new(right))))
}

/// Any tree at all, right or wrong in names and types.
fn any_tree() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        number(),
        any::<bool>().prop_map(|truth| tree(ExprKind::Boolean(truth))),
        names(&["rows", "zero", "below", "least", "most", "causal", "T", "input", "nothing", "f32", "min"]),
    ];
    leaf.prop_recursive(8, 64, 4, |inner| {
        prop_oneof![
            (prop::sample::select(UnaryOp::ALL), inner.clone())
                .prop_map(|(op, operand)| tree(ExprKind::Unary(op, Box::new(operand)))),
            binary(BinaryOp::ALL, inner.clone()),
            (prop::sample::select(Function::ALL), prop::collection::vec(inner, 0..4))
                .prop_map(|(function, arguments)| tree(ExprKind::Call(function, arguments))),
        ]
    })
}

/// Trees that yield a number or a truth, if nothing overflows.
fn typed_tree() -> impl Strategy<Value = Expr> {
    use BinaryOp as Op;
    let leaf = prop_oneof![number(), names(&["rows", "zero", "below", "least", "most"])];
    let numbers = leaf.prop_recursive(5, 32, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| tree(ExprKind::Unary(UnaryOp::Negate, Box::new(operand)))),
            binary(&[Op::Add, Op::Subtract, Op::Multiply, Op::Divide, Op::Remainder], inner.clone()),
            (inner.clone(), inner.clone())
                .prop_map(|(left, right)| tree(ExprKind::Call(Function::CeilDiv, vec![left, right]))),
            (prop::sample::select(&[Function::Min, Function::Max][..]), prop::collection::vec(inner, 2..4))
                .prop_map(|(function, arguments)| tree(ExprKind::Call(function, arguments))),
        ]
    });
    let compare: &[Op] = &[Op::Equal, Op::NotEqual, Op::Less, Op::LessEqual, Op::Greater, Op::GreaterEqual];
    let truths = binary(compare, numbers.clone()).prop_recursive(3, 16, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|operand| tree(ExprKind::Unary(UnaryOp::Not, Box::new(operand)))),
            binary(&[Op::And, Op::Or], inner),
        ]
    });
    prop_oneof![numbers, truths]
}

/// The language once more, in wider numbers and other words.
fn model(expr: &Expr) -> Result<i128, Cause> {
    let floor = |left: i128, right: i128| {
        // With a positive divisor, the Euclidean quotient is the one rounded down.
        if right < 0 { (-left).div_euclid(-right) } else { left.div_euclid(right) }
    };
    let value = match &expr.kind {
        ExprKind::Integer(number) => i128::from(*number),
        ExprKind::Name(name) => match bindings().names.get(name) {
            Some(Value::Integer(number)) => i128::from(*number),
            _ => return Err(Cause::Undefined),
        },
        ExprKind::Named(definition) => model(definition.value.tree())?,
        ExprKind::Unary(UnaryOp::Negate, operand) => -model(operand)?,
        ExprKind::Unary(UnaryOp::Not, operand) => 1 - model(operand)?,
        ExprKind::Binary(BinaryOp::And, left, right) => {
            if model(left)? == 0 {
                0
            } else {
                model(right)?
            }
        }
        ExprKind::Binary(BinaryOp::Or, left, right) => {
            if model(left)? == 1 {
                1
            } else {
                model(right)?
            }
        }
        ExprKind::Binary(op, left, right) => {
            let (left, right) = (model(left)?, model(right)?);
            match op {
                BinaryOp::Add => left + right,
                BinaryOp::Subtract => left - right,
                BinaryOp::Multiply => left * right,
                BinaryOp::Divide | BinaryOp::Remainder if right == 0 => return Err(Cause::DivisionByZero),
                BinaryOp::Divide => floor(left, right),
                BinaryOp::Remainder => left - right * floor(left, right),
                BinaryOp::Equal => i128::from(left == right),
                BinaryOp::NotEqual => i128::from(left != right),
                BinaryOp::Less => i128::from(left < right),
                BinaryOp::LessEqual => i128::from(left <= right),
                BinaryOp::Greater => i128::from(left > right),
                BinaryOp::GreaterEqual => i128::from(left >= right),
                BinaryOp::And | BinaryOp::Or => return Err(Cause::WrongType),
            }
        }
        ExprKind::Call(function, arguments) => {
            let arguments = arguments.iter().map(model).collect::<Result<Vec<_>, _>>()?;
            match (function, arguments.as_slice()) {
                (Function::CeilDiv, [_, 0]) => return Err(Cause::DivisionByZero),
                (Function::CeilDiv, [left, right]) => -floor(-left, *right),
                (Function::Min, some) => some.iter().copied().min().ok_or(Cause::Undefined)?,
                (Function::Max, some) => some.iter().copied().max().ok_or(Cause::Undefined)?,
                _ => return Err(Cause::Undefined),
            }
        }
        ExprKind::Boolean(_) => return Err(Cause::WrongType),
    };
    if i64::try_from(value).is_ok() { Ok(value) } else { Err(Cause::Overflow) }
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_the_same_tree(expr in any_tree()) {
        let text = expr.to_string();
        prop_assert_eq!(parse_expression(&text), Ok(expr), "{}", text);
    }

    #[test]
    fn no_tree_makes_evaluation_panic(expr in any_tree()) {
        let _value = expr.evaluate(&bindings());
    }

    #[test]
    fn values_are_those_of_wider_numbers(expr in typed_tree()) {
        let found = expr.evaluate(&bindings()).map(|value| match value {
            Value::Integer(number) => i128::from(number),
            Value::Boolean(truth) => i128::from(truth),
        });
        prop_assert_eq!(found.map_err(|error| error.cause), model(&expr), "{}", expr);
    }

    #[test]
    fn no_text_makes_reading_panic(
        text in prop_oneof![
            ".{0,40}",
            "(rows|zero|T|1|20_0|\\(|\\)|,|\\+|-|\\*|/|%|<|>=|==|!=| |and |or |not |true|min|ceil_div|sizeof|é){0,24}",
        ]
    ) {
        match parse_expression(&text) {
            Ok(expr) => {
                prop_assert!(text.get(expr.span.clone()).is_some());
                let printed = expr.to_string();
                prop_assert_eq!(parse_expression(&printed), Ok(expr), "{}", printed);
            }
            Err(error) => prop_assert!(text.get(error.span.clone()).is_some(), "{:?}", error),
        }
    }
}
