#ifndef STOWAGE_TRAIN_LORA_WEIGHTS_H_
#define STOWAGE_TRAIN_LORA_WEIGHTS_H_

// Reads the matrices A and B of LoRA adapters (nn/lora.h) as floats, and computes the initial
// values of DoRA and PiSSA adapters, which FineTuning::LoadBase sets.
//
//   STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
//                            ReadLoraMatrices(tuning, training.step(), param));
//   lora.AddTo(/*row=*/0, LoraFactor(rules), numbers);   // W + factor B A
//
// With DoRA, the initial magnitude of an output is the norm of its weights, so an adapted layer
// initially computes the same as the original layer.
//
// With PiSSA (Meng et al. 2024), the initial adapter consists of the principal singular vectors of
// the weights, which are subtracted from the base:
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
  int64_t rank = 0;              // 0 means no adapter
  bool rows_are_outputs = true;  // whether rows of the weight are outputs
  std::vector<float> down, up;   // A (rank, in), B (out, rank)

  /// Adds row `row` of `factor` B A, or of its transpose if the rows of W are inputs, to `numbers`.
  /// `numbers` must have the size of a row of W. Requires `rank > 0`.
  void AddTo(int64_t row, double factor, std::span<float> numbers) const;
};

/// Returns the adapter for `param`, a param of the tuning's base, or rank 0 if `param` has no
/// adapter. The adapter is relative to the weight in the base's file. During training with PiSSA, B
/// A is relative to the residual W - factor B0 A0. The result is therefore the adapter of twice the
/// rank that PEFT also uses for PiSSA: B A - B0 A0 = (B | -B0) (A / A0), where A / A0 has the rows
/// of A above the rows of A0. Requires that the tuning has adapters. Propagates errors of
/// Runner::ReadPart and PissaStarts::Of.
Result<LoraMatrices> ReadLoraMatrices(const FineTuning& tuning,
                                      const Runner& runner,
                                      const PretrainedParam& param);

/// Computes DoRA's magnitudes and squared norms from the weights of `runner`, and writes them to
/// `runner`. `adapted` must be a graph from WithLora or WithQuantizedParams that has the params of
/// `runner`. Reads the weights once, a few hundred kilobytes at a time, and sums in double
/// precision. Returns kInvalidArgument if all weights of an output are zero, since they have no
/// direction. Propagates errors of Runner::ReadPart and WritePart.
Status StartDora(const Graph& adapted, Runner& runner);

/// Checks that every adapter can be initialized by PiSSA. `adapted` must be a graph from WithLora
/// for a model of `base`. Returns kUnsupported if the weight of an adapted layer is quantized in
/// the base's file, since its format cannot represent the residual. Returns kInvalidArgument if 2 *
/// `rank`, which is the rank of the saved adapter, exceeds a dimension of the weight. Errors name
/// the weight.
Status CheckPissa(const PretrainedModel& base, const Graph& adapted,
                  int64_t rank);

/// Computes the initial matrices of PiSSA.
class PissaStarts {
 public:
  /// Creates an object for adapters with these rules and params of type `dtype`.
  PissaStarts(const LoraRules& rules, DType dtype)
      : rules_(rules), dtype_(dtype) {}

  /// Returns the initial adapter for `param`, rounded to the type of the adapter's params. The
  /// first call for a param reads it from the file of `base` and computes its singular vectors
  /// (cpu/singular_vectors.h). The results for all params are cached in f32. The pointer is valid
  /// for the lifetime of this object. Returns kIo if reading fails, and kInvalidArgument if a
  /// weight is not finite.
  Result<const LoraMatrices*> Of(const PretrainedModel& base,
                                 const PretrainedParam& param);

 private:
  const LoraRules rules_;
  const DType dtype_;
  std::map<std::string, LoraMatrices, std::less<>> starts_;  // by param
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_LORA_WEIGHTS_H_
