#if !defined(FOR_THE_HOST) || defined(FOR_HOPPER) || defined(FOR_THE_BINDING)
#error "not the flags of this section's C++"
#endif

int host() {
    return 1;
}
