// As <cstddef>, with the name in the global namespace, too.
#pragma once
#include <cstddef>
using cuda::std::size_t; using cuda::std::ptrdiff_t;
