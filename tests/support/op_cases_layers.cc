// Rows of the op test table: normalizations, glu and lstm, with their gradients.

#include <string>
#include <vector>

#include "base/strings.h"
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

// --- layer_norm, and the partial sums that its gradient may leave to a later node -----

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

// --- rms_norm -------------------------------------------------------------------------

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

// --- local_response_norm --------------------------------------------------------------

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

// --- glu ------------------------------------------------------------------------------

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

// --- lstm -----------------------------------------------------------------------------

namespace {

std::vector<LeafSpec> LstmLeaves(const OpCaseTable& t, const Shape& gates) {
  const int64_t hidden = gates[2] / 4;
  return {t.Real("gates", gates, -2, 2), t.Real("h0", {gates[0], hidden}),
          t.Real("c0", {gates[0], hidden}, -2, 2),
          t.Real("w", {gates[2], hidden})};
}

// h and c first: they are what is differentiable.
Out HAndC(In in, bool reverse) {
  const Out results =
      ApplyAll(OpKind::kLstm, in, {{"reverse", int64_t{reverse}}});
  return {results[1], results[2], results[0]};
}

}  // namespace

void AddLstm(OpCaseTable& t) {
  for (const bool reverse : {false, true}) {
    const std::string way = reverse ? " reversed" : "";
    for (const Shape& gates :
         {Shape{2, 3, 20}, Shape{3, 1, 4}, Shape{1, 4, 76}}) {
      const int64_t hidden = gates[2] / 4;
      t.Add(OpKind::kLstm, StrCat(" of ", hidden, way), LstmLeaves(t, gates),
            [=](GraphBuilder&, In in) { return HAndC(in, reverse); })
          .differentiable = 2;
      for (const bool has_dc : {false, true}) {
        const Shape sequence = {gates[0], gates[1], hidden};
        std::vector<LeafSpec> leaves = LstmLeaves(t, gates);
        leaves[0] = t.Real("gates", gates, 0.1, 0.9);
        leaves[1] = t.Real("c", sequence, -2, 2);
        leaves.push_back(t.Real("dh", sequence));
        if (has_dc) leaves.push_back(t.Real("dc", sequence));
        t.Add(OpKind::kLstmGrad,
              StrCat(has_dc ? " with dc" : "", " of ", hidden, way), leaves,
              [=](GraphBuilder&, In in) {
                const LstmGrads grads =
                    LstmGrad(in[0], in[2], in[3], in[1], in[4],
                             has_dc ? in[5] : Value(), reverse);
                return Out{grads.dgates, grads.dh0, grads.dc0};
              });
      }
      t.Add(OpKind::kLstmWeightGrad, StrCat(" of ", hidden, way),
            {t.Real("dgates", gates), t.Real("h0", {gates[0], hidden}),
             t.Real("h", {gates[0], gates[1], hidden})},
            [=](GraphBuilder&, In in) {
              return Out{LstmWeightGrad(in[0], in[1], in[2], reverse)};
            });
    }
  }
  // Sequences that lie by positions, as ONNX's, and part of a wider one.
  const auto by_positions = [](Value x) { return Permute(x, {1, 0, 2}); };
  std::vector<LeafSpec> leaves = LstmLeaves(t, {2, 3, 12});
  leaves[0] = t.Real("gates", {3, 2, 24}, -2, 2);
  t.Add(OpKind::kLstm, " of views", leaves, [=](GraphBuilder&, In in) {
     return HAndC(
         std::vector{by_positions(Slice(in[0], 2, 5, 17)), in[1], in[2], in[3]},
         /*reverse=*/false);
   }).differentiable = 2;
  t.Add(OpKind::kLstmGrad, " of views",
        {t.Real("gates", {2, 3, 12}, 0.1, 0.9), t.Real("c", {2, 3, 3}, -2, 2),
         t.Real("c0", {2, 3}, -2, 2), t.Real("w", {12, 3}),
         t.Real("dh", {3, 2, 5}), t.Real("dc", {3, 2, 3})},
        [=](GraphBuilder&, In in) {
          const LstmGrads grads = LstmGrad(
              in[0], in[2], in[3], in[1], by_positions(Slice(in[4], 2, 1, 4)),
              by_positions(in[5]), /*reverse=*/false);
          return Out{grads.dgates, grads.dh0, grads.dc0};
        });
}

}  // namespace stowage::testing
