#ifndef STOWAGE_RUNTIME_PARTS_H_
#define STOWAGE_RUNTIME_PARTS_H_

// Params and states by parts, so that to save, load or look at them takes a small part
// of memory beside the arena, however large they are.
//
//   Status sent = ReadInParts(runner, value, [&](Bytes, std::span<const std::byte> part) {
//     return write(part);
//   });

#include <cstddef>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "ir/graph.h"
#include "runtime/session.h"

namespace stowage {

/// Of a part, at most: whole elements of every type.
inline constexpr Bytes kPartBytes = 256 * 1024;

/// Hands `use` room for each part of `bytes` bytes, in order, with where it begins; the
/// first error of `use` ends it all.
Status InParts(
    Bytes bytes,
    const std::function<Status(Bytes begin, std::span<std::byte>)>& use);

/// Hands `take` each part of a param or state of `runner`, in order. Errors: those of
/// Runner::ReadPart, and of `take`, the first of which ends it all.
Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes begin, std::span<const std::byte>)>& take);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_PARTS_H_
