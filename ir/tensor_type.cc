#include "ir/tensor_type.h"

#include "base/strings.h"

namespace stowage {

std::string_view DTypeName(DType dtype) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "f32", "f64", "f16", "bf16", "i16", "i32", "i64", "u8", "bool"};
  return kNames[static_cast<size_t>(dtype)];
}

Result<DType> ParseDType(std::string_view name) {
  for (const DType dtype : kAllDTypes) {
    if (DTypeName(dtype) == name) return dtype;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[dtype] ", Quoted(name),
                      " is not an element type: expected f32, f64, f16, bf16, "
                      "i16, i32, i64, u8 or bool")};
}

std::string Dims::ToString() const {
  std::string out = "(";
  for (int i = 0; i < kept(); ++i) {
    if (i > 0) out += ", ";
    out += StrCat((*this)[i]);
  }
  if (rank_ > kMaxRank) out += ", ...";
  return out + ")";
}

std::optional<int64_t> Shape::CheckedNumElements() const {
  int64_t product = 1;
  for (const int64_t dim : *this) {
    if (dim < 1) return std::nullopt;
    const auto next = CheckedMul(product, dim);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

std::string TensorType::ToString() const {
  return StrCat(DTypeName(dtype), shape.ToString());
}

Strides ContiguousStrides(const Shape& shape) {
  Strides strides = Strides::Filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) {
    strides[i] = strides[i + 1] * shape[i + 1];
  }
  return strides;
}

bool IsContiguous(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

}  // namespace stowage
