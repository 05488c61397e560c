#include "config.h"

#include <shared/weights.h>

namespace fast {

int deeper();

int kernel() {
    return weight<kBase>(1) + deeper();
}

} // namespace fast
