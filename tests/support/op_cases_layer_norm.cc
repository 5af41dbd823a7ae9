// Rows of layer_norm, its gradient, and the sums of parts that it may leave for later.

#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

Out Forward(GraphBuilder& g, In in) {
  Out results = g.Emit(OpKind::kLayerNorm, in, {{"eps", 1e-5}});
  results.resize(3);  // y, mean, rstd
  return results;
}

// The operands of a gradient, of which `in` has x, gamma, beta, dy and maybe a residual.
Out GradOperands(GraphBuilder& g, In in) {
  const Out forward = Forward(g, in.first(3));
  Out operands = {in[0], in[1], forward[1], forward[2]};
  operands.insert(operands.end(), in.begin() + 3, in.end());
  return operands;
}

}  // namespace

void AddLayerNorm(OpCaseTable& t) {
  const auto leaves = [&](const Shape& x) {
    return std::vector{t.Real("x", x, -2, 3),
                       t.Real("gamma", {x.back()}, 0.5, 2),
                       t.Real("beta", {x.back()})};
  };
  t.Add(OpKind::kLayerNorm, "", leaves({4, 7}), Forward);
  t.Add(OpKind::kLayerNorm, " of sequences", leaves({2, 3, 5}), Forward);
  t.Add(OpKind::kLayerNorm, " of rows of 16", leaves({3, 16}), Forward);
  for (const OpKind op : {OpKind::kLayerNormGrad, OpKind::kLayerNormGradAdd}) {
    const bool adds = op == OpKind::kLayerNormGradAdd;
    const auto operands = [&](const Shape& x) {
      std::vector<LeafSpec> specs = leaves(x);
      specs.push_back(t.Real("dy", x));
      if (adds) specs.push_back(t.Real("residual", x));
      return specs;
    };
    const auto grads = [=](GraphBuilder& g, In in) {
      Out results = g.Emit(op, GradOperands(g, in), {});
      results.resize(3);  // dx, dgamma, dbeta
      return results;
    };
    t.Add(op, "", operands({4, 7}), grads);
    t.Add(op, " of rows of 16", operands({3, 16}), grads);
    // Which rows a part has is the kernel's to say: their sums are looked at.
    const int64_t parts = adds ? 4 : 3;
    t.Add(op, StrCat(" in ", parts, " parts"), operands({4, 7}),
          [=, dtype = t.real()](GraphBuilder& g, In in) {
            const Out partials =
                g.Emit(op, GradOperands(g, in), {{"parts", parts}});
            const Out sums =
                g.Emit(OpKind::kSumPartials, In(partials).subspan(1, 2),
                       {{"dtype", dtype}});
            return Out{partials[0], sums[0], sums[1]};
          });
  }
}

void AddPartialSums(OpCaseTable& t) {
  const auto build = [dtype = t.real()](GraphBuilder& g, In in) {
    Out sums = g.Emit(OpKind::kSumPartials, in, {{"dtype", dtype}});
    sums.resize(in.size());
    return sums;
  };
  t.Add(OpKind::kSumPartials, "", {t.Statistic("p", {7, 5})}, build);
  t.Add(OpKind::kSumPartials, " of three",
        {t.Statistic("p", {19, 33}), t.Statistic("q", {1, 300}),
         t.Statistic("r", {4, 1})},
        build);
}

}  // namespace stowage::testing
