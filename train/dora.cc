#include "train/dora.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/gguf.h"
#include "ir/op_kind.h"
#include "ir/weight_type.h"
#include "nn/lora.h"
#include "runtime/values.h"

namespace stowage {
namespace {

// A matrix of an adapted layer, as the runner has it.
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

// Numbers of whole rows as they lie.
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

// Of each output the sum of its weights' squares.
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
  // The root of what the step has, not of the sum: m / |w| is 1 at first.
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

}  // namespace stowage
