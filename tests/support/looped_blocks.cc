#include "tests/support/looped_blocks.h"

#include <functional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"

namespace stowage::testing {
namespace {

// h + ... tanh(tanh(h W0) W1) ..., the first of `weights` in `layers` layers.
Value Block(GraphBuilder& g, Value h, const std::vector<Value>& weights,
            int layers) {
  Value a = h;
  for (int i = 0; i < layers; ++i) {
    a = g.Name(StrCat("a", i),
               Tanh(MatMul(a, weights[static_cast<size_t>(i)])));
  }
  return Add(h, MatMul(a, weights.back()));
}

// The block with so many layers, or, in another body, with one less.
Value BlockInBranch(GraphBuilder& g, Value h, const std::vector<Value>& weights,
                    int layers) {
  std::vector<Value> operands = {h};
  operands.insert(operands.end(), weights.begin(), weights.end());
  std::vector<std::function<std::vector<Value>(CondBody&)>> bodies;
  for (const int of_body : {layers - 1, layers}) {
    bodies.push_back([&weights, of_body](CondBody& body) {
      std::vector<Value> inside;
      for (size_t i = 0; i < weights.size(); ++i) {
        inside.push_back(body.operand(1 + i));
      }
      return std::vector{
          Block(body.builder(), body.operand(0), inside, of_body)};
    });
  }
  const Value low = Fill(g, -1e9, DType::kF32, {});
  return Cond(g, Greater(ReduceMean(h, {0, 1}), low), operands, bodies)[0];
}

}  // namespace

Graph MakeLoopedBlocks(const LoopedBlocks& options) {
  GraphBuilder g("blocks");
  const Value h = g.Input("h", DType::kF32, {options.rows, options.width});
  const bool in_loop = options.in != BlocksIn::kBranch;
  std::vector<Value> weights;
  for (int i = 0; i <= options.layers; ++i) {
    const int64_t rows = i == 0 ? options.width : options.inner;
    const int64_t columns = i == options.layers ? options.width : options.inner;
    const Shape shape =
        in_loop ? Shape{options.blocks, rows, columns} : Shape{rows, columns};
    weights.push_back(
        g.Param(StrCat("w", i), DType::kF32, shape, Init::Normal(0.2)));
  }
  Value y;
  if (in_loop) {
    const auto block = options.in == BlocksIn::kLoop ? Block : BlockInBranch;
    const LoopResults run =
        Loop(g, options.blocks, {.carried = {h}, .sliced = weights},
             [&](LoopBody& body) {
               std::vector<Value> inside;
               for (size_t i = 0; i < weights.size(); ++i) {
                 inside.push_back(body.sliced(i));
               }
               body.Next(0, block(body.builder(), body.carried(0), inside,
                                  options.layers));
             });
    y = run.carried[0];
  } else {
    y = BlockInBranch(g, h, weights, options.layers);
  }
  g.Output("loss", g.Name("loss", ReduceMean(g.Name("a5", Mul(y, y)), {0, 1})));
  Result<Graph> forward = g.Finish();
  STOWAGE_CHECK(forward.ok());
  return *std::move(forward);
}

}  // namespace stowage::testing
