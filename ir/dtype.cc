#include "ir/dtype.h"

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

}  // namespace stowage
