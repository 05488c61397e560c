#include "config.h"

#include "shared/weights.h"

namespace exact {

int deeper() {
    return weight<kBase>(2);
}

} // namespace exact
