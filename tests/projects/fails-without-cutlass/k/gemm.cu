#include <cutlass/version.h>

int cutlass_version() {
    return CUTLASS_MAJOR * 100 + CUTLASS_MINOR;
}
