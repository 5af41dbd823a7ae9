#ifndef STOWAGE_TRAIN_PISSA_H_
#define STOWAGE_TRAIN_PISSA_H_

// PiSSA (Meng et al. 2024): adapters that begin with the principal singular vectors of the
// weights, and a base from which these are taken, so that the model begins as it is.
//
//   B0 = U sqrt(S / factor),  A0 = sqrt(S / factor) V^T,  of W = U S V^T + the rest
//   W becomes W - factor B0 A0
//
//   PissaStarts starts(rules, DType::kF32);
//   STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices* const start, starts.Of(base, param));
//
// FineTuning::LoadBase gives a model these weights and adapters. What is saved stands beside
// the original base (train/lora_matrices.h).

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/result.h"
#include "ir/tensor_type.h"
#include "nn/lora.h"
#include "nn/pretrained.h"
#include "train/lora_matrices.h"

namespace stowage {

/// Errors, naming the weight beside an adapter: kUnsupported for one that the file has in
/// blocks, which cannot hold what is left of it; kInvalidArgument where twice the rank, that
/// of the saved adapter, is above a side of it. `adapted` is WithLora's graph.
Status CheckPissa(const PretrainedModel& base, const Graph& adapted,
                  int64_t rank);

class PissaStarts {
 public:
  /// Adapters of these rules, whose params are of `dtype`.
  PissaStarts(const LoraRules& rules, DType dtype)
      : rules_(rules), dtype_(dtype) {}

  /// What the adapter beside `param` begins with, as its params hold it. The first call for a
  /// param reads it whole and takes its singular vectors (cpu/singular_vectors.h); they are
  /// kept, which takes memory of the adapters' size in f32. Errors: kIo; kInvalidArgument for
  /// a weight that is not finite.
  Result<const LoraMatrices*> Of(const PretrainedModel& base,
                                 const PretrainedParam& param);

 private:
  const LoraRules rules_;
  const DType dtype_;
  std::map<std::string, LoraMatrices, std::less<>> starts_;  // by param
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_PISSA_H_
