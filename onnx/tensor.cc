#include "onnx/tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/strings.h"
#include "formats/array.h"
#include "onnx/import.h"

namespace stowage::onnx {

namespace {

using pb::TensorProto;

constexpr std::pair<DType, TensorProto::DataType> kElements[] = {
    {DType::kF32, TensorProto::FLOAT},   {DType::kF64, TensorProto::DOUBLE},
    {DType::kF16, TensorProto::FLOAT16}, {DType::kBF16, TensorProto::BFLOAT16},
    {DType::kI16, TensorProto::INT16},   {DType::kI32, TensorProto::INT32},
    {DType::kI64, TensorProto::INT64},   {DType::kU8, TensorProto::UINT8},
    {DType::kBool, TensorProto::BOOL},
};

Error WrongTensor(const TensorProto& tensor, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[onnx] tensor ", Quoted(tensor.name()), " ", what)};
}

// A packed list of integers as `size` bytes of T.
template <typename T>
std::string PackedAs(std::string_view list, Bytes size) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(size));
  while (const std::optional<uint64_t> number = TakeVarint(&list)) {
    const auto value = static_cast<T>(*number);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return bytes;
}

// The numbers of a tensor without raw bytes, from the list that ONNX specifies for its type.
std::string ListedBytes(const TensorProto& tensor, const TensorType& type) {
  switch (type.dtype) {
    case DType::kF32:
      return tensor.float_data();
    case DType::kF64:
      return tensor.double_data();
    case DType::kF16:
    case DType::kBF16:  // the bits of each, in an int32
    case DType::kI16:
      return PackedAs<uint16_t>(tensor.int32_data(), type.bytes());
    case DType::kI32:
      return PackedAs<int32_t>(tensor.int32_data(), type.bytes());
    case DType::kI64:
      return PackedAs<int64_t>(tensor.int64_data(), type.bytes());
    case DType::kU8:
    case DType::kBool:
      return PackedAs<uint8_t>(tensor.int32_data(), type.bytes());
  }
  return {};
}

// The length of a list of fixed-size numbers; absent if it ends within one.
template <typename T>
std::optional<int64_t> CountOf(std::string_view list) {
  if (list.size() % sizeof(T) != 0) return std::nullopt;
  return static_cast<int64_t>(list.size() / sizeof(T));
}

// Absent if a list ends within a number.
std::optional<int64_t> CountListed(const TensorProto& tensor, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CountOf<float>(tensor.float_data());
    case DType::kF64:
      return CountOf<double>(tensor.double_data());
    case DType::kI64:
      return CountVarints(tensor.int64_data());
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kI32:
    case DType::kU8:
    case DType::kBool:
      return CountVarints(tensor.int32_data());
  }
  return 0;
}

