#ifndef STOWAGE_NN_CONFIG_VALUES_H_
#define STOWAGE_NN_CONFIG_VALUES_H_

// The values of a config.json, with errors that name the file and the value.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/weights_file.h"
#include "nn/model_description.h"

namespace stowage {

class ConfigValues : public Description {
 public:
  /// Precondition: the file has a config.json.
  explicit ConfigValues(const WeightsFile& file)
      : Description(file), config_(*file.config()) {}

 protected:
  Result<int64_t> Size(std::string_view name) const {
    return CheckSize(name, config_.Int(name));
  }
  Result<int64_t> SizeOr(std::string_view name, int64_t otherwise) const {
    return CheckSize(name, ValueOr(config_.Int(name), otherwise));
  }
  Result<double> RealOr(std::string_view name, double otherwise) const {
    auto value = ValueOr(config_.Real(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  Result<bool> BoolOr(std::string_view name, bool otherwise) const {
    auto value = ValueOr(config_.Bool(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  // The error of a text that is none of those that are known.
  Status OneOf(std::string_view name, std::string_view otherwise,
               std::initializer_list<std::string_view> known) const {
    const auto value = ValueOr(config_.Text(name), std::string(otherwise));
    if (!value.ok()) return In(value.error());
    if (std::ranges::find(known, *value) != known.end()) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", Quoted(*value),
                              "; here it is ", Quoted(*known.begin())));
  }
  Status MustBe(std::string_view name, bool expected) const {
    STOWAGE_ASSIGN_OR_RETURN(const bool value, BoolOr(name, expected));
    if (value == expected) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", value,
                              ", which no model here knows"));
  }

  const JsonValues& config_;
};

}  // namespace stowage

#endif  // STOWAGE_NN_CONFIG_VALUES_H_
