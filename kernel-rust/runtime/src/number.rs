//! The arithmetic of op.toml's expressions: 64-bit integers, division rounds down, and nothing overflows silently.
//!
//! Owns: the operators that generated code uses. Never: panics.

/// An expression overflows 64 bits, or divides by zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow;

/// The sum.
///
/// # Errors
/// It overflows.
pub fn add(left: i64, right: i64) -> Result<i64, Overflow> {
    left.checked_add(right).ok_or(Overflow)
}

/// The difference.
///
/// # Errors
/// It overflows.
pub fn sub(left: i64, right: i64) -> Result<i64, Overflow> {
    left.checked_sub(right).ok_or(Overflow)
}

/// The product.
///
/// # Errors
/// It overflows.
pub fn mul(left: i64, right: i64) -> Result<i64, Overflow> {
    left.checked_mul(right).ok_or(Overflow)
}

/// The opposite number.
///
/// # Errors
/// It overflows.
pub fn neg(number: i64) -> Result<i64, Overflow> {
    number.checked_neg().ok_or(Overflow)
}

/// The quotient, rounded down.
///
/// # Errors
/// It overflows, or the divisor is zero.
pub fn div(left: i64, right: i64) -> Result<i64, Overflow> {
    let quotient = left.checked_div(right).ok_or(Overflow)?;
    // A quotient that rounds down is not the least number, so this does not overflow.
    Ok(if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient })
}

/// The remainder, with the sign of the divisor.
///
/// # Errors
/// The divisor is zero.
pub fn rem(left: i64, right: i64) -> Result<i64, Overflow> {
    if right == -1 {
        return Ok(0);
    }
    let rest = left.checked_rem(right).ok_or(Overflow)?;
    Ok(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
}

/// The quotient, rounded up.
///
/// # Errors
/// It overflows, or the divisor is zero.
pub fn ceil_div(left: i64, right: i64) -> Result<i64, Overflow> {
    let quotient = left.checked_div(right).ok_or(Overflow)?;
    Ok(if left % right != 0 && (left < 0) == (right < 0) { quotient + 1 } else { quotient })
}

/// The least of some numbers; the greatest possible number if there are none.
#[must_use]
pub fn min(numbers: &[i64]) -> i64 {
    numbers.iter().copied().min().unwrap_or(i64::MAX)
}

/// The greatest of some numbers; the least possible number if there are none.
#[must_use]
pub fn max(numbers: &[i64]) -> i64 {
    numbers.iter().copied().max().unwrap_or(i64::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_round_down_and_up() {
        for left in -9i64..=9 {
            for right in (-4i64..=4).filter(|right| *right != 0) {
                let exact = left as f64 / right as f64;
                assert_eq!(div(left, right), Ok(exact.floor() as i64), "{left} / {right}");
                assert_eq!(ceil_div(left, right), Ok(exact.ceil() as i64), "{left} / {right}");
                assert_eq!(rem(left, right), Ok(left - exact.floor() as i64 * right), "{left} % {right}");
            }
        }
    }

    #[test]
    fn nothing_wraps_or_panics() {
        assert_eq!(
            (add(i64::MAX, 1), sub(i64::MIN, 1), mul(i64::MAX, 2)),
            (Err(Overflow), Err(Overflow), Err(Overflow))
        );
        assert_eq!(
            (neg(i64::MIN), div(i64::MIN, -1), ceil_div(i64::MIN, -1)),
            (Err(Overflow), Err(Overflow), Err(Overflow))
        );
        assert_eq!((div(1, 0), rem(1, 0), ceil_div(1, 0)), (Err(Overflow), Err(Overflow), Err(Overflow)));
        assert_eq!((rem(i64::MIN, -1), min(&[3, -2, 5]), max(&[3, -2, 5])), (Ok(0), -2, 5));
    }
}
