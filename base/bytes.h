#ifndef STOWAGE_BASE_BYTES_H_
#define STOWAGE_BASE_BYTES_H_

// Byte counts: one signed 64-bit type, checked sums, and the two written forms
// (what people read, what people type).
//
//   FormatBytes(67108864) == "64.0 MiB"
//   ParseBytes("1.5GiB").value() == 1610612736

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace stowage {

/// A number of bytes, an offset in bytes. Never negative in a valid plan.
using Bytes = int64_t;

/// `value` rounded up to a multiple of `alignment` (a power of two or not; >=
/// 1). Precondition: the result fits (use CheckedAdd first where it may not).
constexpr Bytes AlignUp(Bytes value, Bytes alignment) {
  const Bytes rest = value % alignment;
  return rest == 0 ? value : value + (alignment - rest);
}

/// a + b, a * b; nothing when the result does not fit 64 signed bits.
std::optional<Bytes> CheckedAdd(Bytes a, Bytes b);
std::optional<Bytes> CheckedMul(Bytes a, Bytes b);

/// For people: "512 B", "71.3 KiB", "64.0 MiB", "3.2 GiB" (one decimal from KiB up), or by
/// powers of ten "71.3 KB", "64.0 MB", "3.2 GB".
std::string FormatBytes(Bytes bytes);

/// Which of the two this process writes, from now on and in all threads; powers of 1024
/// at first. A program that was asked in one answers in it.
enum class ByteUnits { kPowersOf1024, kPowersOf1000 };
void SetByteUnits(ByteUnits units);

/// What a user types: "4000000", "512B", "64KiB", "64MiB", "1.5GiB", "4.2GB"
/// (KB, MB, GB, TB are powers of ten). Error kInvalidArgument when it is no
/// size, is negative, or does not fit. Zero parses; callers that need more say
/// so.
Result<Bytes> ParseBytes(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_BASE_BYTES_H_
