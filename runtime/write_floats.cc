#include "runtime/write_floats.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/graph.h"
#include "math/small_floats.h"

namespace stowage {
namespace {

// By way of a few thousand elements of T at a time.
template <typename T, typename Convert>
Status WriteAs(Runner& runner, std::string_view name, DType dtype,
               int64_t first, std::span<const float> numbers, Convert convert) {
  std::array<T, 4096> part;
  while (!numbers.empty()) {
    const size_t count = std::min(numbers.size(), part.size());
    std::ranges::transform(numbers.first(count), part.begin(), convert);
    STOWAGE_RETURN_IF_ERROR(
        runner.WritePart(name, dtype, first * SizeOf(dtype),
                         std::as_bytes(std::span(part).first(count))));
    first += static_cast<int64_t>(count);
    numbers = numbers.subspan(count);
  }
  return {};
}

}  // namespace

Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers) {
  const std::optional<ValueId> id = runner.graph().Find(name);
  const DType dtype = id ? runner.graph().value(*id).type.dtype
                         : DType::kF32;  // an error below
  switch (dtype) {
    case DType::kF32:
      return runner.WritePart(name, dtype, first * SizeOf(dtype),
                              std::as_bytes(numbers));
    case DType::kF64:
      return WriteAs<double>(runner, name, dtype, first, numbers,
                             [](float x) { return double{x}; });
    case DType::kF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToHalf);
    case DType::kBF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToBFloat16);
    default:
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[session] ", Quoted(name), " is of ",
                          DTypeName(dtype), ", no type of floats")};
  }
}

}  // namespace stowage
