#include "onnx/node.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "base/strings.h"
#include "ir/ops.h"
#include "math/small_floats.h"
#include "onnx/tensor.h"

namespace stowage::onnx {
namespace {

template <typename T>
T ElementAt(const Array& array, int64_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + static_cast<size_t>(i) * sizeof(T),
              sizeof(T));
  return value;
}

// As a To: a double, or an int64_t, which is the nearest to zero of those next to it,
// the outermost for what lies beyond, 0 for NaN.
template <typename To, typename From>
To Converted(From number) {
  if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    if (std::isnan(number)) return 0;
    if (number >= static_cast<From>(0x1p63)) {
      return std::numeric_limits<To>::max();
    }
    if (number < static_cast<From>(-0x1p63)) {
      return std::numeric_limits<To>::min();
    }
  }
  return static_cast<To>(number);
}

// Element i as a To.
template <typename To>
To NumberAt(const Array& array, int64_t i) {
  switch (array.type.dtype) {
    case DType::kF32:
      return Converted<To>(ElementAt<float>(array, i));
    case DType::kF64:
      return Converted<To>(ElementAt<double>(array, i));
    case DType::kF16:
      return Converted<To>(math::HalfToFloat(ElementAt<uint16_t>(array, i)));
    case DType::kBF16:
      return Converted<To>(
          math::BFloat16ToFloat(ElementAt<uint16_t>(array, i)));
    case DType::kI16:
      return Converted<To>(ElementAt<int16_t>(array, i));
    case DType::kI32:
      return Converted<To>(ElementAt<int32_t>(array, i));
    case DType::kI64:
      return Converted<To>(ElementAt<int64_t>(array, i));
    case DType::kU8:
      return Converted<To>(ElementAt<uint8_t>(array, i));
    case DType::kBool:
      return Converted<To>(ElementAt<uint8_t>(array, i) != 0);
  }
  return To{};
}

template <typename To>
std::vector<To> NumbersOf(const Array& array) {
  const int64_t count = array.type.shape.num_elements();
  std::vector<To> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    numbers[static_cast<size_t>(i)] = NumberAt<To>(array, i);
  }
  return numbers;
}

template <typename T>
void Append(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename From>
Array ArrayOfNumbers(DType dtype, const Shape& shape,
                     const std::vector<From>& numbers) {
  Array array{{dtype, shape}, {}};
  array.bytes.reserve(static_cast<size_t>(array.type.bytes()));
  for (const From number : numbers) {
    switch (dtype) {
      case DType::kF32:
        Append(static_cast<float>(number), &array.bytes);
        break;
      case DType::kF64:
        Append(static_cast<double>(number), &array.bytes);
        break;
      case DType::kF16:
        Append(math::FloatToHalf(static_cast<float>(number)), &array.bytes);
        break;
      case DType::kBF16:
        Append(math::FloatToBFloat16(static_cast<float>(number)), &array.bytes);
        break;
      case DType::kI16:
        Append(static_cast<int16_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kI32:
        Append(static_cast<int32_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kI64:
        Append(Converted<int64_t>(number), &array.bytes);
        break;
      case DType::kU8:
        Append(static_cast<uint8_t>(Converted<int64_t>(number)), &array.bytes);
        break;
      case DType::kBool:
        Append(static_cast<uint8_t>(number != 0), &array.bytes);
        break;
    }
  }
  return array;
}

template <typename T, typename List>
std::vector<T> Copied(const List& list) {
  return std::vector<T>(list.begin(), list.end());
}

}  // namespace

std::vector<int64_t> IntsOf(const Array& array) {
  return NumbersOf<int64_t>(array);
}
std::vector<double> RealsOf(const Array& array) {
  return NumbersOf<double>(array);
}
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<int64_t>& ints) {
  return ArrayOfNumbers(dtype, shape, ints);
}
Array ArrayOf(DType dtype, const Shape& shape,
              const std::vector<double>& reals) {
  return ArrayOfNumbers(dtype, shape, reals);
}

Result<const Array*> ContentsOf(Operand& operand, const std::string& folder) {
  if (!operand.contents && operand.initializer) {
    STOWAGE_ASSIGN_OR_RETURN(Array array,
                             ReadTensor(*operand.initializer, folder));
    operand.contents = std::make_shared<const Array>(std::move(array));
  }
  return operand.contents.get();
}

Value ValueOf(Operand& operand, ImportContext& context) {
  if (operand.value.ok()) return operand.value;
  GraphBuilder& g = *context.graph;
  if (operand.initializer && !operand.fixed) {
    return operand.value =
               g.Param(operand.name, operand.type.dtype, operand.type.shape);
  }
  const Result<const Array*> contents = ContentsOf(operand, context.folder);
  if (!contents.ok()) return g.Fail(contents.error());
  if (!*contents) return Value();  // of a node that failed
  const Array& array = **contents;
  return operand.value =
             Constant(g, array.type.dtype, array.type.shape,
                      std::as_bytes(std::span<const char>(array.bytes)));
}

ImportedNode::ImportedNode(const pb::NodeProto& node, int64_t version,
                           std::vector<Operand*> operands,
                           ImportContext& context)
    : node_(node),
      version_(version),
      operands_(std::move(operands)),
      context_(context) {}

Value ImportedNode::In(int i) {
  return Has(i) ? ValueOf(*operands_[At(i)], context_) : Value();
}

Value ImportedNode::Keep(int i) {
  if (!Has(i)) return Value();
  Operand& operand = *operands_[At(i)];
  if (!operand.value.ok() && operand.initializer && !operand.fixed) {
    operand.value =
        graph().State(operand.name, operand.type.dtype, operand.type.shape);
    operand.kept = true;
  }
  return In(i);
}

bool ImportedNode::IsKept(int i) const {
  return Has(i) && operands_[At(i)]->kept;
}

const Array* ImportedNode::Fixed(int i) {
  if (!Has(i) || !operands_[At(i)]->fixed) return nullptr;
  const Result<const Array*> contents =
      ContentsOf(*operands_[At(i)], context_.folder);
  return contents.ok() ? *contents : nullptr;
}

Result<const Array*> ImportedNode::Known(int i, std::string_view what) {
  if (!Has(i)) return Wrong(StrCat("lacks operand ", i, ", its ", what));
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents,
                           ContentsOf(*operands_[At(i)], context_.folder));
  if (!contents) {
    return Unsupported(StrCat("takes its ", what, " from ",
                              Quoted(operands_[At(i)]->name),
                              ", which is computed in each step; a plan must "
                              "know it. If it is an input "
                              "of the model, give it a value"));
  }
  return contents;
}

