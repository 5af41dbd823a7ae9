// The definition of rope: pairs of elements as complex numbers, times e^(i angle).

#include <cmath>
#include <complex>
#include <cstdint>

#include "tests/support/interpret_call.h"

namespace stowage::interpret {

void Rope(Call& c) {
  const Array& x = c.input(0);
  const int64_t dims = c.Int("dims");
  const int64_t apart = c.Int("interleaved") != 0 ? 1 : dims / 2;
  c.out[0].data = x.data;
  for (int64_t i = 0; i < x.size(); ++i) {
    const Dims at = Coordinates(x.shape, i);
    if (at[3] >= dims / 2) continue;  // the number of a pair from here on
    auto position = static_cast<double>(at[1]);
    if (c.in.size() == 2) {
      const Array& positions = c.input(1);
      position =
          positions[positions.shape.rank() == 1 ? at[1]
                                                : at[0] * x.shape[1] + at[1]];
    }
    double angle =
        position / std::pow(c.Float("base"), 2.0 * static_cast<double>(at[3]) /
                                                 static_cast<double>(dims));
    if (c.Int("inverse") != 0) angle = -angle;
    const int64_t head = i - at[3];
    const int64_t first = head + (apart == 1 ? 2 * at[3] : at[3]);
    const std::complex<double> turned =
        std::complex<double>(x[first], x[first + apart]) *
        std::polar(1.0, angle);
    c.out[0][first] = turned.real();
    c.out[0][first + apart] = turned.imag();
  }
}

}  // namespace stowage::interpret
