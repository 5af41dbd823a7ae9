#include "train/lora_matrices.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <variant>

#include "nn/gpt.h"
#include "nn/lora.h"
#include "runtime/values.h"
#include "train/fine_tuning.h"
#include "train/pissa.h"

namespace stowage {

void LoraMatrices::AddTo(int64_t row, double factor,
                         std::span<float> numbers) const {
  const int64_t inputs = std::ssize(down) / rank;
  for (int64_t column = 0; column < std::ssize(numbers); ++column) {
    const int64_t out = rows_are_outputs ? row : column;
    const int64_t in = rows_are_outputs ? column : row;
    double sum = 0;
    for (int64_t k = 0; k < rank; ++k) {
      sum += double{up[static_cast<size_t>(out * rank + k)]} *
             double{down[static_cast<size_t>(k * inputs + in)]};
    }
    float& number = numbers[static_cast<size_t>(column)];
    number = static_cast<float>(number + factor * sum);
  }
}

namespace {

// (B | -B0) and A over A0.
LoraMatrices Minus(const LoraMatrices& lora, const LoraMatrices& start) {
  LoraMatrices all = lora;
  all.rank = 2 * lora.rank;
  all.up.clear();
  all.down.insert(all.down.end(), start.down.begin(), start.down.end());
  const auto rank = static_cast<size_t>(lora.rank);
  for (size_t at = 0; at < lora.up.size(); at += rank) {
    all.up.insert(all.up.end(), lora.up.begin() + at,
                  lora.up.begin() + at + rank);
    std::transform(start.up.begin() + at, start.up.begin() + at + rank,
                   std::back_inserter(all.up), std::negate());
  }
  return all;
}

}  // namespace

Result<LoraMatrices> ReadLoraMatrices(const FineTuning& tuning,
                                      const Runner& runner,
                                      const PretrainedParam& param) {
  const LoraParams names = LoraParamsOf(param.name);
  LoraMatrices lora;
  if (!runner.graph().Find(names.down)) return lora;
  lora.rank = tuning.options().lora->rank;
  lora.rows_are_outputs =
      !std::holds_alternative<GptConfig>(tuning.base().model().config);
  STOWAGE_ASSIGN_OR_RETURN(lora.down, ReadFloats(runner, names.down));
  STOWAGE_ASSIGN_OR_RETURN(lora.up, ReadFloats(runner, names.up));
  if (tuning.pissa() == nullptr) return lora;
  STOWAGE_ASSIGN_OR_RETURN(const LoraMatrices* const start,
                           tuning.pissa()->Of(tuning.base(), param));
  return Minus(lora, *start);
}

}  // namespace stowage
