#include "runtime/parts.h"

#include <algorithm>
#include <vector>

namespace stowage {

Status InParts(Bytes bytes,
               const std::function<Status(Bytes, std::span<std::byte>)>& use) {
  std::vector<std::byte> room(static_cast<size_t>(std::min(bytes, kPartBytes)));
  for (Bytes begin = 0; begin < bytes; begin += kPartBytes) {
    const Bytes size = std::min(kPartBytes, bytes - begin);
    STOWAGE_RETURN_IF_ERROR(
        use(begin, std::span(room).first(static_cast<size_t>(size))));
  }
  return {};
}

Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes, std::span<const std::byte>)>& take) {
  return InParts(value.type.bytes(),
                 [&](Bytes begin, std::span<std::byte> part) -> Status {
                   STOWAGE_RETURN_IF_ERROR(runner.ReadPart(
                       value.name, value.type.dtype, begin, part));
                   return take(begin, part);
                 });
}

}  // namespace stowage
