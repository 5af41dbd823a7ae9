#ifndef STOWAGE_REPORT_FORMAT_H_
#define STOWAGE_REPORT_FORMAT_H_

// Small text helpers of the printed forms.

#include <string>
#include <string_view>

#include "planner/packing/problem.h"

namespace stowage {

/// `text` filled with spaces to `width` characters, or cut to it with "..." at
/// its end.
std::string PadRight(std::string_view text, size_t width);
std::string PadLeft(std::string_view text, size_t width);

/// "[3, 17)".
std::string Interval(packing::Time lower, packing::Time upper);

/// `1234567` as "1,234,567".
std::string WithCommas(int64_t value);

/// `text` with & < > " ' as XML entities, and control characters as spaces.
std::string XmlEscaped(std::string_view text);

}  // namespace stowage

#endif  // STOWAGE_REPORT_FORMAT_H_