Result<std::vector<int64_t>> ImportedNode::Ints(int i, std::string_view what) {
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents, Known(i, what));
  return IntsOf(*contents);
}

Result<std::vector<double>> ImportedNode::Reals(int i, std::string_view what) {
  STOWAGE_ASSIGN_OR_RETURN(const Array* const contents, Known(i, what));
  return RealsOf(*contents);
}

Result<std::optional<std::vector<int64_t>>> ImportedNode::IntsOrAttribute(
    int i, std::string_view name) {
  if (Has(i)) {
    STOWAGE_ASSIGN_OR_RETURN(std::vector<int64_t> ints, Ints(i, name));
    return std::optional(std::move(ints));
  }
  if (Find(name)) return std::optional(IntList(name));
  return std::optional<std::vector<int64_t>>();
}

Result<int64_t> ImportedNode::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    return Wrong(StrCat("has the axis ", axis, "; expected one of ", rank,
                        " dimensions"));
  }
  return axis < 0 ? axis + rank : axis;
}

const pb::AttributeProto* ImportedNode::Find(std::string_view name) const {
  for (const pb::AttributeProto& attribute : node_.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t ImportedNode::Int(std::string_view name, int64_t otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? found->i() : otherwise;
}

double ImportedNode::Float(std::string_view name, double otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? static_cast<double>(found->f()) : otherwise;
}

std::string ImportedNode::Text(std::string_view name,
                               std::string_view otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? found->s() : std::string(otherwise);
}

std::vector<int64_t> ImportedNode::IntList(
    std::string_view name, std::vector<int64_t> otherwise) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<int64_t>(found->ints()) : std::move(otherwise);
}

std::vector<double> ImportedNode::FloatList(std::string_view name) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<double>(found->floats()) : std::vector<double>();
}

std::vector<std::string> ImportedNode::TextList(std::string_view name) const {
  const pb::AttributeProto* const found = Find(name);
  return found ? Copied<std::string>(found->strings())
               : std::vector<std::string>();
}

std::string ImportedNode::Place() const {
  const std::string& name = node_.name().empty() && node_.output_size() > 0
                                ? node_.output(0)
                                : node_.name();
  return StrCat("[onnx] node ", Quoted(name), " (", op(), ") ");
}

Error ImportedNode::Unsupported(std::string_view what) const {
  return {ErrorCode::kUnsupported, StrCat(Place(), what)};
}

Error ImportedNode::Wrong(std::string_view what) const {
  return {ErrorCode::kInvalidArgument, StrCat(Place(), what)};
}

}  // namespace stowage::onnx
