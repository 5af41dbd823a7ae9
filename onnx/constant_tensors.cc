#include "onnx/constant_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/array.h"
#include "formats/numbers.h"
#include "onnx/import.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

constexpr double kNever = -10'000;   // added to a score, what keeps a key away
constexpr double kTolerance = 1e-3;  // of sines that were computed in f32

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// A name of an exporter's own making, for a number that stands in the model's code: of
// torch's two exporters, and of tf2onnx, whose variables are read by an op of that name.
bool IsNumbered(std::string_view name) {
  if (name.find("/Constant") != std::string_view::npos) return true;
  if (name.ends_with(":0")) {
    return name.find("ReadVariableOp") == std::string_view::npos;
  }
  std::string_view stem = name;
  while (!stem.empty() && IsDigit(stem.back())) stem.remove_suffix(1);
  if (stem.empty()) return true;
  if (stem.size() == name.size() || !stem.ends_with('_')) return false;
  while (stem.ends_with('_')) stem.remove_suffix(1);
  while (stem.starts_with('_')) stem.remove_prefix(1);
  static constexpr std::array<std::string_view, 16> kStems = {"val",
                                                              "const",
                                                              "constant",
                                                              "scalar_tensor",
                                                              "onnx::Mul",
                                                              "onnx::Div",
                                                              "onnx::Add",
                                                              "onnx::Sub",
                                                              "onnx::Pow",
                                                              "onnx::Max",
                                                              "onnx::Min",
                                                              "onnx::Clip",
                                                              "lift_fresh_copy",
                                                              "onnx::Where",
                                                              "onnx::Sqrt",
                                                              "const_fold_opt"};
  return std::ranges::find(kStems, stem) != kStems.end();
}

bool IsMask(const std::vector<double>& numbers) {
  bool has_never = false;
  for (const double each : numbers) {
    if (each == 0) continue;
    if (!(each <= kNever)) return false;
    has_never = true;
  }
  return has_never;
}

// Row and column of a matrix, or of each of several.
template <typename F>
bool AllOfMatrices(const Shape& shape, const std::vector<double>& numbers,
                   F&& holds) {
  const int64_t columns = shape.back();
  const int64_t rows = shape[shape.rank() - 2];
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (!holds(at / columns % rows, at % columns, numbers[i])) return false;
  }
  return true;
}

bool IsLowerTriangle(const Shape& shape, const std::vector<double>& numbers) {
  return shape[shape.rank() - 2] > 1 && shape.back() > 1 &&
         AllOfMatrices(shape, numbers,
                       [](int64_t row, int64_t column, double x) {
                         return x == (column <= row ? 1 : 0);
                       });
}

// Row t is the sine or cosine of t times the angles of row 1, which are at most 1.
template <typename F, typename Inverse>
bool IsWaves(const Shape& shape, const std::vector<double>& numbers, F&& wave,
             Inverse&& inverse) {
  const auto columns = static_cast<size_t>(shape.back());
  if (shape[shape.rank() - 2] < 3) return false;
  bool is_any = false;
  for (size_t i = 0; i < columns; ++i) {
    const double of_one = numbers[columns + i];
    if (!(std::abs(of_one) <= 1)) return false;
    const double angle = inverse(of_one);
    if (!(angle >= 0 && angle <= 1 + kTolerance)) return false;
    is_any = is_any || angle > 0.5;
  }
  return is_any &&
         AllOfMatrices(
             shape, numbers, [&](int64_t row, int64_t column, double x) {
               const double angle =
                   inverse(numbers[columns + static_cast<size_t>(column)]);
               const double position = static_cast<double>(row);
               return std::abs(x - wave(position * angle)) <=
                      kTolerance * std::max(1.0, position);
             });
}

// The first number of a tensor within the file; absent of others.
std::optional<double> FirstNumber(const pb::TensorProto& tensor,
                                  const TensorType& type) {
  pb::TensorProto first;
  first.set_data_type(tensor.data_type());
  first.add_dims(1);
  const auto size = static_cast<size_t>(SizeOf(type.dtype));
  if (tensor.raw_data().size() >= size) {
    first.set_raw_data(tensor.raw_data().substr(0, size));
  } else if (tensor.float_data().size() >= sizeof(float)) {
    first.set_float_data(tensor.float_data().substr(0, sizeof(float)));
  } else if (tensor.double_data().size() >= sizeof(double)) {
    first.set_double_data(tensor.double_data().substr(0, sizeof(double)));
  } else {
    return {};
  }
  const Result<Array> array = ReadTensor(first, "");
  if (!array.ok()) return {};
  return RealsOf(*array).front();
}

// Whether that can be the first number of a mask, a triangle or waves, so that weights are
// not looked through.
bool MayBeginTable(double first) {
  return first == 0 || first == 1 || first <= kNever;
}

std::string KindOf(const std::string& name, const TensorType& type,
                   const pb::TensorProto& tensor, const std::string& path) {
  const Shape& shape = type.shape;
  if (shape.num_elements() == 1) {
    return IsNumbered(name) ? "a number of the model's code" : "";
  }
  if (name.ends_with("inv_freq")) return "frequencies of rotary embeddings";
  if (shape.rank() < 2) return {};
  const std::optional<double> first = FirstNumber(tensor, type);
  if (first && !MayBeginTable(*first)) return {};
  const Result<Array> array = ReadTensor(tensor, path);
  if (!array.ok()) return {};
  const std::vector<double> numbers = RealsOf(*array);
  if (!MayBeginTable(numbers.front())) return {};
  if (IsMask(numbers) || IsLowerTriangle(shape, numbers)) return "a mask";
  if (IsWaves(
          shape, numbers, [](double x) { return std::cos(x); },
          [](double x) { return std::acos(x); }) ||
      IsWaves(
          shape, numbers, [](double x) { return std::sin(x); },
          [](double x) { return std::asin(x); })) {
    return "sines or cosines of positions";
  }
  return {};
}

}  // namespace

std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path) {
  std::map<std::string, std::string> constants;
  for (const auto& [name, tensor] : TensorsOf(graph)) {
    const Result<TensorType> type = TypeOfTensor(*tensor);
    if (!type.ok() || !IsFloat(type->dtype) ||
        type->shape.num_elements() == 0) {
      continue;
    }
    std::string kind = KindOf(name, *type, *tensor, path);
    if (!kind.empty()) constants.emplace(name, std::move(kind));
  }
  return constants;
}

}  // namespace stowage::onnx
