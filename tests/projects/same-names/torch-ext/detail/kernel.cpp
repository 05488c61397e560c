#include "config.h"

int binding_base() {
    return kBase;
}
