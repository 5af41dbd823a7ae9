#include "train/pissa.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/singular_vectors.h"
#include "formats/gguf.h"
#include "ir/weight_type.h"
#include "math/small_floats.h"
#include "nn/gpt.h"
#include "runtime/values.h"

namespace stowage {
namespace {

bool IsFloatType(WeightType type) { return FormatOf(type).numbers == 1; }

// As a param of that type holds it.
float Rounded(double number, DType dtype) {
  const auto narrow = static_cast<float>(number);
  switch (dtype) {
    case DType::kF16:
      return math::HalfToFloat(math::FloatToHalf(narrow));
    case DType::kBF16:
      return math::BFloat16ToFloat(math::FloatToBFloat16(narrow));
    default:
      return narrow;
  }
}

// Vectors with a share of their singular values. `from` has those of the side that rows
// (rank first) or columns (rank last) are of.
LoraMatrices Start(const SingularVectors& vectors, bool rows_are_outputs,
                   double factor, DType dtype) {
  const size_t rank = vectors.values.size();
  const size_t rows = vectors.left.size() / rank;
  const size_t columns = vectors.right.size() / rank;
  LoraMatrices start = {
      .rank = static_cast<int64_t>(rank),
      .rows_are_outputs = rows_are_outputs,
      .down = std::vector<float>(rank * (rows_are_outputs ? columns : rows)),
      .up = std::vector<float>(rank * (rows_are_outputs ? rows : columns))};
  for (size_t k = 0; k < rank; ++k) {
    // A negative factor turns one of the vectors round.
    const double root = std::sqrt(vectors.values[k] / std::abs(factor));
    const double of_up = std::copysign(root, factor);
    for (size_t row = 0; row < rows; ++row) {
      const double number = vectors.left[row * rank + k];
      if (rows_are_outputs) {
        start.up[row * rank + k] = Rounded(of_up * number, dtype);
      } else {
        start.down[k * rows + row] = Rounded(root * number, dtype);
      }
    }
    for (size_t column = 0; column < columns; ++column) {
      const double number = vectors.right[k * columns + column];
      if (rows_are_outputs) {
        start.down[k * columns + column] = Rounded(root * number, dtype);
      } else {
        start.up[column * rank + k] = Rounded(of_up * number, dtype);
      }
    }
  }
  return start;
}

}  // namespace

Status CheckPissa(const PretrainedModel& base, const Graph& adapted,
                  int64_t rank) {
  for (const PretrainedParam& param : base.params()) {
    if (!adapted.Find(LoraParamsOf(param.name).down)) continue;
    const int64_t most = std::min(param.shape[0], param.shape[1]) / 2;
    if (rank > most) {
      return InvalidArgumentError(
          "[pissa] rank ", rank, " beside ", Quoted(param.name), " ",
          param.shape.ToString(),
          " is saved as twice that, more than the weight has; expected 1 to ",
          most);
    }
    const WeightTensor& tensor = base.tensor(param);
    if (IsFloatType(tensor.type)) continue;
    return base.file().Fail(
        StrCat("has ", Quoted(tensor.name), " in ", FormatOf(tensor.type).name,
               ", and PiSSA takes an adapter's part out of the weight, what is "
               "left of which these blocks cannot hold; expected f32, f16 or "
               "bf16, or --lora-init uniform"),
        ErrorCode::kUnsupported);
  }
  return {};
}

Result<const LoraMatrices*> PissaStarts::Of(const PretrainedModel& base,
                                            const PretrainedParam& param) {
  if (const auto known = starts_.find(param.name); known != starts_.end()) {
    return &known->second;
  }
  std::vector<float> numbers(static_cast<size_t>(param.shape.num_elements()));
  STOWAGE_RETURN_IF_ERROR(base.ReadFloats(param, 0, numbers));
  const auto bytes = std::as_bytes(std::span(numbers));
  if (const auto index = FindNonFinite(DType::kF32, bytes)) {
    return base.file().Fail(StrCat(
        "has ", FloatText(DType::kF32, bytes, *index), " at element ", *index,
        " of ", Quoted(base.tensor(param).name), "; weights must be finite"));
  }
  const bool rows_are_outputs =
      !std::holds_alternative<GptConfig>(base.model().config);
  LoraMatrices start =
      Start(PrincipalSingularVectors(numbers, param.shape[0], param.shape[1],
                                     rules_.rank),
            rows_are_outputs, LoraFactor(rules_), dtype_);
  return &starts_.emplace(param.name, std::move(start)).first->second;
}

}  // namespace stowage
