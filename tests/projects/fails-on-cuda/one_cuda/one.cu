__global__ void fill(int* out) {
    *out = undeclared_on_purpose;
}

int one() {
    return 1;
}
