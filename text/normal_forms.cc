#include "text/normal_forms.h"

#include <algorithm>
#include <bitset>
#include <utility>
#include <vector>

#include "text/unicode.h"
#include "text/utf8.h"

namespace stowage::text {
namespace {

struct ClassRange {
  char32_t first, last;
  int combining_class;
};

struct Decomposition {
  char32_t composite, first, second;  // second: 0 where there is one character
  bool composes;                      // whether the two become it again
};

#include "text/nfc_tables.inc"

// Hangul syllables follow from a formula (The Unicode Standard, 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161,
                   kTrails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

// Those that may not stay as they are: marks, what decomposes for good, and what may
// compose with the character before it.
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

// What the two become, or 0.
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

// Puts each run of marks in the order of their classes.
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
  int last = -1;  // class of what was kept last after the starter
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

std::string_view Nfc(std::string_view text, std::string* storage) {
  return ToNormalForm(text, NormalForm::kC, storage);
}

}  // namespace stowage::text
