#if defined(FOR_THE_BINDING) || !defined(ANSWER) || !defined(__FAST_MATH__)
#error "not the flags of this section"
#endif

#include <string_view>

static_assert(std::string_view(TEXT) == "two words");

int flagged() {
    return ANSWER;
}
