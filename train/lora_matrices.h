#ifndef STOWAGE_TRAIN_LORA_MATRICES_H_
#define STOWAGE_TRAIN_LORA_MATRICES_H_

// The two matrices of an adapter as numbers, for what merges or saves them.
//
//   STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices lora,
//                            ReadLoraMatrices(tuning, training.step(), param));
//   lora.AddTo(/*row=*/0, LoraFactor(rules), numbers);   // W + factor B A

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "nn/pretrained.h"
#include "runtime/session.h"

namespace stowage {

class FineTuning;  // train/fine_tuning.h

struct LoraMatrices {
  int64_t rank = 0;              // 0: there is no adapter
  bool rows_are_outputs = true;  // of the weight beside it
  std::vector<float> down, up;   // A (rank, in), B (out, rank)

  /// Adds factor B A to row `row` of the weight, which has numbers.size() columns.
  void AddTo(int64_t row, double factor, std::span<float> numbers) const;
};

/// The adapter beside `param`, one of the tuning's base, as it counts beside the weight of
/// the file. PiSSA's, which stands beside a residual, becomes one of twice the rank, as PEFT
/// converts it: (B A - B0 A0) = (B | -B0) (A / A0), where B0 and A0 are what it began with.
/// Precondition: the tuning has adapters. Errors: those of reading the adapter's params and
/// PissaStarts::Of's.
Result<LoraMatrices> ReadLoraMatrices(const FineTuning& tuning,
                                      const Runner& runner,
                                      const PretrainedParam& param);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_LORA_MATRICES_H_
