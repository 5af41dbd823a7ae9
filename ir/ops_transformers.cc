// The functions of ir/ops.h that transformers of Llama's kind are made of: those of
// the families `rms_norm`, `rope` and `glu`.

#include <cstdint>
#include <vector>

#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {

Value RmsNorm(Value x, Value gamma, double eps, SourceLoc loc) {
  return Apply(OpKind::kRmsNorm, {x, gamma}, {{"eps", eps}}, loc);
}

RmsNormGrads RmsNormGrad(Value x, Value gamma, Value rstd, Value dy,
                         SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kRmsNormGrad, std::vector{x, gamma, rstd, dy}, {}, loc);
  return {results[0], results[1]};
}

Value Rope(Value x, Value positions, const RopeOptions& options,
           SourceLoc loc) {
  // Of another rank there is no D; the op says what it wants.
  const int64_t all = x.ok() && x.rank() == 4 ? x.dim(3) : 0;
  const Attrs attrs = {{"base", options.base},
                       {"dims", options.dims == 0 ? all : options.dims},
                       {"interleaved", int64_t{options.interleaved}},
                       {"inverse", int64_t{options.inverse}}};
  if (positions.builder() == nullptr) {
    return Apply(OpKind::kRope, {x}, attrs, loc);
  }
  return Apply(OpKind::kRope, {x, positions}, attrs, loc);
}

Value Glu(Value gate, Value up, GluActivation activation, SourceLoc loc) {
  return Apply(OpKind::kGlu, {gate, up},
               {{"activation", static_cast<int64_t>(activation)}}, loc);
}

Value SwiGlu(Value gate, Value up, SourceLoc loc) {
  return Glu(gate, up, GluActivation::kSilu, loc);
}

Value GeGlu(Value gate, Value up, SourceLoc loc) {
  return Glu(gate, up, GluActivation::kGeluTanh, loc);
}

GluGrads GluGrad(Value gate, Value up, Value dy, GluActivation activation,
                 SourceLoc loc) {
  const std::vector<Value> results =
      ApplyAll(OpKind::kGluGrad, std::vector{gate, up, dy},
               {{"activation", static_cast<int64_t>(activation)}}, loc);
  return {results[0], results[1]};
}

}  // namespace stowage
