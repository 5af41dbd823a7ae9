// Rows of glu and its gradient.

#include "tests/support/op_case_table.h"

namespace stowage::testing {

void AddGlu(OpCaseTable& t) {
  const auto name = [](GluActivation activation) {
    switch (activation) {
      case GluActivation::kSilu:
        return " by silu";
      case GluActivation::kGeluTanh:
        return " by gelu_tanh";
      default:
        return " by gelu_erf";
    }
  };
  for (const GluActivation activation :
       {GluActivation::kSilu, GluActivation::kGeluTanh,
        GluActivation::kGeluErf}) {
    const auto glu = [=](GraphBuilder&, In in) {
      return Out{Glu(in[0], in[1], activation)};
    };
    const std::vector<LeafSpec> leaves = {t.Real("gate", {3, 11}, -3, 3),
                                          t.Real("up", {3, 11})};
    t.Add(OpKind::kGlu, name(activation), leaves, glu);
    std::vector<LeafSpec> with_dy = leaves;
    with_dy.push_back(t.Real("dy", {3, 11}));
    t.Add(OpKind::kGluGrad, name(activation), with_dy,
          [=](GraphBuilder&, In in) {
            const GluGrads grads = GluGrad(in[0], in[1], in[2], activation);
            return Out{grads.dgate, grads.dup};
          });
  }
  t.Add(OpKind::kGlu, " of both halves of one value",
        {t.Real("x", {2, 3, 10}, -3, 3)}, [](GraphBuilder&, In in) {
          const std::vector<Value> halves = Split(in[0], 2, {5, 5});
          return Out{SwiGlu(halves[0], halves[1])};
        });
  t.Add(OpKind::kGluGrad, " of one value thrice", {t.Real("x", {2, 9}, -3, 3)},
        [](GraphBuilder&, In in) {
          const Value x = Exp(in[0]);  // dies here
          const GluGrads grads = GluGrad(x, x, x, GluActivation::kSilu);
          return Out{grads.dgate, grads.dup};
        });
}

}  // namespace stowage::testing
