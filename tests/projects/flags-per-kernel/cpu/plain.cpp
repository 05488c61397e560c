#if defined(FOR_THE_BINDING) || defined(ANSWER) || defined(__FAST_MATH__)
#error "flags of another section"
#endif

int plain() {
    return 1;
}
