#include "planner/packing/problem.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage::packing {
namespace {

Error Malformed(const Problem& problem, size_t index, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[pack] buffer ", BufferName(problem, index), " ", what)};
}

Status CheckBuffer(const Problem& problem, size_t index) {
  const Buffer& b = problem.buffers[index];
  if (b.upper <= b.lower) {
    return Malformed(problem, index,
                     StrCat("has the lifetime [", b.lower, ", ", b.upper,
                            "); upper must be above lower"));
  }
  if (b.size < 0) {
    return Malformed(
        problem, index,
        StrCat("has the size ", b.size, "; a size must be 0 or more"));
  }
  if (b.alignment < 1) {
    return Malformed(problem, index,
                     StrCat("has the alignment ", b.alignment,
                            "; an alignment must be 1 or more"));
  }
  if (b.offset && *b.offset < 0) {
    return Malformed(problem, index,
                     StrCat("is fixed at offset ", *b.offset,
                            "; an offset must be 0 or more"));
  }
  if (b.offset && *b.offset % b.alignment != 0) {
    return Malformed(
        problem, index,
        StrCat("is fixed at offset ", *b.offset,
               ", which is no multiple of its alignment ", b.alignment));
  }
  return {};
}

// Whatever order the buffers are stacked in, on top of the highest fixed one,
// with the most padding each can need, the sum must fit.
Status CheckSums(const Problem& problem) {
  Bytes base = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    if (!b.offset) continue;
    std::optional<Bytes> end = CheckedAdd(*b.offset, b.size);
    if (end) end = CheckedAdd(*end, b.alignment - 1);
    if (!end) {
      return Malformed(problem, i,
                       StrCat("ends at offset ", *b.offset, " + size ", b.size,
                              ", which with padding does not fit 64 bits"));
    }
    base = std::max(base, *end);
  }
  // Without the offsets that are given, too: whoever checks a packing has none.
  std::optional<Bytes> sum = base, all = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    all = CheckedAdd(*all, b.size);
    if (all) all = CheckedAdd(*all, b.alignment - 1);
    if (!b.offset && sum) {
      sum = CheckedAdd(*sum, b.size);
      if (sum) sum = CheckedAdd(*sum, b.alignment - 1);
    }
    if (!sum || !all) {
      return Malformed(problem, i,
                       StrCat("takes the sum of sizes and padding past 64 bits:"
                              " its size is ",
                              b.size, ", its alignment ", b.alignment));
    }
  }
  return {};
}

Status CheckIds(const Problem& problem) {
  std::unordered_set<std::string_view> seen;
  seen.reserve(problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const std::string& id = problem.buffers[i].id;
    if (!id.empty() && !seen.insert(id).second) {
      return Malformed(problem, i,
                       StrCat("at index ", i,
                              " has the id of an earlier buffer; ids must be "
                              "unique or empty"));
    }
  }
  return {};
}

// Sweeps the fixed buffers by birth, keeping the live ones by offset; they are
// disjoint up to the first overlap, so only two neighbours need a look.
Status CheckFixedPlacements(const Problem& problem) {
  std::vector<size_t> births;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (problem.buffers[i].offset && problem.buffers[i].size > 0) {
      births.push_back(i);
    }
  }
  std::vector<size_t> deaths = births;
  std::stable_sort(births.begin(), births.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].lower < problem.buffers[b].lower;
  });
  std::stable_sort(deaths.begin(), deaths.end(), [&](size_t a, size_t b) {
    return problem.buffers[a].upper < problem.buffers[b].upper;
  });

  const auto overlap = [&](size_t a, size_t b) {
    const Buffer& x = problem.buffers[a];
    const Buffer& y = problem.buffers[b];
    return Malformed(
        problem, a,
        StrCat("is fixed at [", *x.offset, ", ", *x.offset + x.size,
               ") and lives in [", x.lower, ", ", x.upper,
               "), where it overlaps ", BufferName(problem, b), " fixed at [",
               *y.offset, ", ", *y.offset + y.size, "), which lives in [",
               y.lower, ", ", y.upper, ")"));
  };
  std::map<Bytes, size_t> live;
  size_t dead = 0;
  for (const size_t i : births) {
    const Buffer& b = problem.buffers[i];
    for (; problem.buffers[deaths[dead]].upper <= b.lower; ++dead) {
      live.erase(*problem.buffers[deaths[dead]].offset);
    }
    const auto above = live.lower_bound(*b.offset);
    if (above != live.end() && above->first < *b.offset + b.size) {
      return overlap(i, above->second);
    }
    if (above != live.begin()) {
      const size_t below = std::prev(above)->second;
      const Buffer& other = problem.buffers[below];
      if (*other.offset + other.size > *b.offset) return overlap(i, below);
    }
    live.emplace(*b.offset, i);
  }
  return {};
}

}  // namespace

Status CheckProblem(const Problem& problem) {
  if (problem.capacity && *problem.capacity < 0) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[pack] capacity ", *problem.capacity,
                        " is negative; it must be 0 or more bytes")};
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    STOWAGE_RETURN_IF_ERROR(CheckBuffer(problem, i));
  }
  STOWAGE_RETURN_IF_ERROR(CheckIds(problem));
  STOWAGE_RETURN_IF_ERROR(CheckSums(problem));
  return CheckFixedPlacements(problem);
}

