#include "state.h"

#include <stdexcept>

int64_t exported_variable = 1000;

int64_t exported_function() {
    // An exception of a type that both define has to find its own handler.
    try {
        throw std::runtime_error("left");
    } catch (const std::runtime_error& error) {
        return std::string(error.what()) == "left" ? 0 : 1;
    }
}
