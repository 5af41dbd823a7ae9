// Rows of rms_norm and its gradient.

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddRmsNorm(OpCaseTable& t) {
  const auto build = [](GraphBuilder&, In in) {
    return ApplyAll(OpKind::kRmsNorm, in, {{"eps", 1e-3}});  // y, rstd
  };
  const auto leaves = [&](const Shape& x) {
    return std::vector{t.Real("x", x, -2, 3),
                       t.Real("gamma", {x.back()}, 0.5, 2)};
  };
  t.Add(OpKind::kRmsNorm, "", leaves({4, 7}), build);
  t.Add(OpKind::kRmsNorm, " of sequences", leaves({2, 3, 5}), build);
  t.Add(OpKind::kRmsNorm, " of rows of 16", leaves({3, 16}), build);
  t.Add(OpKind::kRmsNorm, " of a vector", leaves({19}), build);
  for (const Shape& x : {Shape{4, 7}, Shape{2, 3, 16}}) {
    std::vector<LeafSpec> with_dy = leaves(x);
    with_dy.push_back(t.Real("dy", x));
    t.Add(OpKind::kRmsNormGrad, x.rank() == 3 ? " of sequences" : "", with_dy,
          [=](GraphBuilder& g, In in) {
            const Out forward = build(g, in.first(2));
            const RmsNormGrads grads =
                RmsNormGrad(in[0], in[1], forward[1], in[2]);
            return Out{grads.dx, grads.dgamma};
          });
    // Which rows a part has is the kernel's to say: their sums are looked at.
    t.Add(OpKind::kRmsNormGrad,
          x.rank() == 3 ? " of sequences, in parts" : " in parts", with_dy,
          [=, dtype = t.real()](GraphBuilder& g, In in) {
            const Out forward = build(g, in.first(2));
            const Out grads = g.Emit(OpKind::kRmsNormGrad,
                                     Out{in[0], in[1], forward[1], in[2]},
                                     {{"parts", int64_t{3}}});
            return Out{grads[0], g.Emit(OpKind::kSumPartials, Out{grads[1]},
                                        {{"dtype", dtype}})[0]};
          });
  }
}

}  // namespace stowage::testing
