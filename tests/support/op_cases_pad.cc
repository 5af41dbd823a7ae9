// Rows of the op test table for pad and its gradient.

#include <cstdint>
#include <string>

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddPad(OpCaseTable& t) {
  struct PadCase {
    const char* variant;
    Shape x, y;
    Axes before, after;
  };
  const PadCase cases[] = {
      {" of a row", {5}, {10}, {2}, {3}},
      {" of images", {2, 3, 4, 5}, {2, 3, 7, 7}, {0, 0, 1, 2}, {0, 0, 2, 0}},
      {" of all axes", {2, 3, 4}, {4, 4, 9}, {1, 0, 3}, {1, 1, 2}},
      {" of rows alone", {4, 3}, {7, 3}, {3, 0}, {0, 0}},
  };
  const char* const names[] = {"", ", reflected", ", of the edge"};
  for (const PadCase& p : cases) {
    for (const int64_t mode : {0, 1, 2}) {
      const std::string variant = std::string(p.variant) + names[mode];
      t.Add(OpKind::kPad, variant, {t.Real("x", p.x)},
            [p, mode](GraphBuilder&, In in) {
              return Out{Pad(in[0], p.before, p.after,
                             static_cast<PadMode>(mode), mode == 0 ? 1.5 : 0)};
            });
      if (mode == 0) continue;
      t.Add(OpKind::kPadGrad, variant, {t.Real("dy", p.y)},
            [p, mode](GraphBuilder&, In in) {
              return Out{Apply(
                  OpKind::kPadGrad, {in[0]},
                  {{"before", p.before}, {"after", p.after}, {"mode", mode}})};
            });
    }
  }
  t.Add(OpKind::kPad, " of a view", {t.Real("x", {3, 4})},
        [](GraphBuilder&, In in) {
          return Out{Pad(Transpose(in[0]), {1, 0}, {0, 1}, PadMode::kReflect)};
        });
  t.Add(OpKind::kPad, " of one element, of the edge", {t.Real("x", {1, 1})},
        [](GraphBuilder&, In in) {
          return Out{Pad(in[0], {2, 1}, {1, 2}, PadMode::kEdge)};
        });
}

}  // namespace stowage::testing
