#ifndef STOWAGE_FORMATS_JSON_VALUES_H_
#define STOWAGE_FORMATS_JSON_VALUES_H_

// The values of a JSON file by where they stand, for files that describe something:
// a value's path is the keys and positions that lead to it, joined by dots.
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

class JsonValues {
 public:
  /// null, a bool, an integer, a real number or a text.
  using Value =
      std::variant<std::monostate, bool, int64_t, double, std::string>;

  /// Errors, kInvalidArgument: text that CheckJsonText (formats/json_text.h) refuses, with
  /// 64 levels at most; a path that comes twice, by dots in keys; an integer beyond 63
  /// bits; paths that have more than 64 times the text's bytes together.
  static Result<JsonValues> Parse(std::string_view text);

  /// The values by path; empty objects and arrays have none.
  const std::map<std::string, Value, std::less<>>& values() const {
    return values_;
  }

  /// Whether there is a value that is not null, which counts as none below too.
  bool Has(std::string_view path) const;
  /// Whether there is an object or an array that is not empty.
  bool HasBelow(std::string_view path) const;

  // The value at `path`. Errors: kNotFound where there is none, kInvalidArgument where it
  // is of another type; an integer is a real number too.
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

#endif  // STOWAGE_FORMATS_JSON_VALUES_H_
