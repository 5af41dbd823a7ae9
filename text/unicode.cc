#include "text/unicode.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace stowage::text {

namespace {

// A lower bound on the number of ASCII bytes at the start of `text`: whole words only.
size_t AsciiPrefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  return at;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t at) {
    return static_cast<unsigned char>(text[at]);
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  // The lead byte determines the number of continuation bytes, and the range of the first (The
  // Unicode Standard, table 3-7).
  size_t follow = 0;
  unsigned lowest = 0x80, highest = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    follow = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    follow = 2;
    if (lead == 0xE0) lowest = 0xA0;
    if (lead == 0xED) highest = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    follow = 3;
    if (lead == 0xF0) lowest = 0x90;
    if (lead == 0xF4) highest = 0x8F;
  } else {
    return {0xFFFD, 1, false};
  }
  char32_t code = lead & (0x3Fu >> follow);
  for (size_t at = 1; at <= follow; ++at) {
    if (at >= text.size() || byte(at) < lowest || byte(at) > highest) {
      return {0xFFFD, at, false};
    }
    code = (code << 6) | (byte(at) & 0x3Fu);
    lowest = 0x80, highest = 0xBF;
  }
  return {code, follow + 1};
}

std::string_view WellFormed(std::string_view text, std::string* storage) {
  size_t good = 0;  // the beginning of the bytes not copied yet
  bool copied = false;
  for (size_t at = 0; at < text.size();) {
    at += AsciiPrefix(text.substr(at));
    if (at == text.size()) break;
    const Character character = FirstCharacter(text.substr(at));
    if (!character.well_formed) {
      if (!copied) storage->clear();
      copied = true;
      storage->append(text.substr(good, at - good));
      AppendUtf8(character.code, storage);
      good = at + character.bytes;
    }
    at += character.bytes;
  }
  if (!copied) return text;
  storage->append(text.substr(good));
  return *storage;
}

void AppendUtf8(char32_t code, std::string* out) {
  const auto add = [&](char32_t byte) { *out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

size_t LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 &&
         (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) {
    --begin;
  }
  return begin;
}

size_t TrailingSpace(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = LastCharacter(text);
    if (!IsWhiteSpace(FirstCharacter(text.substr(begin)).code)) break;
    text = text.substr(0, begin);
  }
  return text.size();
}

size_t LeadingSpace(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    if (!IsWhiteSpace(character.code)) break;
    end += character.bytes;
  }
  return end;
}

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

// Whether two characters are in one cluster; `after_joined` if a pictograph and a joiner
// precede `to`.
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

namespace {

struct ClassRange {
  char32_t first, last;
  int combining_class;
};

struct Decomposition {
  char32_t composite, first, second;  // second: 0 if there is one character
  bool composes;                      // form C composes the two again
};

#include "text/nfc_tables.inc"

// Hangul syllables are computed (The Unicode Standard, 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161,
                   kTrails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

// Characters that form C may change: marks, characters whose decomposition does not compose
// again, and characters that may compose with the one before.
class Unplain {
 public:
  Unplain() {
    for (const ClassRange& range : kClasses) {
      for (char32_t c = range.first; c <= range.last; ++c) Add(c);
    }
    for (const Decomposition& row : kDecompositions) {
      Add(row.composes ? row.second : row.composite);
    }
    for (char32_t i = 0; i < kVowelCount; ++i) Add(kVowels + i);
    for (char32_t i = 1; i < kTrailCount; ++i) Add(kTrails + i);
  }
  bool Has(char32_t c) const { return c < set_.size() && set_[c]; }

