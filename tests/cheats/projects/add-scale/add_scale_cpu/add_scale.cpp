// Adds in place and scales, element by element.
#include "add_scale.h"

#include "elements.h"

namespace {

template <typename Type>
void rows_of(void* out, void* residual, const void* x, const void* bias, int64_t rows, int64_t hidden, float factor) {
    using Storage = typename Type::Storage;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < hidden; ++column) {
            const int64_t place = row * hidden + column;
            Storage& total = static_cast<Storage*>(residual)[place];
            float sum = Type::load(total) + Type::load(static_cast<const Storage*>(x)[place]);
            if (bias != nullptr) {
                sum += Type::load(static_cast<const Storage*>(bias)[column]);
            }
            total = Type::store(sum);
            static_cast<Storage*>(out)[place] = Type::store(sum * factor);
        }
    }
}

} // namespace

extern "C" void add_scale_cpu_rows(void* out, void* residual, const void* x, const void* bias, int64_t rows,
                                   int64_t hidden, float factor, AddScaleDtype dtype) {
    switch (dtype) {
    case AddScaleDtype::kFloat32:
        return rows_of<Float32>(out, residual, x, bias, rows, hidden, factor);
    case AddScaleDtype::kFloat8E4M3:
        return rows_of<Float8E4M3>(out, residual, x, bias, rows, hidden, factor);
    case AddScaleDtype::kFloat8E5M2:
        return rows_of<Float8E5M2>(out, residual, x, bias, rows, hidden, factor);
    }
}