std::string BufferName(const Problem& problem, size_t index) {
  const std::string& id = problem.buffers[index].id;
  return id.empty() ? StrCat("#", index) : Quoted(id);
}

namespace {

enum Column { kId, kLower, kUpper, kSize, kAlignment, kOffset, kColumns };
constexpr std::array<std::string_view, kColumns> kNames = {
    "id", "lower", "upper", "size", "alignment", "offset"};

Error AtLine(size_t line, std::string_view what) {
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[csv] line ", line, ": ", what)};
}

// A field in quotes, on one line whatever is in it.
std::string Shown(std::string field) {
  for (char& c : field) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return Quoted(field);
}

struct Row {
  size_t line = 0;  // on which it begins, from 1
  std::vector<std::string> fields;
};

// Splits text into rows and fields; knows quotes, nothing of their meaning.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  /// The next row that is not empty; a row without fields at the end.
  Result<Row> Next() {
    while (SkipLineEnd()) {
    }
    Row row;
    row.line = line_;
    if (at_ == text_.size()) return row;
    while (true) {
      std::string field;
      STOWAGE_RETURN_IF_ERROR(ReadField(&field));
      row.fields.push_back(std::move(field));
      if (at_ == text_.size() || SkipLineEnd()) return row;
      STOWAGE_CHECK(text_[at_] == ',');
      ++at_;
    }
  }

 private:
  bool AtLineEnd() const {
    return at_ == text_.size() || text_[at_] == '\n' ||
           text_.substr(at_, 2) == "\r\n";
  }

  bool SkipLineEnd() {
    if (at_ == text_.size() || !AtLineEnd()) return false;
    at_ += text_[at_] == '\r' ? 2 : 1;
    ++line_;
    return true;
  }

  Status ReadField(std::string* field) {
    if (at_ == text_.size() || text_[at_] != '"') {
      while (!AtLineEnd() && text_[at_] != ',') {
        if (text_[at_] == '"') {
          return AtLine(line_,
                        "a quote stands inside a field; put the whole field in "
                        "quotes and double those inside");
        }
        field->push_back(text_[at_++]);
      }
      return {};
    }
    const size_t line = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && text_.substr(at_, 2) != "\"\"") break;
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      field->push_back(text_[at_]);
    }
    if (at_ == text_.size()) {
      return AtLine(line, "a quoted field is never closed");
    }
    ++at_;
    if (!AtLineEnd() && text_[at_] != ',') {
      return AtLine(line_, "a quoted field goes on after its closing quote");
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
};

Result<int64_t> ParseNumber(const Row& row, size_t field, Column column) {
  const std::string& text = row.fields[field];
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec == std::errc::result_out_of_range && parsed.ptr == end) {
    return AtLine(row.line, StrCat("column ", Quoted(kNames[column]), ": ",
                                   text, " does not fit 64 bits"));
  }
  if (parsed.ec != std::errc() || parsed.ptr != end) {
    return AtLine(row.line, StrCat("column ", Quoted(kNames[column]), ": ",
                                   Shown(text), " is no whole number"));
  }
  return value;
}

class Parser {
 public:
  // `fixed` says that offsets are fixed placements, which must make sense.
  Parser(std::string_view text, bool fixed) : reader_(text), fixed_(fixed) {}

  Result<Problem> Run() {
    STOWAGE_ASSIGN_OR_RETURN(const Row header, reader_.Next());
    STOWAGE_RETURN_IF_ERROR(ReadHeader(header));
    while (true) {
      STOWAGE_ASSIGN_OR_RETURN(const Row row, reader_.Next());
      if (row.fields.empty()) return std::move(problem_);
      STOWAGE_RETURN_IF_ERROR(ReadRow(row));
    }
  }

 private:
  Status ReadHeader(const Row& header) {
    if (header.fields.empty()) {
      return AtLine(1,
                    "the file is empty; expected the header "
                    "id,lower,upper,size[,alignment][,offset]");
    }
    width_ = header.fields.size();
    for (size_t i = 0; i < width_; ++i) {
      const auto name =
          std::find(kNames.begin(), kNames.end(), header.fields[i]);
      if (name == kNames.end()) {
        return AtLine(header.line,
                      StrCat("the header has the unknown column ",
                             Shown(header.fields[i]),
                             "; expected id,lower,upper,size[,alignment]"
                             "[,offset] in any order"));
      }
      std::optional<size_t>& field = fields_[name - kNames.begin()];
      if (field) {
        return AtLine(header.line, StrCat("the header has the column ",
                                          Quoted(*name), " twice"));
      }
      field = i;
    }
    for (const Column column : {kId, kLower, kUpper, kSize}) {
      if (!fields_[column]) {
        return AtLine(
            header.line,
            StrCat("the header lacks the column ", Quoted(kNames[column]),
                   "; expected id,lower,upper,size[,alignment]"
                   "[,offset] in any order"));
      }
    }
    return {};
  }

