#ifndef STOWAGE_FORMATS_JSON_H_
#define STOWAGE_FORMATS_JSON_H_

// Reads JSON from untrusted files. CheckJsonText validates text before a JSON library parses it,
// since such libraries keep the last of duplicate keys, stop at a NUL, and recurse without limit.
// JsonValues returns the values of a file by path. A path consists of the keys and indices that
// lead to a value, joined by dots.
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

/// Checks that `text` is one JSON value in UTF-8, that no object has duplicate keys, and that
/// objects and arrays are nested at most `max_levels` deep. An initial byte order mark is allowed.
/// Returns kInvalidArgument if the text is not valid. The message is a predicate, such as `is no
/// JSON, at byte 12: a NUL` or `has the key "a" twice`, to which the caller must add the name of
/// the text. O(n log n) in the bytes of the text.
Status CheckJsonText(std::string_view text, int max_levels);

class JsonValues {
 public:
  /// Null, a bool, an integer, a real number or a string.
  using Value =
      std::variant<std::monostate, bool, int64_t, double, std::string>;

  /// Parses JSON text. Propagates errors of CheckJsonText for 64 levels. Returns kInvalidArgument
  /// if two paths are equal, due to dots in keys, if an integer does not fit 63 bits, or if the
  /// total length of the paths exceeds 64 times the length of the text.
  static Result<JsonValues> Parse(std::string_view text);

  /// Returns all values by path, including null. Empty objects and arrays are omitted.
  const std::map<std::string, Value, std::less<>>& values() const {
    return values_;
  }

  /// Returns whether `path` has a value other than null. Text, Int, Real and Bool also treat null
  /// as absent.
  bool Has(std::string_view path) const;
  /// Returns whether `path` is a non-empty object or array.
  bool HasBelow(std::string_view path) const;

  // The following functions return the value at `path`. They return kNotFound if it is absent, and
  // kInvalidArgument if it has another type. Real also accepts integers.
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
