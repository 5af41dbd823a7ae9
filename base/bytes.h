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
/// Requires `value >= 0` and `alignment >= 1`. The result must not overflow.
constexpr Bytes AlignUp(Bytes value, Bytes alignment) {
  const Bytes rest = value % alignment;
  return rest == 0 ? value : value + (alignment - rest);
}

/// CheckedAdd returns a + b, and CheckedMul returns a * b. Both return nullopt on overflow.
std::optional<Bytes> CheckedAdd(Bytes a, Bytes b);
std::optional<Bytes> CheckedMul(Bytes a, Bytes b);

/// Returns `bytes` in the largest unit that it reaches, at most PiB: "512 B", "71.3 KiB",
/// "3.2 GiB". After SetByteUnits(ByteUnits::kPowersOf1000), the units are KB, MB, GB, TB and PB.
std::string FormatBytes(Bytes bytes);

/// Sets the units of FormatBytes for the whole process. The default is powers of 1024. The
/// `stowage` command uses the units in which the budget was given.
enum class ByteUnits { kPowersOf1024, kPowersOf1000 };
void SetByteUnits(ByteUnits units);

/// Parses a size such as "4000000", "512B", "64 KiB", "1.5GiB" or "4.2GB". KiB, MiB, GiB and TiB
/// are powers of 1024. KB (or kB), MB, GB and TB are powers of 1000. The result is rounded to whole
/// bytes and may be 0. Returns kInvalidArgument if `text` is malformed, negative or too large.
Result<Bytes> ParseBytes(std::string_view text);

/// Converts a signed id, where -1 means none, to an index. Requires `id >= 0`.
constexpr size_t Index(int64_t id) { return static_cast<size_t>(id); }

}  // namespace stowage

#endif  // STOWAGE_BASE_BYTES_H_
