int separators_c() {
    return 400;
}
