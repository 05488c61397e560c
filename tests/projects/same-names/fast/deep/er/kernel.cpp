#include "config.h"

#include "shared/weights.h"

namespace fast {

int deeper() {
    return weight<kBase>(2);
}

} // namespace fast
