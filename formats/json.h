#ifndef STOWAGE_FORMATS_JSON_H_
#define STOWAGE_FORMATS_JSON_H_

// JSON from untrusted files. CheckJsonText validates a text before a JSON library parses it:
// libraries keep the last of duplicate keys, stop at a NUL, and recurse without limit.
// JsonValues holds the values of a file by path, the keys and indices that lead to a value,
// joined by dots.
//
//   STOWAGE_RETURN_IF_ERROR(CheckJsonText(text, /*max_levels=*/64));
//   const nlohmann::json json = nlohmann::json::parse(text);
//
//   Result<JsonValues> config = JsonValues::Parse(
//       R"({"architectures": ["Qwen2ForCausalLM"], "rope_scaling": {"factor": 8}})");
//   config->Text("architectures.0");   config->Real("rope_scaling.factor");

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"

namespace stowage {

/// Checks that `text` is one JSON value in UTF-8, without duplicate keys in an object and
/// with at most `max_levels` nested objects and arrays; an initial byte order mark is
/// allowed. Errors, kInvalidArgument, whose messages the caller prefixes with the origin:
/// `is no JSON, at byte 12: a NUL`, `has the key "a" twice`, `nests deeper than 64 levels`.
/// O(n log n) in the text's bytes.
Status CheckJsonText(std::string_view text, int max_levels);

class JsonValues {
 public:
  /// null, a bool, an integer, a real number or a string.
  using Value =
      std::variant<std::monostate, bool, int64_t, double, std::string>;

  /// Errors, kInvalidArgument: those of CheckJsonText with 64 levels; two equal paths, due
  /// to dots in keys; an integer beyond 63 bits; paths whose total length exceeds 64 times
  /// the text's.
  static Result<JsonValues> Parse(std::string_view text);

  /// The values by path; empty objects and arrays have none.
  const std::map<std::string, Value, std::less<>>& values() const {
    return values_;
  }

  /// Returns whether there is a value other than null. Null counts as absent below too.
  bool Has(std::string_view path) const;
  /// Returns whether there is a nonempty object or array.
  bool HasBelow(std::string_view path) const;

  // The value at `path`. Errors: kNotFound if it is absent, kInvalidArgument if it has
  // another type; an integer is also a real number.
  Result<std::string> Text(std::string_view path) const;
  Result<int64_t> Int(std::string_view path) const;
  Result<double> Real(std::string_view path) const;
  Result<bool> Bool(std::string_view path) const;

 private:
  template <typename T>
  Result<T> Get(std::string_view path, std::string_view expected) const;

  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace stowage

#endif  // STOWAGE_FORMATS_JSON_H_
