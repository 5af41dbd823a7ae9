// The functions of ir/ops.h whose matrix may lie in the blocks of its file: those of the
// families `quantized` and `linear_cross_entropy`.

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/weight_type.h"

namespace stowage {
namespace {

int64_t BlocksAttr(const std::optional<WeightType>& blocks) {
  return blocks ? static_cast<int64_t>(*blocks) : kNoBlocks;
}

}  // namespace

Value QuantizedMatMul(Value x, Value w, WeightType blocks, bool transpose_w,
                      SourceLoc loc) {
  return Apply(
      OpKind::kQuantizedMatMul, {x, w},
      {{"blocks", BlocksAttr(blocks)}, {"transpose_w", int64_t{transpose_w}}},
      loc);
}

Value QuantizedGather(Value table, Value indices, WeightType blocks,
                      SourceLoc loc) {
  return Apply(OpKind::kQuantizedGather, {table, indices},
               {{"blocks", BlocksAttr(blocks)}}, loc);
}

Value LinearCrossEntropy(Value x, Value w, Value labels, int64_t chunk,
                         const LinearCrossEntropyOptions& options,
                         SourceLoc loc) {
  std::vector<Value> operands = {x, w, labels};
  if (options.weights.builder() != nullptr) operands.push_back(options.weights);
  return ApplyAll(OpKind::kLinearCrossEntropy, operands,
                  {{"chunk", chunk}, {"blocks", BlocksAttr(options.blocks)}},
                  loc)[0];
}

LinearCrossEntropyGrads LinearCrossEntropyGrad(
    Value x, Value w, Value labels, Value dloss, int64_t chunk,
    const LinearCrossEntropyOptions& options, bool wants_dw, SourceLoc loc) {
  std::vector<Value> operands = {x, w, labels, dloss};
  if (options.weights.builder() != nullptr) operands.push_back(options.weights);
  std::vector<Value> results =
      ApplyAll(OpKind::kLinearCrossEntropyGrad, operands,
               {{"chunk", chunk},
                {"blocks", BlocksAttr(options.blocks)},
                {"weight_grad", int64_t{wants_dw}}},
               loc);
  results.resize(3);
  return {results[0], results[1], results[2]};
}

}  // namespace stowage
