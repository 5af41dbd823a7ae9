#include "formats/json.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

// A handler of nlohmann::json::sax_parse; each function returns whether to continue.
class Checker : public nlohmann::json_sax<Json> {
 public:
  explicit Checker(int max_levels)
      : max_levels_(static_cast<size_t>(max_levels)) {}

  const std::string& wrong() const { return wrong_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return Down(); }
  bool start_array(size_t) override { return Down(); }
  bool end_object() override { return Up(); }
  bool end_array() override { return Up(); }
  bool key(std::string& name) override {
    if (keys_.back().insert(name).second) return true;
    wrong_ = StrCat("has the key ", Quoted(name), " twice");
    return false;
  }
  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line 1, column 2: syntax error ... - why; more"
    std::string_view why = error.what();
    const size_t dash = why.find(" - ");
    why.remove_prefix(dash == std::string_view::npos ? why.find("] ") + 2
                                                     : dash + 3);
    wrong_ = StrCat("is no JSON, at byte ", position, ": ",
                    WithoutControls(why.substr(0, why.find("; last read"))));
    return false;
  }

 private:
  bool Down() {
    keys_.emplace_back();
    if (keys_.size() <= max_levels_) return true;
    wrong_ = StrCat("nests deeper than ", max_levels_, " levels");
    return false;
  }
  bool Up() {
    keys_.pop_back();
    return true;
  }

  const size_t max_levels_;
  std::vector<std::set<std::string>> keys_;  // so far, by level
  std::string wrong_;
};

}  // namespace

Status CheckJsonText(std::string_view text, int max_levels) {
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return InvalidArgumentError("is no JSON, at byte ", nul + 1, ": a NUL");
  }
  Checker checker(max_levels);
  if (Json::sax_parse(text, &checker)) return {};
  return InvalidArgumentError(checker.wrong());
}

namespace {

constexpr int kMaxLevels = 64;
// Paths contain the keys of all enclosing objects, so a long key of a long list would take
// memory quadratic in the text. Limits all paths together, per byte of the text.
constexpr size_t kMaxPathBytes = 64;
using Map = std::map<std::string, JsonValues::Value, std::less<>>;

// A handler of nlohmann::json::sax_parse; each function returns whether to continue.
class Collector {
 public:
  Collector(size_t text_bytes, Map* values)
      : path_bytes_left_(kMaxPathBytes * text_bytes),
        most_path_bytes_(path_bytes_left_),
        values_(*values) {}

  const std::string& wrong() const { return wrong_; }

  bool null() { return Put(std::monostate()); }
  bool boolean(bool value) { return Put(value); }
  bool number_integer(int64_t value) { return Put(value); }
  bool number_unsigned(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(StrCat("the value ", Quoted(Path()), " is ", value,
                         ", which 63 bits cannot hold"));
    }
    return Put(static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) { return Put(value); }
  bool string(std::string& value) { return Put(std::move(value)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Down(-1); }
  bool start_array(size_t) { return Down(0); }
  bool end_object() { return Up(); }
  bool end_array() { return Up(); }
  bool key(std::string& value) {
    levels_.back().key = std::move(value);
    return true;
  }
  template <typename Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    return Fail(error.what());  // CheckJsonText lets none come
  }

 private:
  struct Level {
    int64_t index;  // of the next element; -1 in an object
    std::string key;
  };

  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (!path.empty()) path += '.';
      path += level.index < 0 ? level.key : StrCat(level.index);
    }
    return path;
  }
  bool Fail(std::string what) {
    wrong_ = std::move(what);
    return false;
  }
  bool Put(JsonValues::Value value) {
    std::string path = Path();
    if (path.size() > path_bytes_left_) {
      return Fail(StrCat("the paths of its values have more than ",
                         most_path_bytes_, " bytes together, ", kMaxPathBytes,
                         " for each of the text; expected shorter keys above "
                         "lists"));
    }
    path_bytes_left_ -= path.size();
    if (!values_.emplace(path, std::move(value)).second) {
      return Fail(StrCat("two values stand at ", Quoted(path)));
    }
    return Done();
  }
  // Advances the path after a value.
  bool Done() {
    if (!levels_.empty() && levels_.back().index >= 0) ++levels_.back().index;
    return true;
  }
  bool Down(int64_t index) {
    levels_.push_back({index, {}});
    return true;
  }
  bool Up() {
    levels_.pop_back();
    return Done();
  }

  size_t path_bytes_left_, most_path_bytes_;
  Map& values_;
  std::vector<Level> levels_;
  std::string wrong_;
};

}  // namespace

Result<JsonValues> JsonValues::Parse(std::string_view text) {
  if (const Status checked = CheckJsonText(text, kMaxLevels); !checked.ok()) {
    return InvalidArgumentError("[json] the text ", checked.error().message);
  }
  JsonValues values;
  Collector collector(text.size(), &values.values_);
  if (!nlohmann::json::sax_parse(text, &collector)) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[json] ", collector.wrong())};
  }
  return values;
}

bool JsonValues::Has(std::string_view path) const {
  const auto found = values_.find(path);
  return found != values_.end() &&
         !std::holds_alternative<std::monostate>(found->second);
}

bool JsonValues::HasBelow(std::string_view path) const {
  const std::string prefix = StrCat(path, ".");
  const auto found = values_.lower_bound(prefix);
  return found != values_.end() && found->first.starts_with(prefix);
}

template <typename T>
Result<T> JsonValues::Get(std::string_view path,
                          std::string_view expected) const {
  if (!Has(path)) {
    return Error{ErrorCode::kNotFound,
                 StrCat("[json] there is no value ", Quoted(path))};
  }
  const Value& value = values_.find(path)->second;
  if (const T* const found = std::get_if<T>(&value)) return *found;
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[json] the value ", Quoted(path), " is no ", expected)};
}

Result<std::string> JsonValues::Text(std::string_view path) const {
  return Get<std::string>(path, "text");
}
Result<int64_t> JsonValues::Int(std::string_view path) const {
  return Get<int64_t>(path, "integer");
}
Result<double> JsonValues::Real(std::string_view path) const {
  if (const Result<int64_t> whole = Int(path); whole.ok()) {
    return static_cast<double>(*whole);
  }
  return Get<double>(path, "number");
}
Result<bool> JsonValues::Bool(std::string_view path) const {
  return Get<bool>(path, "bool");
}

}  // namespace stowage
