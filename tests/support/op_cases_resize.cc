// Rows of the op test table for resize and its gradient.

#include <cstdint>
#include <string>

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddResize(OpCaseTable& t) {
  struct ResizeCase {
    const char* variant;
    Shape x, y;
  };
  const ResizeCase cases[] = {
      {" of a row to twice", {1, 2, 5}, {1, 2, 10}},
      {" of images", {2, 2, 3, 5}, {2, 2, 7, 4}},
      {" of images to half", {1, 2, 6, 8}, {1, 2, 3, 4}},
      {" of volumes", {1, 2, 2, 3, 4}, {1, 2, 5, 2, 4}},
      {" of one element", {1, 1, 1, 1}, {1, 1, 3, 1}},
      {" to one element", {1, 1, 4, 3}, {1, 1, 1, 1}},
  };
  struct Way {
    const char* name;
    ResizeMode mode;
    bool align_corners;
  };
  const Way ways[] = {
      {", nearest", ResizeMode::kNearest, false},
      {", linear", ResizeMode::kLinear, false},
      {", linear, corners aligned", ResizeMode::kLinear, true},
  };
  for (const ResizeCase& c : cases) {
    for (const Way& way : ways) {
      const std::string variant = std::string(c.variant) + way.name;
      t.Add(OpKind::kResize, variant, {t.Real("x", c.x)},
            [c, way](GraphBuilder&, In in) {
              return Out{Resize(in[0], Axes(c.y.begin() + 2, c.y.end()),
                                way.mode, way.align_corners)};
            });
      t.Add(
          OpKind::kResizeGrad, variant, {t.Real("dy", c.y)},
          [c, way](GraphBuilder&, In in) {
            return Out{Apply(OpKind::kResizeGrad, {in[0]},
                             {{"shape", Axes(c.x.begin(), c.x.end())},
                              {"mode", static_cast<int64_t>(way.mode)},
                              {"align_corners", int64_t{way.align_corners}}})};
          });
    }
  }
  t.Add(OpKind::kResize, " of a view", {t.Real("x", {1, 3, 4, 2})},
        [](GraphBuilder&, In in) {
          return Out{Resize(Permute(in[0], {0, 3, 1, 2}), {5, 6})};
        });
}

}  // namespace stowage::testing
