// Mistakes of lstm, its gradient and that of its weights.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/shape.h"
#include "tests/ir/typed_inputs.h"

namespace stowage {
namespace {

struct Mistake {
  void (*build)(GraphBuilder& g);
  std::string message;
};

TEST_CASE("mistakes are told with the values found") {
  const std::vector<Mistake> mistakes = {
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 3, 18}), state, state,
                      F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is f32(2, 3, 18); expected (batch, time, 4 "
       "hidden)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 16}), state, state, F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is f32(2, 16); expected (batch, time, 4 hidden)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(g.Input("x", DType::kI32, {2, 3, 16}), state, state,
                      F32(g, "w", {16, 4}));
       },
       "[lstm] gates \"x\" is i32(2, 3, 16); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         LstmSequence(F32(g, "x", {2, 3, 16}), F32(g, "h0", {1, 4}),
                      F32(g, "c0", {2, 4}), F32(g, "w", {16, 4}));
       },
       "[lstm] h0 \"h0\" is f32(1, 4); expected f32(2, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         LstmSequence(F32(g, "x", {2, 3, 16}), F32(g, "h0", {2, 4}),
                      F32(g, "c0", {2, 3}), F32(g, "w", {16, 4}));
       },
       "[lstm] c0 \"c0\" is f32(2, 3); expected f32(2, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         LstmSequence(F32(g, "x", {2, 3, 16}), state, state,
                      F32(g, "w", {4, 16}));
       },
       "[lstm] w \"w\" is f32(4, 16); expected f32(16, 4), since gates \"x\" "
       "is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         const Value sequence = F32(g, "c", {2, 3, 4});
         LstmGrad(F32(g, "x", {2, 3, 16}), state, F32(g, "w", {16, 4}),
                  sequence, sequence, F32(g, "dc", {2, 4, 3}), false);
       },
       "[lstm_grad] dc \"dc\" is f32(2, 4, 3); expected f32(2, 3, 4), since "
       "gates \"x\" is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         Apply(OpKind::kLstmGrad,
               {F32(g, "x", {2, 3, 16}), state, F32(g, "w", {16, 4}),
                F32(g, "c", {2, 3, 4})},
               {{"reverse", int64_t{0}}});
       },
       "[lstm_grad] takes 5 operands, or 6 with dc; got 4"},
      {[](GraphBuilder& g) {
         LstmWeightGrad(F32(g, "x", {2, 3, 16}), F32(g, "h0", {2, 4}),
                        F32(g, "h", {2, 4, 4}), false);
       },
       "[lstm_weight_grad] h \"h\" is f32(2, 4, 4); expected f32(2, 3, 4), "
       "since dgates \"x\" is f32(2, 3, 16)"},
      {[](GraphBuilder& g) {
         const Value state = F32(g, "s", {2, 4});
         Apply(OpKind::kLstmWeightGrad,
               {F32(g, "x", {2, 3, 16}), state, F32(g, "h", {2, 3, 4})},
               {{"reverse", int64_t{2}}});
       },
       "[lstm_weight_grad] attribute \"reverse\" is 2; expected 0 or 1"},
  };
  for (const Mistake& mistake : mistakes) {
    GraphBuilder g("mistakes");
    mistake.build(g);
    const Result<Graph> graph = g.Finish();
    const std::string message = graph.ok() ? "none" : graph.error().message;
    CHECK(message.substr(0, message.find(" (at ")) == mistake.message);
  }
}

}  // namespace
}  // namespace stowage
