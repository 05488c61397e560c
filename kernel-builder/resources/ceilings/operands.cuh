// The operands of products whose rate is measured, four bytes at a time.
//
// With `seed` zero all operands are one, so that every sum is the number of products times their depth, which whoever starts
// a kernel compares; otherwise they are drawn, since what a product of zeros costs in power, and so in clock, is not what
// others cost. Drawn ones are no larger than one, but for integers.

namespace ceiling {

struct Bf16 {
    static __device__ unsigned one() { return 0x3f803f80u; }
    static __device__ unsigned drawn(unsigned bits) { return (bits & 0x807f807fu) | 0x3f003f00u; }
};
struct F16 {
    static __device__ unsigned one() { return 0x3c003c00u; }
    static __device__ unsigned drawn(unsigned bits) { return (bits & 0x83ff83ffu) | 0x38003800u; }
};
struct Tf32 {
    static __device__ unsigned one() { return 0x3f800000u; }
    static __device__ unsigned drawn(unsigned bits) { return (bits & 0x807fe000u) | 0x3f000000u; }
};
struct E4m3 {
    static __device__ unsigned one() { return 0x38383838u; }
    static __device__ unsigned drawn(unsigned bits) { return (bits & 0x87878787u) | 0x30303030u; }
};
struct S8 {
    static __device__ unsigned one() { return 0x01010101u; }
    static __device__ unsigned drawn(unsigned bits) { return bits; }
};

template <typename One, typename Other>
constexpr bool same = false;
template <typename One>
constexpr bool same<One, One> = true;

__device__ unsigned hash(unsigned number) {
    number = (number ^ (number >> 16)) * 0x7feb352du;
    number = (number ^ (number >> 15)) * 0x846ca68bu;
    return number ^ (number >> 16);
}

template <typename Kind>
__device__ unsigned operand(unsigned place, int seed) {
    return seed == 0 ? Kind::one() : Kind::drawn(hash(place + 0x9e3779b9u * static_cast<unsigned>(seed)));
}

}  // namespace ceiling