 private:
  void Add(char32_t c) { set_[c] = true; }
  std::bitset<0x30000> set_;
};

bool IsPlain(std::string_view text) {
  static const Unplain* const unplain = new Unplain;
  while (!text.empty()) {
    const Character c = FirstCharacter(text);
    if (c.code >= 0x300 && unplain->Has(c.code)) return false;
    text.remove_prefix(c.bytes);
  }
  return true;
}

int ClassOf(char32_t c) {
  const auto range =
      std::ranges::lower_bound(kClasses, c, {}, &ClassRange::last);
  return range != std::end(kClasses) && range->first <= c
             ? range->combining_class
             : 0;
}

struct Mark {
  char32_t code;
  int combining_class;
};

void Decompose(char32_t c, bool compatible, std::vector<Mark>* out) {
  if (compatible) {
    if (const std::u32string_view all = CompatibleParts(c); !all.empty()) {
      for (const char32_t part : all) out->push_back({part, ClassOf(part)});
      return;
    }
  }
  if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t at = c - kSyllables;
    out->push_back({kLeads + at / (kVowelCount * kTrailCount), 0});
    out->push_back({kVowels + at / kTrailCount % kVowelCount, 0});
    if (at % kTrailCount != 0) out->push_back({kTrails + at % kTrailCount, 0});
    return;
  }
  const auto row = c < 0xC0
                       ? std::end(kDecompositions)
                       : std::ranges::lower_bound(kDecompositions, c, {},
                                                  &Decomposition::composite);
  if (row == std::end(kDecompositions) || row->composite != c) {
    out->push_back({c, ClassOf(c)});
    return;
  }
  Decompose(row->first, compatible, out);
  if (row->second != 0) Decompose(row->second, compatible, out);
}

// The composite of the two, or 0.
char32_t Compose(char32_t first, char32_t second) {
  if (first >= kLeads && first < kLeads + kLeadCount && second >= kVowels &&
      second < kVowels + kVowelCount) {
    return kSyllables +
           ((first - kLeads) * kVowelCount + second - kVowels) * kTrailCount;
  }
  if (first >= kSyllables && first < kSyllables + kSyllableCount &&
      (first - kSyllables) % kTrailCount == 0 && second > kTrails &&
      second < kTrails + kTrailCount) {
    return first + second - kTrails;
  }
  using Row = std::pair<std::pair<char32_t, char32_t>, char32_t>;
  static const std::vector<Row>* const rows = [] {
    auto* const all = new std::vector<Row>;
    for (const Decomposition& row : kDecompositions) {
      if (row.composes)
        all->push_back({{row.first, row.second}, row.composite});
    }
    std::ranges::sort(*all);
    return all;
  }();
  const std::pair<char32_t, char32_t> pair = {first, second};
  const auto row = std::ranges::lower_bound(*rows, pair, {}, &Row::first);
  return row != rows->end() && row->first == pair ? row->second : 0;
}

// Sorts each run of marks by combining class.
void Order(std::vector<Mark>* marks) {
  for (auto at = marks->begin(); at != marks->end();) {
    if (at->combining_class == 0) {
      ++at;
      continue;
    }
    const auto end = std::find_if(
        at, marks->end(), [](const Mark& m) { return m.combining_class == 0; });
    std::stable_sort(at, end, [](const Mark& a, const Mark& b) {
      return a.combining_class < b.combining_class;
    });
    at = end;
  }
}

// A mark composes with the last starter unless another of its class or a higher one
// stands between them.
void ComposeAll(std::vector<Mark>* all) {
  std::vector<Mark>& marks = *all;
  size_t kept = 0;
  size_t starter = marks.size();  // none yet
  int last = -1;  // class of the last mark kept after the starter
  for (const Mark mark : marks) {
    if (starter != marks.size() && last < mark.combining_class) {
      if (const char32_t c = Compose(marks[starter].code, mark.code); c != 0) {
        marks[starter].code = c;
        continue;
      }
    }
    if (mark.combining_class == 0) {
      starter = kept;
      last = -1;
    } else {
      last = mark.combining_class;
    }
    marks[kept++] = mark;
  }
  marks.resize(kept);
}

bool IsAscii(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c < 0x80; });
}

}  // namespace

std::string_view ToNormalForm(std::string_view text, NormalForm form,
                              std::string* storage) {
  if (form == NormalForm::kC ? IsPlain(text) : IsAscii(text)) return text;
  const bool compatible = form == NormalForm::kKc || form == NormalForm::kKd;
  std::vector<Mark> marks;
  marks.reserve(text.size());
  while (!text.empty()) {
    const Character c = FirstCharacter(text);
    Decompose(c.code, compatible, &marks);
    text.remove_prefix(c.bytes);
  }
  Order(&marks);
  if (form == NormalForm::kC || form == NormalForm::kKc) ComposeAll(&marks);
  storage->clear();
  for (const Mark& mark : marks) AppendUtf8(mark.code, storage);
  return *storage;
}

}  // namespace stowage::text