struct ExternalPlace {
  std::string location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

Result<ExternalPlace> PlaceOfTensor(const TensorProto& tensor) {
  ExternalPlace place;
  for (const pb::StringStringEntryProto& entry : tensor.external_data()) {
    const auto number = [&]() -> Result<uint64_t> {
      uint64_t value = 0;
      for (const char c : entry.value()) {
        if (c < '0' || c > '9' || value > (uint64_t{1} << 59)) {
          return WrongTensor(tensor, StrCat("has the ", entry.key(), " ",
                                            Quoted(entry.value()),
                                            "; expected a number of bytes"));
        }
        value = 10 * value + static_cast<uint64_t>(c - '0');
      }
      return value;
    };
    if (entry.key() == "location") {
      place.location = entry.value();
    } else if (entry.key() == "offset") {
      STOWAGE_ASSIGN_OR_RETURN(place.offset, number());
    } else if (entry.key() == "length") {
      STOWAGE_ASSIGN_OR_RETURN(place.length, number());
    }
  }
  return place;
}

// Returns whether `path` is in `folder`, both with links followed.
bool LiesWithin(const std::filesystem::path& path,
                const std::filesystem::path& folder) {
  std::error_code error;
  const auto whole = std::filesystem::weakly_canonical(path, error);
  if (error) return false;
  const auto within = std::filesystem::weakly_canonical(
      folder.empty() ? std::filesystem::path(".") : folder, error);
  if (error) return false;
  const auto relative = whole.lexically_relative(within);
  return !relative.empty() && *relative.begin() != "..";
}

// The folder of `model` with links followed. In Hugging Face's cache it differs from the
// link's folder, and external tensors are links into it.
std::filesystem::path FolderOfTarget(const std::string& model) {
  std::error_code error;
  return std::filesystem::weakly_canonical(model, error).parent_path();
}

// The external location of a tensor, valid except for the file itself.
Result<ExternalPlace> PlaceWithin(const TensorProto& tensor,
                                  const std::string& model, Bytes size) {
  STOWAGE_ASSIGN_OR_RETURN(ExternalPlace place, PlaceOfTensor(tensor));
  const std::filesystem::path relative(place.location);
  const auto folder = std::filesystem::path(model).parent_path();
  const auto path = folder / relative;
  if (relative.empty() || relative.is_absolute() ||
      *relative.lexically_normal().begin() == ".." ||
      !(LiesWithin(path, folder) || LiesWithin(path, FolderOfTarget(model)))) {
    return WrongTensor(tensor,
                       StrCat("lies in ", Quoted(place.location),
                              "; expected a file in the folder of the model"));
  }
  if (place.length && *place.length != static_cast<uint64_t>(size)) {
    return WrongTensor(
        tensor, StrCat("has ", *place.length, " bytes in ",
                       Quoted(place.location), "; its shape takes ", size));
  }
  // Also if it is not read, as when planning.
  STOWAGE_RETURN_IF_ERROR(NoteInput(path.string()));
  return place;
}

Result<std::string> ExternalBytes(const TensorProto& tensor,
                                  const std::string& model, Bytes size) {
  STOWAGE_ASSIGN_OR_RETURN(const ExternalPlace place,
                           PlaceWithin(tensor, model, size));
  const auto path = std::filesystem::path(model).parent_path() / place.location;
  const Result<InputFile> file = InputFile::Open(path.string(), "onnx");
  if (!file.ok()) {
    return Error{file.error().code,
                 StrCat(file.error().message, "; tensor ",
                        Quoted(tensor.name()), " lies there")};
  }
  const auto whole = static_cast<uint64_t>(file->size());
  if (place.offset > whole ||
      whole - place.offset < static_cast<uint64_t>(size)) {
    return WrongTensor(
        tensor, StrCat("takes ", size, " bytes from ", place.offset, " on of ",
                       Quoted(place.location), ", which has ", whole));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  STOWAGE_RETURN_IF_ERROR(
      file->ReadAt(static_cast<Bytes>(place.offset),
                   std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

}  // namespace

Result<DType> DTypeOfElement(int32_t data_type) {
  for (const auto& [dtype, element] : kElements) {
    if (element == data_type) return dtype;
  }
  const std::string name =
      TensorProto::DataType_IsValid(data_type)
          ? TensorProto::DataType_Name(
                static_cast<TensorProto::DataType>(data_type))
          : StrCat(data_type);
  return Error{ErrorCode::kUnsupported,
               StrCat("[onnx] elements of type ", name,
                      " are not supported; expected FLOAT, DOUBLE, FLOAT16, "
                      "BFLOAT16, INT16, INT32, INT64, UINT8 or BOOL")};
}

Result<TensorType> TypeOfTensor(const TensorProto& tensor) {
  STOWAGE_ASSIGN_OR_RETURN(const DType dtype,
                           DTypeOfElement(tensor.data_type()));
  if (tensor.dims_size() > kMaxRank) {
    return WrongTensor(
        tensor, StrCat("has ", tensor.dims_size(), " dimensions; at most ",
                       kMaxRank, " are supported"));
  }
  TensorType type{dtype, {}};
  Bytes bytes = SizeOf(dtype);
  for (const int64_t dim : tensor.dims()) {
    type.shape.push_back(dim);
    const auto product =
        dim < 0 ? std::optional<Bytes>() : CheckedMul(bytes, dim);
    if (!product) {
      return WrongTensor(tensor,
                         StrCat("has the dimension ", dim, " after ", bytes,
                                " bytes; sizes must be at least 0 and fit "
                                "63 bits"));
    }
    bytes = *product;
  }
  return type;
}

Status CheckTensor(const TensorProto& tensor, const std::string& model) {
  STOWAGE_ASSIGN_OR_RETURN(const TensorType type, TypeOfTensor(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    const Result<ExternalPlace> place =
        PlaceWithin(tensor, model, type.bytes());
    return place.ok() ? Status() : place.error();
  }
  auto held = static_cast<Bytes>(tensor.raw_data().size());
  if (!tensor.has_raw_data()) {
    const std::optional<int64_t> count = CountListed(tensor, type.dtype);
    if (!count)
      return WrongTensor(tensor, "has a list that ends within a number");
    held = *count * SizeOf(type.dtype);
  }
  if (held == type.bytes()) return {};
  return WrongTensor(tensor, StrCat("has ", held, " bytes of contents; ",
                                    type.ToString(), " takes ", type.bytes()));
}

std::optional<std::string> FileOfTensor(const TensorProto& tensor,
                                        const std::string& model) {
  if (tensor.data_location() != TensorProto::EXTERNAL) return std::nullopt;
  const Result<ExternalPlace> place = PlaceOfTensor(tensor);
  if (!place.ok()) return std::nullopt;
  return (std::filesystem::path(model).parent_path() / place->location)
      .string();
}

Result<Array> ReadTensor(const TensorProto& tensor, const std::string& model) {
  STOWAGE_RETURN_IF_ERROR(CheckTensor(tensor, model));
  Array array;
  STOWAGE_ASSIGN_OR_RETURN(array.type, TypeOfTensor(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    STOWAGE_ASSIGN_OR_RETURN(array.bytes,
                             ExternalBytes(tensor, model, array.type.bytes()));
  } else if (tensor.has_raw_data()) {
    array.bytes = tensor.raw_data();
  } else {
    array.bytes = ListedBytes(tensor, array.type);
  }
  return array;
}

void SetContents(std::string bytes, TensorProto* tensor) {
  tensor->clear_float_data();
  tensor->clear_double_data();
  tensor->clear_int32_data();
  tensor->clear_external_data();
  tensor->clear_data_location();
  tensor->set_raw_data(std::move(bytes));
}

DeclaredTypes::DeclaredTypes(const pb::GraphProto& graph) {
  for (const std::string& bytes : graph.value_info()) {
    pb::ValueInfoProto info;
    if (info.ParseFromString(bytes)) others_[info.name()] = &bytes;
  }
  for (const pb::ValueInfoProto& info : graph.output()) {
    outputs_[info.name()] = &info;
  }
}

std::optional<pb::TypeProto::Tensor> DeclaredTypes::Find(
    const std::string& name) const {
  pb::ValueInfoProto info;
  if (const auto output = outputs_.find(name); output != outputs_.end()) {
    info = *output->second;
  } else if (const auto other = others_.find(name); other != others_.end()) {
    info.ParseFromString(*other->second);
  }
  if (!info.type().has_tensor_type()) return std::nullopt;
  return info.type().tensor_type();
}

namespace {

constexpr double kNever = -10'000;   // added to a score, what keeps a key away
constexpr double kAway = -100;       // the same, in Swin's windows
constexpr double kTolerance = 1e-3;  // of sines that were computed in f32

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Returns whether an exporter generated the name for a constant in the model's code: torch's
// two exporters, or tf2onnx, which reads variables by an op of that name.
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
  // A number that onnxscript casts, such as the probability of a Bernoulli.
  if (stem.ends_with("_cast") && stem.find('.') == std::string_view::npos) {
    return true;
  }
  constexpr std::string_view kOverload = "_default";
  if (stem.ends_with(kOverload)) stem.remove_suffix(kOverload.size());
  // Named after the function that created them.
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

// Names by torch's exporter for values without a name in the module.
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

// The row and column of an element of a matrix, or of a batch of matrices.
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

// Returns whether each column is the sine or cosine (by row 0) of the row times an angle of at
// most 1 (by row 1).
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

// The first element of an internal tensor; absent for external ones.
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

// Returns whether it may be the first element of a mask, triangle or table, to avoid reading
// all weights.
bool MayBeginTable(double first) {
  return first == 0 || first == 1 || first <= kAway;
}

// The readers of the tensors of a graph.
class Readers {
 public:
  explicit Readers(const pb::GraphProto& graph) { Add(graph); }

  /// Returns whether only norms read it.
  bool IsOfNorms(const std::string& name) const {
    const auto [first, last] = readers_.equal_range(name);
    return first != last && std::all_of(first, last, [](const auto& reader) {
             return reader.second->op_type().ends_with("Normalization");
           });
  }

  /// Returns whether recurrent ops alone read it, as an initial state.
  bool IsOfInitialStates(const std::string& name) const {
    constexpr int kFirstState = 5;  // initial_h; initial_c is the next
    const auto [first, last] = readers_.equal_range(name);
    return first != last && std::all_of(first, last, [&](const auto& reader) {
             const pb::NodeProto& node = *reader.second;
             if (!Contains(kRecurrent, node.op_type())) return false;
             for (int i = 0; i < node.input_size(); ++i) {
               const bool is_state = i == kFirstState || i == kFirstState + 1;
               if (node.input(i) == name && !is_state) return false;
             }
             return true;
           });
  }

  /// Returns whether a node reads it as a weight or, with `of_gather`, gathers its rows.
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
  static constexpr std::array<std::string_view, 3> kRecurrent = {"LSTM", "GRU",
                                                                 "RNN"};
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
  // Returns the number that all elements are, if there is one.
  const auto one_number = [&]() -> std::optional<double> {
    const Result<Array> array = ReadTensor(tensor, path);
    if (!array.ok()) return {};
    const std::vector<double> numbers = RealsOf(*array);
    if (std::ranges::count(numbers, numbers.front()) != shape.num_elements()) {
      return {};
    }
    return numbers.front();
  };
  if (IsUnnamed(name) && readers.IsOfInitialStates(tensor.name())) {
    return one_number() == 0 ? "an initial state of zeros" : "";
  }
  if (shape.num_elements() == 1) {
    return shape.rank() <= 1 && IsNumbered(name) &&
                   !readers.IsWeight(tensor.name(), /*of_gather=*/true)
               ? "a number of the model's code"
               : "";
  }
  if (name.ends_with("inv_freq")) return "frequencies of rotary embeddings";
  if (shape.rank() == 1 && IsUnnamed(name) &&
      readers.IsOfNorms(tensor.name())) {
    const std::optional<double> number = one_number();
    return number == 0 || number == 1
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
