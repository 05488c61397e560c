int separators_b() {
    return 200;
}
