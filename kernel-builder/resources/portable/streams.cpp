// libstdc++ 13 initialises std::cout and its siblings inside the library, and <iostream> only asks for it by naming this
// function. An older library waits for an object in every user, which is here. Priority: before the user's own objects.
#include <ios>

namespace std {
__attribute__((visibility("hidden"))) void ios_base_library_init() {}
} // namespace std

namespace {
__attribute__((init_priority(101))) std::ios_base::Init streams;
} // namespace
