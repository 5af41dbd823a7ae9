#include "onnx/constant_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/array.h"
#include "onnx/import.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

constexpr double kNever = -10'000;   // added to a score, what keeps a key away
constexpr double kAway = -100;       // the same, in Swin's windows
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
  const bool has_number = stem.size() != name.size() && stem.ends_with('_');
  if (!has_number && stem.size() != name.size()) return false;
  while (stem.ends_with('_')) stem.remove_suffix(1);
  while (stem.starts_with('_')) stem.remove_prefix(1);
  // Called as the function that has made them.
  static constexpr std::array<std::string_view, 9> kMade = {
      "zeros",     "ones",      "full",   "scalar_tensor",  "zeros_like",
      "ones_like", "full_like", "tensor", "lift_fresh_copy"};
  static constexpr std::array<std::string_view, 14> kNumbered = {
      "val",       "const",      "constant",    "const_fold_opt", "onnx::Mul",
      "onnx::Div", "onnx::Add",  "onnx::Sub",   "onnx::Pow",      "onnx::Max",
      "onnx::Min", "onnx::Clip", "onnx::Where", "onnx::Sqrt"};
  return std::ranges::find(kMade, stem) != kMade.end() ||
         (has_number && std::ranges::find(kNumbered, stem) != kNumbered.end());
}

// As torch's exporter calls what has no name in the module.
bool IsUnnamed(std::string_view name) {
  while (!name.empty() && IsDigit(name.back())) name.remove_suffix(1);
  return name == "val_" || name == "_val_";
}

