// Rows of rope.

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddRope(OpCaseTable& t) {
  const auto add = [&](const std::string& variant, const Shape& x,
                       const RopeOptions& options) {
    t.Add(OpKind::kRope, variant, {t.Real("x", x)}, [=](GraphBuilder&, In in) {
      return Out{Rope(in[0], Value(), options)};
    });
  };
  add("", {2, 5, 3, 8}, {});
  add(" of neighbours", {2, 5, 3, 8}, {.interleaved = true});
  add(" of a part", {2, 3, 2, 11}, {.base = 500, .dims = 6});
  add(" of neighbours in a part, back", {1, 4, 2, 7},
      {.dims = 4, .interleaved = true, .inverse = true});
  add(" of wide heads", {1, 3, 6, 64}, {.base = 5e5});
  add(" of a single pair", {3, 2, 1, 2}, {.inverse = true});
  t.Add(OpKind::kRope, " at positions",
        {t.Real("x", {2, 3, 2, 4}), t.Index("positions", {3}, 9000)},
        [](GraphBuilder&, In in) { return Out{Rope(in[0], in[1])}; });
  t.Add(OpKind::kRope, " at positions of each example",
        {t.Real("x", {2, 3, 2, 4}), t.Index("positions", {2, 3}, 9000)},
        [](GraphBuilder&, In in) {
          return Out{Rope(in[0], in[1], {.dims = 2, .interleaved = true})};
        });
  t.Add(OpKind::kRope, " of a packed qkv", {t.Real("qkv", {2, 7, 24})},
        [](GraphBuilder&, In in) {
          const std::vector<Value> parts = Split(in[0], 2, {8, 8, 8});
          return Out{Rope(Reshape(parts[1], {2, 7, 2, 4}))};
        });
}

}  // namespace stowage::testing
