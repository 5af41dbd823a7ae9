// Rows of lstm, its gradient and that of its weights.

#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
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
