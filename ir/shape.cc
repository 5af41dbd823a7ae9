#include "ir/shape.h"

#include "base/strings.h"

namespace stowage {

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
