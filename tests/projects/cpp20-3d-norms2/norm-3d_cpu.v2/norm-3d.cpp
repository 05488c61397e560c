#include "norm-3d.h"

#include <bit>
#include <compare>
#include <concepts>
#include <numbers>
#include <numeric>
#include <ranges>
#include <span>
#include <type_traits>

namespace {

template <typename T>
concept Number = std::floating_point<T> || std::integral<T>;

struct Point {
    float x, y, z;
    auto operator<=>(const Point&) const = default;
};

enum class Axis { x, y, z };

consteval int axes() {
    using enum Axis;
    return static_cast<int>(z) + 1;
}

template <Number T>
constexpr auto square = [](T value) { return value * value; };

constinit const Point kOrigin{.x = 0, .y = 0, .z = 0};

static_assert(std::bit_cast<uint32_t>(1.0f) == 0x3f800000u && std::has_single_bit(64u));
static_assert(std::numbers::pi > 3 && axes() == 3);

} // namespace

double norm_3d(const float* points, int64_t count) {
    const std::span all(reinterpret_cast<const Point*>(points), static_cast<size_t>(count));
    auto squares = all | std::views::filter([](const Point& point) { return point != kOrigin; }) |
                   std::views::transform([]<typename P>(const P& point) -> double {
                       return square<float>(point.x) + square<float>(point.y) + square<float>(point.z);
                   });
    double sum = 0;
    for (const double value : squares) [[likely]] {
        sum += value;
    }
    return sum;
}
