#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "filters/border.h"
#include "tests/components.h"

namespace vf::test {

// Lets plans be made on Backend::reference.
void use_reference_backend();

// Returns the index in [0, n) that `border` shows at i, or -1 where it shows no pixel (constant,
// shrink).
int reference_border_index(int i, int n, Border border);

// Stores a component. Integers are rounded to the nearest multiple of 1 << shift and clamped to the
// type.
inline void write(const Image& image, int plane, int x, int y, int channel, double value) {
  with_type(image.layout.type, [&](auto v) {
    using T = decltype(v);
    if constexpr (std::numeric_limits<T>::is_integer) {
      const double unit = 1 << image.layout.shift;
      const double low = std::numeric_limits<T>::min();
      const double high = std::floor(std::numeric_limits<T>::max() / unit) * unit;
      v = T(std::fmin(high, std::fmax(low, std::floor(value / unit + 0.5) * unit)));
    } else {
      v = T(value);
    }
    std::memcpy(component(image, plane, x, y, channel), &v, sizeof v);
  });
}

}  // namespace vf::test
