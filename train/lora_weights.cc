#include "train/lora_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "cpu/singular_vectors.h"
#include "formats/gguf.h"
#include "ir/op_kind.h"
#include "ir/weight_type.h"
#include "math/small_floats.h"
#include "nn/gpt.h"
#include "nn/lora.h"
#include "runtime/values.h"
#include "train/fine_tuning.h"

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

// Concatenates (B | -B0), and A over A0.
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

namespace {

// A matrix of an adapted layer in the runner's format.
struct LayerWeight {
  ValueInfo info;
  WeightType type = WeightType::kF32;
  bool rows_are_outputs = true;
};

WeightType TypeOfFloats(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return WeightType::kF16;
    case DType::kBF16:
      return WeightType::kBF16;
    default:
      return WeightType::kF32;  // or f64, which has no such type
  }
}

// Reads the numbers of whole rows.
void ToFloats(const LayerWeight& weight, std::span<const std::byte> bytes,
              std::span<float> to) {
  if (weight.info.type.dtype != DType::kF64) {
    Dequantize(weight.type, bytes, to);
    return;
  }
  for (size_t i = 0; i < to.size(); ++i) {
    double number = 0;
    std::memcpy(&number, bytes.data() + i * sizeof(number), sizeof(number));
    to[i] = static_cast<float>(number);
  }
}

// For each output, the sum of its weights' squares.
Result<std::vector<double>> SquaredNorms(const LayerWeight& weight,
                                         const Runner& runner) {
  constexpr Bytes kWindow = 256 * 1024;
  const TensorType& type = weight.info.type;
  const int64_t rows = type.shape[0];
  const Bytes row_bytes = type.bytes() / rows;
  const int64_t columns = type.dtype == DType::kU8
                              ? *NumbersOf(weight.type, row_bytes)
                              : type.shape[1];
  const int64_t rows_at_once =
      std::clamp(kWindow / row_bytes, int64_t{1}, rows);
  std::vector<std::byte> bytes(static_cast<size_t>(rows_at_once * row_bytes));
  std::vector<float> numbers(static_cast<size_t>(rows_at_once * columns));
  std::vector<double> sums(
      static_cast<size_t>(weight.rows_are_outputs ? rows : columns));
  for (int64_t first = 0; first < rows; first += rows_at_once) {
    const int64_t count = std::min(rows_at_once, rows - first);
    const auto part =
        std::span(bytes).first(static_cast<size_t>(count * row_bytes));
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadPart(weight.info.name, type.dtype, first * row_bytes, part));
    ToFloats(weight, part,
             std::span(numbers).first(static_cast<size_t>(count * columns)));
    for (int64_t i = 0; i < count * columns; ++i) {
      const int64_t output =
          weight.rows_are_outputs ? first + i / columns : i % columns;
      const double number = double{numbers[static_cast<size_t>(i)]};
      sums[static_cast<size_t>(output)] += number * number;
    }
  }
  return sums;
}

Status StartLayer(const LayerWeight& weight, const LoraParams& params,
                  Runner& runner) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<double> sums,
                           SquaredNorms(weight, runner));
  if (const auto zero = std::ranges::find(sums, 0.0); zero != sums.end()) {
    return InvalidArgumentError(
        "[dora] the weights of output ", zero - sums.begin(), " of ",
        Quoted(weight.info.name),
        " are all zero, which have no direction; leave the layer out of the "
        "targets");
  }
  std::vector<float> squares(sums.begin(), sums.end());
  // The root of the rounded squared norm, so that m / |w| is 1 initially.
  std::vector<float> roots(squares.size());
  std::ranges::transform(squares, roots.begin(),
                         [](float square) { return std::sqrt(square); });
  STOWAGE_RETURN_IF_ERROR(WriteFloats(runner, params.squared_norm, 0, squares));
  return WriteFloats(runner, params.magnitude, 0, roots);
}

}  // namespace

Status StartDora(const Graph& adapted, Runner& runner) {
  std::set<std::string> started;
  for (const Node& node : adapted.nodes()) {
    const bool in_blocks = node.op == OpKind::kQuantizedMatMul;
    if (node.op != OpKind::kMatMul && !in_blocks) continue;
    const ValueInfo& info = adapted.value(node.inputs[1]);
    const LoraParams params = LoraParamsOf(info.name);
    if (!adapted.Find(params.squared_norm)) continue;
    if (!started.insert(info.name).second) continue;
    const LayerWeight weight = {
        .info = info,
        .type = in_blocks ? static_cast<WeightType>(node.attrs.Int("blocks"))
                          : TypeOfFloats(info.type.dtype),
        .rows_are_outputs =
            node.attrs.Int(in_blocks ? "transpose_w" : "transpose_b") == 1};
    STOWAGE_RETURN_IF_ERROR(StartLayer(weight, params, runner));
  }
  return {};
}

namespace {

bool IsFloatType(WeightType type) { return FormatOf(type).numbers == 1; }

// The number rounded to the type of a param.
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

// The initial matrices of PiSSA: singular vectors times the roots of their singular values over
// the factor.
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
    // A negative factor changes the sign of one vector.
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
