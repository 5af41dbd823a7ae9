// Rows of batch_norm and its gradient.

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddBatchNorm(OpCaseTable& t) {
  const auto build = [](GraphBuilder&, In in) {
    const BatchNormResults r = BatchNorm(in[0], in[1], in[2], 1e-3);
    return Out{r.y, r.mean, r.variance};
  };
  const auto leaves = [&](const Shape& x) {
    return std::vector{t.Real("x", x, -2, 3), t.Real("gamma", {x[1]}, 0.5, 2),
                       t.Real("beta", {x[1]})};
  };
  t.Add(OpKind::kBatchNorm, "", leaves({3, 4, 2, 5}), build);
  t.Add(OpKind::kBatchNorm, " of rows", leaves({7, 3}), build);
  t.Add(OpKind::kBatchNorm, " of one long example", leaves({1, 2, 700}), build);
  for (const Shape& x : {Shape{3, 4, 2, 5}, Shape{7, 3}}) {
    std::vector<LeafSpec> with_dy = leaves(x);
    with_dy.push_back(t.Real("dy", x));
    t.Add(OpKind::kBatchNormGrad, x.rank() == 2 ? " of rows" : "", with_dy,
          [=](GraphBuilder& g, In in) {
            const Out forward = build(g, in.first(3));
            const BatchNormGrads grads = BatchNormGrad(in[0], in[1], forward[1],
                                                       forward[2], in[3], 1e-3);
            return Out{grads.dx, grads.dgamma, grads.dbeta};
          });
  }
}

}  // namespace stowage::testing
