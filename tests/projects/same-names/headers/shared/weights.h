// Only headers lie in this folder.
#pragma once

template <int Base>
constexpr int weight(int factor) {
    return Base * factor;
}
