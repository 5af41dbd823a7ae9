#ifndef STOWAGE_BASE_BYTES_H_
#define STOWAGE_BASE_BYTES_H_

// Byte counts, signed 64-bit, with checked arithmetic and their two text forms; and Index,
// which converts a signed id to the index of a container.
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

/// A number of bytes, an offset in bytes. Never negative in a valid plan.
using Bytes = int64_t;

/// `value` rounded up to a multiple of `alignment`, which is at least 1 and need not be a
/// power of two. Precondition: the result does not overflow.
constexpr Bytes AlignUp(Bytes value, Bytes alignment) {
  const Bytes rest = value % alignment;
  return rest == 0 ? value : value + (alignment - rest);
}

/// a + b and a * b; absent on overflow.
std::optional<Bytes> CheckedAdd(Bytes a, Bytes b);
std::optional<Bytes> CheckedMul(Bytes a, Bytes b);

/// "512 B", "71.3 KiB", "64.0 MiB", "3.2 GiB" (one decimal from KiB up), or in powers of
/// ten "71.3 KB", "64.0 MB", "3.2 GB".
std::string FormatBytes(Bytes bytes);

/// Sets the units of FormatBytes for the process; powers of 1024 by default. The command
/// prints the units that its budget was given in.
enum class ByteUnits { kPowersOf1024, kPowersOf1000 };
void SetByteUnits(ByteUnits units);

/// Parses "4000000", "512B", "64KiB", "64MiB", "1.5GiB", "4.2GB" (KB, MB, GB and TB are
/// powers of ten). Zero is accepted. Error kInvalidArgument for anything else, a negative
/// number, or one that overflows.
Result<Bytes> ParseBytes(std::string_view text);

/// A signed id, -1 for none, as an index. Precondition: `id` is not negative.
constexpr size_t Index(int64_t id) { return static_cast<size_t>(id); }

}  // namespace stowage

#endif  // STOWAGE_BASE_BYTES_H_
