#include "base/bytes.h"

#include <atomic>
#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace stowage {

namespace {

std::atomic<ByteUnits> byte_units = ByteUnits::kPowersOf1024;

}  // namespace

std::optional<Bytes> CheckedAdd(Bytes a, Bytes b) {
  Bytes sum;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

std::optional<Bytes> CheckedMul(Bytes a, Bytes b) {
  Bytes product;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

std::string FormatBytes(Bytes bytes) {
  static constexpr const char* kUnits[] = {"K", "M", "G", "T", "P"};
  const bool by_tens = byte_units == ByteUnits::kPowersOf1000;
  const int64_t step = by_tens ? 1000 : 1024;
  if (bytes > -step && bytes < step) return StrCat(bytes, " B");
  const auto each = static_cast<double>(step);
  double scaled = static_cast<double>(bytes) / each;
  int unit = 0;
  while (std::abs(scaled) >= each && unit < 4) {
    scaled /= each;
    ++unit;
  }
  return StrCat(Fixed(scaled, 1), " ", kUnits[unit], by_tens ? "B" : "iB");
}

void SetByteUnits(ByteUnits units) { byte_units = units; }

Result<Bytes> ParseBytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr Unit kUnits[] = {
      {"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
      {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},     {"KB", 1e3},
      {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  const Error error{
      ErrorCode::kInvalidArgument,
      StrCat("[bytes] ", Quoted(text),
             " is not a size: expected a number that is not negative, with B, "
             "KiB, MiB, GiB, TiB, kB, MB, GB, TB or no unit, as in 64MiB")};
  // Digits alone are exact to the last byte; a double would round above 2^53.
  const char* const end = text.data() + text.size();
  Bytes whole = 0;
  auto [after_int, int_code] = std::from_chars(text.data(), end, whole);
  if (int_code == std::errc() && after_int == end && whole >= 0) return whole;

  double number = 0;
  auto [after, code] =
      std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (code != std::errc() || !std::isfinite(number) || number < 0 ||
      std::signbit(number)) {
    return error;
  }
  std::string_view suffix(after, static_cast<size_t>(end - after));
  while (!suffix.empty() && suffix.front() == ' ') suffix.remove_prefix(1);
  for (const Unit& unit : kUnits) {
    if (suffix != unit.name) continue;
    const double bytes = number * unit.bytes;
    if (bytes >= 0x1p63) return error;
    return static_cast<Bytes>(std::round(bytes));  // 4.1 * 1e9 falls short
  }
  return error;
}

}  // namespace stowage
