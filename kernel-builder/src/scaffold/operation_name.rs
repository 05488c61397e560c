//! The name of the operation of a translated function.
//!
//! Owns: the names that it cannot have. Never: names anything else.

/// Names that generated code cannot give a function: keywords of C++, functions of math.h with those that CUDA adds, functions of
/// the C library and of POSIX, and what the generated host side has itself.
const TAKEN: &str = "\
alignas alignof and asm auto bool break case catch char class concept const consteval constexpr constinit continue \
decltype default delete do double else enum explicit export extern false float for friend goto if inline int long \
mutable namespace new noexcept not nullptr operator or private protected public register requires restrict return \
short signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using \
virtual void volatile while xor abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi \
cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fabs fdim floor fma fmax fmin fmod \
frexp gamma hypot ilogb isfinite isinf isnan isnormal j0 j1 jn ldexp lgamma llabs llrint llround log log10 log1p \
log2 logb lrint lround max min modf nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow remainder \
remquo rcbrt rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalb scalbln scalbn signbit signgam significand sin \
sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 y1 yn abort accept access alarm atexit bcmp bind brk \
bsearch calloc chdir chown clock close connect count daylight div dup environ errno exit fork free getc gets index \
ioctl kill labs ldiv link listen main malloc memcpy memmove memset open pause pipe poll printf putc puts qsort raise \
rand random read realloc recv remove rename rewind rindex select send shutdown signal sleep socket splice srand stat \
strlen swab sync syscall system tee time timezone truncate uname wait warn write aligned aten at c10 cuda detail \
elements enqueue host ops readable run start std torch writable";

/// The name of the operation of a function.
pub(super) fn operation(function: &str) -> String {
    let name = snake(function);
    if TAKEN.split_whitespace().any(|taken| taken == name) { format!("{name}_op") } else { name }
}

/// `RmsNorm` as `rms_norm`.
fn snake(name: &str) -> String {
    let mut text = String::new();
    for (place, letter) in name.chars().enumerate() {
        if letter.is_ascii_uppercase() && place > 0 && !text.ends_with('_') {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_become_functions() {
        assert_eq!(snake("RmsNorm"), "rms_norm");
        assert_eq!(operation("gelu_new"), "gelu_new");
        // The generated code has a function of the operation's name beside those of its headers.
        for name in ["tanh", "exp", "count", "norm", "index", "class", "host", "rsqrt", "Select"] {
            assert_eq!(operation(name), format!("{}_op", snake(name)));
        }
    }
}
