#ifndef STOWAGE_TRAIN_LORA_WEIGHTS_H_
#define STOWAGE_TRAIN_LORA_WEIGHTS_H_

// The weights of adapters as numbers: LoRA's matrices A and B beside a param of the base, and
// the initial values of DoRA and PiSSA, which FineTuning::LoadBase sets.
//
//   STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
//                            ReadLoraMatrices(tuning, training.step(), param));
//   lora.AddTo(/*row=*/0, LoraFactor(rules), numbers);   // W + factor B A
//
// DoRA (nn/lora.h) begins with magnitudes that are the norms of each output's weights, so
// that an adapted layer begins as the layer.
//
// PiSSA (Meng et al. 2024) begins with the principal singular vectors of the weights, and
// subtracts them from the base:
//
//   B0 = U sqrt(S / factor),  A0 = sqrt(S / factor) V^T,  of W = U S V^T + the rest
//   W becomes W - factor B0 A0

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/lora.h"
#include "nn/pretrained.h"
#include "runtime/session.h"

namespace stowage {

class FineTuning;  // train/fine_tuning.h

struct LoraMatrices {
  int64_t rank = 0;              // 0: no adapter
  bool rows_are_outputs = true;  // of the weight W
  std::vector<float> down, up;   // A (rank, in), B (out, rank)

  /// Adds factor B A to row `row` of the weight, which has numbers.size() columns.
  void AddTo(int64_t row, double factor, std::span<float> numbers) const;
};

/// The adapter beside `param`, one of the tuning's base, relative to the weight in the base's
/// file. PiSSA's, which is relative to a residual, is converted as by PEFT to one of twice the
/// rank: (B A - B0 A0) = (B | -B0) (A / A0). Errors: those of Runner::ReadPart and
/// PissaStarts::Of. Precondition: the tuning has adapters.
Result<LoraMatrices> ReadLoraMatrices(const FineTuning& tuning,
                                      const Runner& runner,
                                      const PretrainedParam& param);

/// Sets DoRA's magnitudes and squared norms of `runner` from the weights that it has.
/// `adapted` is a graph of WithLora or WithQuantizedParams with the same params. Reads the
/// weights once, a few hundred kilobytes at a time, and sums in double precision. Errors:
/// those of Runner::ReadPart and WritePart; kInvalidArgument for an output whose weights are
/// all zero, which has no direction.
Status StartDora(const Graph& adapted, Runner& runner);

/// Checks that every adapter can begin by PiSSA. `adapted` is WithLora's graph. Errors, with
/// the weight's name: kUnsupported for a quantized weight, which cannot hold the residual;
/// kInvalidArgument if twice the rank, that of the saved adapter, exceeds a dimension.
Status CheckPissa(const PretrainedModel& base, const Graph& adapted,
                  int64_t rank);

/// The initial matrices of PiSSA.
class PissaStarts {
 public:
  /// For adapters of these rules, whose params have type `dtype`.
  PissaStarts(const LoraRules& rules, DType dtype)
      : rules_(rules), dtype_(dtype) {}

  /// The initial adapter beside `param`, rounded to the type of its params. The first call for
  /// a param reads it and computes its singular vectors (cpu/singular_vectors.h); results are
  /// kept, in memory of the adapters' size in f32. Errors: kIo; kInvalidArgument for a weight
  /// that is not finite.
  Result<const LoraMatrices*> Of(const PretrainedModel& base,
                                 const PretrainedParam& param);

 private:
  const LoraRules rules_;
  const DType dtype_;
  std::map<std::string, LoraMatrices, std::less<>> starts_;  // by param
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_LORA_WEIGHTS_H_
