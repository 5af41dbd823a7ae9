// The functions of ir/ops.h that recurrent layers are made of: those of the family
// `lstm`.

#include <cstdint>
#include <vector>

#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

Attrs Direction(bool reverse) { return {{"reverse", int64_t{reverse}}}; }

}  // namespace

LstmSequenceResults LstmSequence(Value gates, Value h0, Value c0, Value w,
                                 bool reverse, SourceLoc loc) {
  const std::vector<Value> results = ApplyAll(
      OpKind::kLstm, std::vector{gates, h0, c0, w}, Direction(reverse), loc);
  return {results[1], results[2]};
}

LstmGrads LstmGrad(Value gates, Value c0, Value w, Value c, Value dh, Value dc,
                   bool reverse, SourceLoc loc) {
  std::vector<Value> operands = {gates, c0, w, c, dh};
  if (dc.builder() != nullptr) operands.push_back(dc);
  const std::vector<Value> results =
      ApplyAll(OpKind::kLstmGrad, operands, Direction(reverse), loc);
  return {results[0], results[1], results[2]};
}

Value LstmWeightGrad(Value dgates, Value h0, Value h, bool reverse,
                     SourceLoc loc) {
  return Apply(OpKind::kLstmWeightGrad, {dgates, h0, h}, Direction(reverse),
               loc);
}

}  // namespace stowage
