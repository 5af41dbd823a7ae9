// Rows of the op test table for local_response_norm and its gradient.

#include <vector>

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddLocalResponseNorm(OpCaseTable& t) {
  struct Case {
    const char* variant;
    Shape x;
    LocalResponse response;
  };
  const Case cases[] = {
      {" of images",
       {2, 7, 3, 5},
       {.size = 5, .alpha = 0.8, .beta = 0.75, .bias = 2}},
      {" of an even number",
       {1, 6, 9},
       {.size = 4, .alpha = 0.9, .beta = 0.5, .bias = 1}},
      {" of two",
       {2, 5, 3},
       {.size = 2, .alpha = 0.6, .beta = 1.25, .bias = 0.5}},
      {" of rows", {3, 5}, {.size = 3, .alpha = 1.5, .beta = 0.75, .bias = 1}},
      {" of each alone",
       {2, 3, 4},
       {.size = 1, .alpha = 0.5, .beta = 2, .bias = 1}},
      {" of all channels",
       {1, 3, 2, 2, 3},
       {.size = 9, .alpha = 3, .beta = 0.75, .bias = 1.5}},
  };
  for (const Case& c : cases) {
    t.Add(OpKind::kLocalResponseNorm, c.variant, {t.Real("x", c.x, -2, 3)},
          [c](GraphBuilder&, In in) {
            return Out{LocalResponseNorm(in[0], c.response)};
          });
    t.Add(OpKind::kLocalResponseNormGrad, c.variant,
          {t.Real("x", c.x, -2, 3), t.Real("dy", c.x)},
          [c](GraphBuilder&, In in) {
            return Out{Apply(OpKind::kLocalResponseNormGrad, {in[0], in[1]},
                             {{"size", c.response.size},
                              {"alpha", c.response.alpha},
                              {"beta", c.response.beta},
                              {"bias", c.response.bias}})};
          });
  }
  t.Add(OpKind::kLocalResponseNorm, " of a view", {t.Real("x", {1, 3, 4, 6})},
        [](GraphBuilder&, In in) {
          return Out{LocalResponseNorm(Permute(in[0], {0, 3, 1, 2}),
                                       {.size = 3, .alpha = 1})};
        });
}

}  // namespace stowage::testing
