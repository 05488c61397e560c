// Scalar loops that accumulate in double. Must pass.
#include "rms_norm.h"

#include <cmath>
#include <cstring>

namespace {

using RowsFunction = void (*)(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row,
                              int64_t hidden, int64_t out_row_stride, int64_t input_row_stride, float eps);

#define KERNEL_ISA baseline
#define KERNEL_TARGET
#define KERNEL_LANES 4
#define KERNEL_CONVERTS_FLOAT16 0
#include "rows.h"

template <typename Type>
float load_one(const void* base, int64_t index) {
    return baseline::load_tail<Type>(static_cast<const typename Type::Storage*>(base) + index, 1).part[0][0];
}

template <typename Type>
void store_one(void* base, int64_t index, float value) {
    typename Type::Storage storage[Type::kElements];
    baseline::Block<Type::kParts> block = {};
    block.part[0][0] = value;
    Type::store(storage, block);
    static_cast<typename Type::Storage*>(base)[index] = storage[0];
}

template <typename Type>
void rows(void* out, const void* input, const void* weight, int64_t first_row, int64_t last_row, int64_t hidden,
          int64_t out_row_stride, int64_t input_row_stride, float eps) {
    for (int64_t row = first_row; row < last_row; ++row) {
        const int64_t from = row * input_row_stride;
        const int64_t to = row * out_row_stride;
        double sum = 0.0;
        for (int64_t i = 0; i < hidden; ++i) {
            const double x = load_one<Type>(input, from + i);
            sum += x * x;
        }
        const double scale = 1.0 / std::sqrt(sum / static_cast<double>(hidden) + static_cast<double>(eps));
        for (int64_t i = 0; i < hidden; ++i) {
            const double product = load_one<Type>(input, from + i) * scale * load_one<Type>(weight, i);
            store_one<Type>(out, to + i, static_cast<float>(product));
        }
    }
}

} // namespace

extern "C" void rms_norm_cpu_rows(void* out, const void* input, const void* weight, int64_t first_row,
                                  int64_t last_row, int64_t hidden, int64_t out_row_stride, int64_t input_row_stride,
                                  float eps, RmsNormDtype dtype) {
    switch (dtype) {
    case RmsNormDtype::kFloat32:
        return rows<baseline::Float32>(out, input, weight, first_row, last_row, hidden, out_row_stride,
                                       input_row_stride, eps);
    case RmsNormDtype::kFloat16:
        return rows<baseline::Float16>(out, input, weight, first_row, last_row, hidden, out_row_stride,
                                       input_row_stride, eps);
    case RmsNormDtype::kBFloat16:
        return rows<baseline::BFloat16>(out, input, weight, first_row, last_row, hidden, out_row_stride,
                                        input_row_stride, eps);
    }
}