  Status ReadRow(const Row& row) {
    if (row.fields.size() != width_) {
      return AtLine(row.line, StrCat("it has ", row.fields.size(),
                                     " fields; the header has ", width_));
    }
    Buffer b;
    b.id = row.fields[*fields_[kId]];
    STOWAGE_ASSIGN_OR_RETURN(b.lower,
                             ParseNumber(row, *fields_[kLower], kLower));
    STOWAGE_ASSIGN_OR_RETURN(b.upper,
                             ParseNumber(row, *fields_[kUpper], kUpper));
    STOWAGE_ASSIGN_OR_RETURN(b.size, ParseNumber(row, *fields_[kSize], kSize));
    if (Has(row, kAlignment)) {
      STOWAGE_ASSIGN_OR_RETURN(
          b.alignment, ParseNumber(row, *fields_[kAlignment], kAlignment));
    }
    if (Has(row, kOffset)) {
      STOWAGE_ASSIGN_OR_RETURN(b.offset,
                               ParseNumber(row, *fields_[kOffset], kOffset));
    } else if (!fixed_) {
      return AtLine(row.line,
                    StrCat("column \"offset\": buffer ", Shown(b.id),
                           " has none; a packing gives every buffer one"));
    }
    STOWAGE_RETURN_IF_ERROR(CheckRow(row, b));
    if (!b.id.empty()) {
      const auto [earlier, inserted] = lines_.emplace(b.id, row.line);
      if (!inserted) {
        return AtLine(row.line,
                      StrCat("column \"id\": ", Shown(b.id),
                             " was used before, on line ", earlier->second));
      }
    }
    problem_.buffers.push_back(std::move(b));
    return {};
  }

  Status CheckRow(const Row& row, const Buffer& b) const {
    const auto wrong = [&](Column column, std::string_view what) {
      return AtLine(row.line,
                    StrCat("column ", Quoted(kNames[column]), ": ", what));
    };
    if (b.upper <= b.lower) {
      return wrong(kUpper, StrCat(b.upper, " is not above lower, ", b.lower));
    }
    if (b.size < 0) return wrong(kSize, StrCat(b.size, " is negative"));
    if (b.alignment < 1) {
      return wrong(kAlignment, StrCat(b.alignment, " is below 1"));
    }
    if (!b.offset || !fixed_) return {};
    if (*b.offset < 0) {
      return wrong(kOffset, StrCat(*b.offset, " is negative"));
    }
    if (*b.offset % b.alignment != 0) {
      return wrong(
          kOffset,
          StrCat(*b.offset, " is no multiple of the alignment ", b.alignment));
    }
    if (!CheckedAdd(*b.offset, b.size)) {
      return wrong(kOffset, StrCat(*b.offset, " + size ", b.size,
                                   " does not fit 64 bits"));
    }
    return {};
  }

  bool Has(const Row& row, Column column) const {
    return fields_[column] && !row.fields[*fields_[column]].empty();
  }

  Reader reader_;
  const bool fixed_;
  size_t width_ = 0;
  std::array<std::optional<size_t>, kColumns> fields_;  // where in a row
  std::unordered_map<std::string, size_t> lines_;       // of each id
  Problem problem_;
};

void AppendId(std::string* out, const std::string& id) {
  if (id.find_first_of(",\"\r\n") == std::string::npos) {
    out->append(id);
    return;
  }
  out->push_back('"');
  for (const char c : id) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

template <typename OffsetOf>
std::string Format(const Problem& problem, OffsetOf offset_of) {
  std::string out = "id,lower,upper,size,alignment,offset\n";
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& b = problem.buffers[i];
    AppendId(&out, b.id);
    out +=
        StrCat(',', b.lower, ',', b.upper, ',', b.size, ',', b.alignment, ',');
    if (const std::optional<Bytes> offset = offset_of(i)) {
      out += StrCat(*offset);
    }
    out += '\n';
  }
  return out;
}

}  // namespace

Result<Problem> ParseProblemCsv(std::string_view text) {
  return Parser(text, /*fixed=*/true).Run();
}

Result<PackedProblem> ParsePackingCsv(std::string_view text) {
  PackedProblem packed;
  STOWAGE_ASSIGN_OR_RETURN(packed.problem, Parser(text, /*fixed=*/false).Run());
  for (Buffer& b : packed.problem.buffers) {
    packed.solution.offsets.push_back(*b.offset);
    // An end that does not fit is for Validate to tell.
    packed.solution.height =
        std::max(packed.solution.height,
                 CheckedAdd(*b.offset, b.size)
                     .value_or(std::numeric_limits<Bytes>::max()));
    b.offset.reset();
  }
  return packed;
}

std::string FormatProblemCsv(const Problem& problem) {
  return Format(problem, [&](size_t i) { return problem.buffers[i].offset; });
}

std::string FormatPackingCsv(const Problem& problem, const Solution& solution) {
  STOWAGE_CHECK(solution.offsets.size() == problem.buffers.size());
  return Format(problem, [&](size_t i) {
    return std::optional<Bytes>(solution.offsets[i]);
  });
}

}  // namespace stowage::packing
