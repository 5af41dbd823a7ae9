#ifndef STOWAGE_BASE_BYTES_H_
#define STOWAGE_BASE_BYTES_H_

// Defines Bytes, a signed 64-bit byte count, with checked arithmetic, formatting and parsing.
// Index() converts a signed id to a container index.
//
//   FormatBytes(67108864) == "64.0 MiB"
//   ParseBytes("1.5GiB").value() == 1610612736
//   const ValueInfo& info = values[Index(id)];

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// A size or an offset in bytes. Never negative in a valid plan.
using Bytes = int64_t;

/// Returns `value` rounded up to a multiple of `alignment`, which need not be a power of two.
/// Requires `alignment >= 1`, and that the result does not overflow.
constexpr Bytes AlignUp(Bytes value, Bytes alignment) {
  const Bytes rest = value % alignment;
  return rest == 0 ? value : value + (alignment - rest);
}

/// Returns a + b and a * b, or nullopt on overflow.
std::optional<Bytes> CheckedAdd(Bytes a, Bytes b);
std::optional<Bytes> CheckedMul(Bytes a, Bytes b);

/// Returns `bytes` in the largest unit that fits: "512 B", "71.3 KiB", "64.0 MiB", "3.2 GiB".
/// With ByteUnits::kPowersOf1000, the units are "71.3 KB", "64.0 MB", "3.2 GB".
std::string FormatBytes(Bytes bytes);

/// Sets the units of FormatBytes for the whole process. The default is powers of 1024. The
/// `stowage` command uses the units in which the budget was given.
enum class ByteUnits { kPowersOf1024, kPowersOf1000 };
void SetByteUnits(ByteUnits units);

/// Parses "4000000", "512B", "64KiB", "64MiB", "1.5GiB", "4.2GB" (KB, MB, GB and TB are
/// powers of ten). Zero is accepted. Returns kInvalidArgument if `text` is malformed, negative
/// or too large.
Result<Bytes> ParseBytes(std::string_view text);

/// Converts a signed id, where -1 means none, to an index. Requires `id >= 0`.
constexpr size_t Index(int64_t id) { return static_cast<size_t>(id); }

}  // namespace stowage

#endif  // STOWAGE_BASE_BYTES_H_
