#include "base/bytes.h"

#include <charconv>
#include <cmath>

#include "base/strings.h"

namespace stowage {

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
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes > -1024 && bytes < 1024) return StrCat(bytes, " B");
  double scaled = static_cast<double>(bytes) / 1024.0;
  int unit = 0;
  while (std::abs(scaled) >= 1024.0 && unit < 4) {
    scaled /= 1024.0;
    ++unit;
  }
  return StrCat(Fixed(scaled, 1), " ", kUnits[unit]);
}

Result<Bytes> ParseBytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes;
  };
  static constexpr Unit kUnits[] = {
      {"", 1},         {"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
      {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},     {"MB", 1e6},
      {"GB", 1e9},     {"TB", 1e12}};
  const Error error{
      ErrorCode::kInvalidArgument,
      StrCat("[bytes] ", Quoted(text),
             " is not a size: expected a number that is not negative, with B, "
             "KiB, MiB, GiB, TiB, KB, MB, GB, TB or no unit, as in 64MiB")};
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
