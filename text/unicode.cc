#include "text/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "text/utf8.h"

namespace stowage::text {
namespace {

struct Range {
  char32_t first, last;
};

struct LowerRun {
  char32_t first, last, step;
  int delta;
};

struct Compatible {
  char32_t code, begin, count;
};

#include "text/unicode_tables.inc"

constexpr Range kIdeographs[] = {
    {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
    {0x20000, 0x2A6DF}, {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF},
    {0x2F800, 0x2FA1F},
};

bool IsIn(std::span<const Range> ranges, char32_t code) {
  const auto range = std::ranges::lower_bound(
      ranges, code, {}, [](const Range& r) { return r.last; });
  return range != ranges.end() && range->first <= code;
}

// Whether a cluster goes on from one character to the next; `after_joined` where a
// pictograph and a joiner come before.
bool GoesOn(char32_t from, char32_t to, bool after_joined) {
  if (from == '\r' && to == '\n') return true;
  if (IsIn(kBreaking, from) || IsIn(kBreaking, to)) return false;
  return IsIn(kJoining, to) || IsIn(kPrepended, from) ||
         (after_joined && IsIn(kPictographs, to));
}

}  // namespace

size_t ClusterSize(std::string_view text) {
  constexpr char32_t kJoiner = 0x200D;
  Character now = FirstCharacter(text);
  size_t end = now.bytes;
  bool is_pictograph = IsIn(kPictographs, now.code);
  while (end < text.size()) {
    const Character next = FirstCharacter(text.substr(end));
    if (!GoesOn(now.code, next.code, is_pictograph && now.code == kJoiner)) {
      break;
    }
    end += next.bytes;
    is_pictograph = IsIn(kPictographs, next.code) ||
                    (is_pictograph && IsIn(kJoining, next.code));
    now = next;
  }
  return end;
}

bool IsWordCharacter(char32_t code) { return IsIn(kWord, code); }
bool IsPunctuation(char32_t code) { return IsIn(kPunctuation, code); }
bool IsControl(char32_t code) { return IsIn(kControl, code); }
bool IsNonspacingMark(char32_t code) { return IsIn(kNonspacing, code); }
bool IsMark(char32_t code) { return IsIn(kMarks, code); }
bool IsIdeograph(char32_t code) { return IsIn(kIdeographs, code); }

char32_t LowerCase(char32_t code) {
  const auto run = std::ranges::lower_bound(
      kLower, code, {}, [](const LowerRun& r) { return r.last; });
  if (run == std::end(kLower) || code < run->first ||
      (code - run->first) % run->step != 0) {
    return code;
  }
  return static_cast<char32_t>(static_cast<int>(code) + run->delta);
}

std::u32string_view CompatibleParts(char32_t code) {
  const auto row =
      std::ranges::lower_bound(kCompatible, code, {}, &Compatible::code);
  if (row == std::end(kCompatible) || row->code != code) return {};
  return {kCompatibleText + row->begin, row->count};
}

}  // namespace stowage::text
