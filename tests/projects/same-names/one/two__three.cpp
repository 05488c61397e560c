int separators_a() {
    return 100;
}
