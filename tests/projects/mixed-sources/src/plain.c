#include "plain.h"

#include <stdlib.h>

#ifdef __cplusplus
#error "a .c file is C"
#endif

struct pair {
    long class, new;
};

/* The sum of 0 to count - 1, in C that no C++ compiler takes. */
long plain_sum(long count) {
    long *restrict numbers = malloc((size_t)count * sizeof *numbers);
    struct pair pair = {.new = 0, .class = 0};
    if (!numbers)
        return -1;
    for (long i = 0; i < count; ++i) {
        numbers[i] = i;
        pair.class += numbers[i];
    }
    free(numbers);
    return pair.class;
}
