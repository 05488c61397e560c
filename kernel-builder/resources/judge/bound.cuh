// The bound of verify/bound.rs, operation for operation in double precision. Owns: nothing else, so that a test can compile
// it for the host and hold it against the other one.

// How far a result may lie from the exact one; see verify/bound.rs.
struct Bound {
    double rounding;
    double accumulation;
    double unit;              // unit roundoff of the output
    double smallest;          // smallest normal number
    double largest;           // largest finite number
    double overflow;          // of 8-bit formats: where numbers begin to round beyond the range; 0 for others
    int has_infinity;         // whether the 8-bit format has one
};

__device__ double allowed(const Bound& bound, double exact, double terms) {
    const double size = fabs(exact);
    return bound.rounding * fmax(size, bound.smallest) + bound.accumulation * fmax(size, terms);
}

__device__ bool admits(const Bound& bound, double computed, double exact, double terms) {
    if (bound.overflow > 0.0 && !isnan(exact)) {
        const double size = fabs(exact);
        const double earlier = fmax(bound.rounding - bound.unit, 0.0) * size;
        const double before = size + earlier + bound.accumulation * fmax(size, terms);
        const bool beyond = isinf(exact) || before >= bound.overflow;
        const bool overflowed =
            bound.has_infinity ? isinf(computed) && signbit(computed) == signbit(exact) : isnan(computed);
        const bool saturated = computed == copysign(bound.largest, exact);
        if (overflowed || (saturated && beyond)) {
            return beyond;
        }
    }
    if (isnan(exact) || isnan(computed)) {
        return isnan(exact) && isnan(computed);
    }
    if (isinf(exact)) {
        return computed == exact;
    }
    const double most = allowed(bound, exact, terms);
    if (isinf(computed)) {
        return signbit(computed) == signbit(exact) && fabs(exact) + most >= bound.largest;
    }
    return fabs(computed - exact) <= most;
}
