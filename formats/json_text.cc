#include "formats/json_text.h"

#include <cstddef>
#include <cstdint>
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

// What nlohmann::json::sax_parse tells of a text; each function says whether to go on.
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

}  // namespace stowage
