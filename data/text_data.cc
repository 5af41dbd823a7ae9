#include "data/text_data.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/files.h"
#include "base/result.h"
#include "base/strings.h"
#include "data/batching.h"
#include "formats/json.h"
#include "text/unicode.h"

namespace stowage {
namespace {

constexpr std::string_view kTag = "[data] ";  // of messages

std::string_view AsciiFor(char32_t c) {
  switch (c) {
    case 0x09:    // tab
    case 0xa0:    // no-break space
    case 0x202f:  // narrow no-break space
      return " ";
    case 0x2018:
    case 0x2019:
    case 0x201a:
    case 0x201b:
      return "'";
    case 0x201c:
    case 0x201d:
    case 0x201e:
    case 0x201f:
      return "\"";
    case 0x2010:
    case 0x2011:
    case 0x2012:
    case 0x2013:
    case 0x2014:
    case 0x2015:
    case 0x2212:  // minus sign
      return "-";
    case 0x2026:
      return "...";
    default:
      return "?";
  }
}

void CopyWindow(std::span<const int32_t> part, int64_t start, int64_t row,
                int64_t seq, std::span<int32_t> tokens,
                std::span<int32_t> targets) {
  const auto from = part.begin() + start;
  std::copy_n(from, seq, tokens.begin() + row * seq);
  std::copy_n(from + 1, seq, targets.begin() + row * seq);
}

void CheckBatchSpans(std::span<const int32_t> part, int64_t batch, int64_t seq,
                     std::span<int32_t> tokens, std::span<int32_t> targets) {
  STOWAGE_CHECK(batch >= 1 && seq >= 1 && std::ssize(part) > seq);
  STOWAGE_CHECK(std::ssize(tokens) == batch * seq);
  STOWAGE_CHECK(std::ssize(targets) == batch * seq);
}

}  // namespace

Result<std::string> NormalizeText(std::string_view utf8, int64_t* replaced) {
  int64_t unspelt = 0;
  std::string out;
  out.reserve(utf8.size());
  int64_t line = 1;
  size_t line_start = 0;
  for (size_t i = 0; i < utf8.size();) {
    const text::Character c = text::FirstCharacter(utf8.substr(i));
    if (!c.well_formed || c.code == 0) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat(kTag, "not a text: ",
                 c.well_formed ? "a NUL byte" : "not UTF-8", " at line ", line,
                 ", column ", i - line_start + 1, "; expected UTF-8 text")};
    }
    const bool crlf = c.code == '\r' && utf8.substr(i + 1).starts_with('\n');
    const bool mark = i == 0 && c.code == 0xfeff;
    i += c.bytes;
    if (crlf || mark) continue;
    if (c.code == '\n' || c.code == '\r') {
      out += '\n';
      ++line;
      line_start = i;
    } else if (c.code >= ' ' && c.code <= '~') {
      out += static_cast<char>(c.code);
    } else {
      const std::string_view ascii = AsciiFor(c.code);
      unspelt += ascii == "?" ? 1 : 0;
      out += ascii;
    }
  }
  if (replaced != nullptr) *replaced = unspelt;
  return out;
}

std::vector<int32_t> EncodeText(std::string_view normalized) {
  std::vector<int32_t> tokens;
  tokens.reserve(normalized.size());
  for (const char c : normalized) {
    STOWAGE_CHECK(c == '\n' || (c >= ' ' && c <= '~'));
    tokens.push_back(c == '\n' ? 0 : c - ' ' + 1);
  }
  return tokens;
}

std::string DecodeText(std::span<const int32_t> tokens) {
  std::string text;
  text.reserve(tokens.size());
  for (const int32_t token : tokens) {
    STOWAGE_CHECK(token >= 0 && token < kTextCharacters);
    text += token == 0 ? '\n' : static_cast<char>(' ' + token - 1);
  }
  return text;
}

Result<TextData> TextData::Load(const std::string& path, int64_t seq) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return FromText(content, path, seq);
}

Result<TextData> TextData::FromText(std::string_view utf8,
                                    std::string_view origin, int64_t seq) {
  const auto fail = [&](std::string_view message) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat(kTag, Quoted(origin), " ", message)};
  };
  if (utf8.empty()) return fail("is empty; expected UTF-8 text");
  int64_t replaced = 0;
  Result<std::string> normalized = NormalizeText(utf8, &replaced);
  if (!normalized.ok()) {
    Error error = normalized.error();
    error.message =
        StrCat(kTag, Quoted(origin), ": ", error.message.substr(kTag.size()));
    return error;
  }
  if (normalized->size() >
      static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return fail(StrCat("has ", normalized->size(),
                       " characters; at most 2^31 - 1 are supported"));
  }
  STOWAGE_ASSIGN_OR_RETURN(
      TextData data, Split(EncodeText(*normalized), "characters", origin, seq));
  data.replaced_ = replaced;
  return data;
}

Result<TextData> TextData::FromTokens(std::vector<int32_t> tokens,
                                      std::string_view origin, int64_t seq) {
  return Split(std::move(tokens), "tokens", origin, seq);
}

