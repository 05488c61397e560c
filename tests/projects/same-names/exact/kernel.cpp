#include "config.h"

#include <shared/weights.h>

namespace exact {

int deeper();

int kernel() {
    return weight<kBase>(1) + deeper();
}

} // namespace exact