bool IsMask(const std::vector<double>& numbers) {
  bool has_zero = false, is_one_number = true;
  double largest = -INFINITY, first = 0;
  for (const double each : numbers) {
    if (each == 0) {
      has_zero = true;
      continue;
    }
    if (!(each <= kAway)) return false;
    if (first == 0) first = each;
    is_one_number = is_one_number && each == first;
    largest = std::max(largest, each);
  }
  return first != 0 && (largest <= kNever || (has_zero && is_one_number));
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

// Each column is the sine or cosine of the row times an angle of at most 1, which row 1
// says; the first row, which of both.
bool IsWaves(const Shape& shape, const std::vector<double>& numbers) {
  const auto columns = static_cast<size_t>(shape.back());
  if (shape[shape.rank() - 2] < 3) return false;
  std::vector<double> angles(columns);
  for (size_t i = 0; i < columns; ++i) {
    const double of_none = numbers[i], of_one = numbers[columns + i];
    if ((of_none != 0 && of_none != 1) || !(std::abs(of_one) <= 1)) {
      return false;
    }
    angles[i] = of_none == 1 ? std::acos(of_one) : std::asin(of_one);
  }
  return std::ranges::all_of(angles,
                             [](double angle) {
                               return angle >= 0 && angle <= 1 + kTolerance;
                             }) &&
         std::ranges::any_of(angles,
                             [](double angle) { return angle > 0.5; }) &&
         AllOfMatrices(
             shape, numbers, [&](int64_t row, int64_t column, double x) {
               const auto i = static_cast<size_t>(column);
               const auto position = static_cast<double>(row);
               const double wave = numbers[i] == 1
                                       ? std::cos(position * angles[i])
                                       : std::sin(position * angles[i]);
               return std::abs(x - wave) <=
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
  return first == 0 || first == 1 || first <= kAway;
}

// How nodes read tensors of a graph.
class Readers {
 public:
  explicit Readers(const pb::GraphProto& graph) { Add(graph); }

  /// Whether norms read it, and nothing else.
  bool IsOfNorms(const std::string& name) const {
    const auto [first, last] = readers_.equal_range(name);
    return first != last && std::all_of(first, last, [](const auto& reader) {
             return reader.second->op_type().ends_with("Normalization");
           });
  }

  /// Whether a node has it as a weight, in whatever shape; `of_gather`: or looks rows up.
  bool IsWeight(const std::string& name, bool of_gather) const {
    std::vector<std::string> open = {name};
    std::set<std::string> seen;
    while (!open.empty()) {
      const std::string at = std::move(open.back());
      open.pop_back();
      if (!seen.insert(at).second) continue;
      const auto [first, last] = readers_.equal_range(at);
      for (auto reader = first; reader != last; ++reader) {
        const pb::NodeProto& node = *reader->second;
        const std::string& op = node.op_type();
        if (Contains(kPassing, op) && node.output_size() > 0) {
          open.push_back(node.output(0));
        }
        if (Contains(kWeighing, op)) return true;
        if (of_gather && op == "Gather" && node.input(0) == at) return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::array<std::string_view, 8> kPassing = {
      "Identity",  "Transpose", "Reshape", "Squeeze",
      "Unsqueeze", "Cast",      "Expand",  "Flatten"};
  static constexpr std::array<std::string_view, 12> kWeighing = {
      "MatMul",
      "Gemm",
      "Conv",
      "ConvTranspose",
      "PRelu",
      "BatchNormalization",
      "LayerNormalization",
      "InstanceNormalization",
      "GroupNormalization",
      "LSTM",
      "GRU",
      "RNN"};

  template <typename List>
  static bool Contains(const List& list, std::string_view op) {
    return std::ranges::find(list, op) != list.end();
  }

  void Add(const pb::GraphProto& graph) {
    for (const pb::NodeProto& node : graph.node()) {
      for (const std::string& name : node.input()) {
        readers_.emplace(name, &node);
      }
      for (const pb::AttributeProto& attribute : node.attribute()) {
        if (attribute.has_g()) Add(attribute.g());
      }
    }
  }

  std::multimap<std::string, const pb::NodeProto*> readers_;
};

std::string KindOf(const std::string& name, const TensorType& type,
                   const pb::TensorProto& tensor, const std::string& path,
                   const Readers& readers) {
  const Shape& shape = type.shape;
  if (shape.num_elements() == 1) {
    return shape.rank() <= 1 && IsNumbered(name) &&
                   !readers.IsWeight(tensor.name(), /*of_gather=*/true)
               ? "a number of the model's code"
               : "";
  }
  if (name.ends_with("inv_freq")) return "frequencies of rotary embeddings";
  if (shape.rank() == 1 && IsUnnamed(name) &&
      readers.IsOfNorms(tensor.name())) {
    const Result<Array> array = ReadTensor(tensor, path);
    if (!array.ok()) return {};
    const std::vector<double> numbers = RealsOf(*array);
    const double first = numbers.front();
    return (first == 0 || first == 1) &&
                   std::ranges::count(numbers, first) == shape.num_elements()
               ? "the scale or shift of a norm that has none"
               : "";
  }
  if (shape.rank() < 2) return {};
  const std::optional<double> first = FirstNumber(tensor, type);
  if (first && !MayBeginTable(*first)) return {};
  const Result<Array> array = ReadTensor(tensor, path);
  if (!array.ok()) return {};
  const std::vector<double> numbers = RealsOf(*array);
  if (!MayBeginTable(numbers.front())) return {};
  if ((IsMask(numbers) || IsLowerTriangle(shape, numbers)) &&
      !readers.IsWeight(tensor.name(), /*of_gather=*/true)) {
    return "a mask";
  }
  if (IsWaves(shape, numbers) &&
      !readers.IsWeight(tensor.name(), /*of_gather=*/false)) {
    return "sines or cosines of positions";
  }
  return {};
}

}  // namespace

std::map<std::string, std::string> ConstantTensors(const pb::GraphProto& graph,
                                                   const std::string& path) {
  const Readers readers(graph);
  std::map<std::string, std::string> constants;
  for (const auto& [name, tensor] : TensorsOf(graph)) {
    const Result<TensorType> type = TypeOfTensor(*tensor);
    if (!type.ok() || !IsFloat(type->dtype) ||
        type->shape.num_elements() == 0) {
      continue;
    }
    std::string kind = KindOf(name, *type, *tensor, path, readers);
    if (!kind.empty()) constants.emplace(name, std::move(kind));
  }
  return constants;
}

}  // namespace stowage::onnx