Result<TextData> TextData::Split(std::vector<int32_t> tokens,
                                 std::string_view unit, std::string_view origin,
                                 int64_t seq) {
  const auto fail = [&](std::string_view message) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat(kTag, Quoted(origin), " ", message)};
  };
  if (seq < 1) {
    return fail(
        StrCat("is read in windows of ", seq, " tokens; expected at least 1"));
  }
  TextData data;
  data.tokens_ = std::move(tokens);
  data.held_out_ = data.tokens_.size() / 10;
  // The training set is at least as long as the validation set.
  if (static_cast<int64_t>(data.held_out_) <= seq) {
    return fail(StrCat("has ", data.tokens_.size(), " ", unit,
                       ", of which the last tenth is held out; a "
                       "tenth must be longer than a window of ",
                       seq, "; use a longer text or a smaller seq"));
  }
  return data;
}

void SampleTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                     uint64_t seed, uint64_t step, std::span<int32_t> tokens,
                     std::span<int32_t> targets) {
  CheckBatchSpans(part, batch, seq, tokens, targets);
  SplitMix64 random(seed, step);
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t start = random.Below(std::ssize(part) - seq);
    CopyWindow(part, start, row, seq, tokens, targets);
  }
}

int64_t CountTextBatches(std::span<const int32_t> part, int64_t batch,
                         int64_t seq) {
  return std::max<int64_t>(1, (std::ssize(part) - 1) / seq / batch);
}

void ReadTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                   int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets) {
  CheckBatchSpans(part, batch, seq, tokens, targets);
  const int64_t windows = (std::ssize(part) - 1) / seq;
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t window = (index * batch + row) % windows;
    CopyWindow(part, window * seq, row, seq, tokens, targets);
  }
}

namespace {

constexpr int kMaxJsonLevels = 64;

// Whether the first line of `text` is an example of JSON lines (data/examples.h), or all of it a
// list of objects.
bool IsExample(std::string_view text) {
  const auto line = JsonValues::Parse(text.substr(0, text.find('\n')));
  if (line.ok() && (line->Has("text") || line->Has("completion") ||
                    line->HasBelow("messages"))) {
    return true;
  }
  const size_t second = text.find_first_not_of(" \t\r\n", 1);
  return text.starts_with('[') && second != std::string_view::npos &&
         text[second] == '{' && CheckJsonText(text, kMaxJsonLevels).ok();
}

}  // namespace

bool IsJsonLines(std::string_view path) {
  return EndsWithAnyCase(path, ".jsonl") || EndsWithAnyCase(path, ".ndjson");
}

Status CheckIsNoContainer(std::string_view bytes, const std::string& path) {
  struct Kind {
    std::string_view begins, name;
  };
  constexpr Kind kKinds[] = {{"PAR1", "a Parquet file"},
                             {"PK\x03\x04", "a ZIP archive"},
                             {"\x1f\x8b", "compressed by gzip"},
                             {"\x28\xb5\x2f\xfd", "compressed by Zstandard"},
                             {"\x04\x22\x4d\x18", "compressed by LZ4"},
                             {"\xfd"
                              "7zXZ",
                              "compressed by xz"},
                             {"BZh", "compressed by bzip2"},
                             {"ARROW1", "an Arrow file"},
                             {"%PDF-", "a PDF"},
                             {"GGUF", "a GGUF file"},
                             {"SQLite format 3", "an SQLite database"}};
  for (const auto& [begins, name] : kKinds) {
    if (!bytes.starts_with(begins)) continue;
    return InvalidArgumentError("[data] ", Quoted(path), " is ", name,
                                "; expected a text in UTF-8, or JSON lines in "
                                "a file called .jsonl");
  }
  return {};
}

Status CheckIsText(std::string_view text, const std::string& path) {
  STOWAGE_RETURN_IF_ERROR(CheckIsNoContainer(text, path));
  const std::string_view beginning = text.substr(0, 2);
  const bool is_utf16 = beginning == "\xFF\xFE" || beginning == "\xFE\xFF";
  const bool is_utf32 = text.starts_with(std::string_view("\xFF\xFE\0\0", 4)) ||
                        text.starts_with(std::string_view("\0\0\xFE\xFF", 4));
  const size_t nul = text.find('\0');
  if (is_utf16 || is_utf32 || nul != std::string::npos) {
    return InvalidArgumentError(
        "[data] ", Quoted(path), " is no text in UTF-8: ",
        is_utf32   ? std::string("it begins as UTF-32 does")
        : is_utf16 ? std::string("it begins as UTF-16 does")
                   : StrCat("byte ", nul, " is NUL"),
        "; convert it, as iconv -t UTF-8 does");
  }
  for (std::string_view rest = text; !rest.empty();) {
    const text::Character next = text::FirstCharacter(rest);
    if (!next.well_formed) {
      return InvalidArgumentError("[data] ", Quoted(path),
                                  " is no text in UTF-8: byte ",
                                  text.size() - rest.size(),
                                  " begins no character; convert it, as iconv "
                                  "-t UTF-8 does");
    }
    rest.remove_prefix(next.bytes);
  }
  return {};
}

Status CheckTrainingText(std::string_view text, const std::string& path) {
  STOWAGE_RETURN_IF_ERROR(CheckIsText(text, path));
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos &&
                       (text[first] == '{' || text[first] == '[') &&
                       (EndsWithAnyCase(path, ".json") || IsJsonLines(path) ||
                        IsExample(text.substr(first)));
  if (is_json) {
    return InvalidArgumentError(
        "[data] ", Quoted(path),
        " is JSON, which would be learnt as it is written; expected a text, or "
        "for stowage finetune JSON lines in a file called .jsonl, an object a "
        "line");
  }
  return {};
}

}  // namespace stowage
