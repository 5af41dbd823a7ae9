#ifndef STOWAGE_TRAIN_CHOOSE_LOSS_SCALING_H_
#define STOWAGE_TRAIN_CHOOSE_LOSS_SCALING_H_

// The loss scaling that is meant by a word, or by the element type where nothing is said:
// f16 needs it, for the least of its numbers is larger than many gradients.
//
//   ChooseLossScaling("", DType::kF16);      // LossScaling{}, which moves
//   ChooseLossScaling("1024", DType::kF32);  // one that stays

#include <optional>
#include <string_view>

#include "autodiff/loss_scaling.h"
#include "base/result.h"
#include "ir/dtype.h"

namespace stowage {

/// "dynamic", "none", a number, or, where `text` is empty, dynamic for f16 and none for
/// the other types. Error kInvalidArgument: anything else, a number that no loss scale is.
Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype);

}  // namespace stowage

#endif  // STOWAGE_TRAIN_CHOOSE_LOSS_SCALING_H_
