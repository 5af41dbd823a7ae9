#ifndef STOWAGE_TRAIN_LORA_WEIGHTS_H_
#define STOWAGE_TRAIN_LORA_WEIGHTS_H_

// Provides the weights of adapters as numbers: LoRA's matrices A and B for a param of the base, and
// the initial values of DoRA and PiSSA, which FineTuning::LoadBase sets.
//
//   STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
//                            ReadLoraMatrices(tuning, training.step(), param));
//   lora.AddTo(/*row=*/0, LoraFactor(rules), numbers);   // W + factor B A
//
// With DoRA (nn/lora.h), the initial magnitudes are the norms of each output's weights, so an
// adapted layer initially computes the same as the original layer.
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
  bool rows_are_outputs = true;  // rows of the weight W
  std::vector<float> down, up;   // A (rank, in), B (out, rank)

  /// Adds factor B A to row `row` of the weight, which has numbers.size() columns. Requires an
  /// adapter.
  void AddTo(int64_t row, double factor, std::span<float> numbers) const;
};

/// Returns the adapter for `param`, a param of the tuning's base, relative to the weight in the
/// base's file. PiSSA's adapter is relative to a residual. As in PEFT, it is converted to an
/// adapter of twice the rank: (B A - B0 A0) = (B | -B0) (A / A0). Requires that the tuning has
/// adapters. Propagates errors of Runner::ReadPart and PissaStarts::Of.
Result<LoraMatrices> ReadLoraMatrices(const FineTuning& tuning,
                                      const Runner& runner,
                                      const PretrainedParam& param);

/// Sets DoRA's magnitudes and squared norms of `runner` according to its current weights. `adapted`
/// must be a graph of WithLora or WithQuantizedParams with the same params. Reads the weights once,
/// a few hundred kilobytes at a time, and sums in double precision. Returns kInvalidArgument if all
/// weights of an output are zero, since they have no direction. Propagates errors of
/// Runner::ReadPart and WritePart.
Status StartDora(const Graph& adapted, Runner& runner);

/// Checks that every adapter can be initialized by PiSSA. `adapted` must be a graph of WithLora.
/// Errors name the weight. Returns kUnsupported if it is quantized, since it cannot represent the
/// residual. Returns kInvalidArgument if twice the rank, which is the rank of the saved adapter,
/// exceeds a dimension.
Status CheckPissa(const PretrainedModel& base, const Graph& adapted,
                  int64_t rank);

/// Computes the initial matrices of PiSSA.
class PissaStarts {
 public:
  /// Creates an object for adapters with these rules, whose params have type `dtype`.
  PissaStarts(const LoraRules& rules, DType dtype)
      : rules_(rules), dtype_(dtype) {}

  /// Returns the initial adapter for `param`, rounded to the type of its params. The first call for
  /// a param reads the param and computes its singular vectors (cpu/singular_vectors.h). Results
  /// are cached, and use the memory of the adapters in f32. Returns kIo if reading fails, and
  /// kInvalidArgument if a weight is not finite.
  Result<const LoraMatrices*> Of(const PretrainedModel& base,
                                 const PretrainedParam& param);

 private:
  const LoraRules rules_;
  const DType dtype_;
  std::map<std::string, LoraMatrices, std::less<>> starts_;  // by param
};

}  // namespace stowage

#endif  // STOWAGE_TRAIN_LORA_WEIGHTS_H_
