#include "data/training_text.h"

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "text/unicode.h"

namespace stowage {
namespace {

constexpr int kMaxJsonLevels = 64;

// Whether the first line of `text` is what a line of JSON Lines is to finetune, or all of
// it a list of objects.
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
