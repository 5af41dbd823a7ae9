#include "text/tokenizer_json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage::text {

using Json = nlohmann::json;

const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  if (!object.is_object()) return *null;
  const auto found = object.find(name);
  return found == object.end() ? *null : *found;
}

std::string TypeOf(const Json& object) {
  const Json& type = Member(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

std::string NameOf(const Json& value) {
  if (!TypeOf(value).empty()) return Quoted(TypeOf(value));
  std::string text = value.dump(-1, ' ', true);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

Result<bool> Flag(const Json& object, const char* name, bool absent) {
  const Json& value = Member(object, name);
  if (value.is_null()) return absent;
  if (!value.is_boolean()) {
    return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " is ",
                                NameOf(value), "; expected true or false");
  }
  return value.get<bool>();
}

Result<int32_t> Id(const Json& value, std::string_view what) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() >= uint64_t{kMaxTokens}) {
    return InvalidArgumentError(
        "[tokenizer.json] the id of ", what, " is ", NameOf(value),
        "; expected a whole number from 0 to ", kMaxTokens - 1);
  }
  return value.get<int32_t>();
}

Result<std::string> TextOf(const Json& object, const char* name,
                           std::string_view absent) {
  const Json& value = Member(object, name);
  if (value.is_null()) return std::string(absent);
  if (!value.is_string()) {
    return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " is ",
                                NameOf(value), "; expected a text");
  }
  return value.get<std::string>();
}

Result<int32_t> Number(const Json& object, const char* name, int32_t absent) {
  constexpr uint64_t kLargest = std::numeric_limits<int32_t>::max();
  const Json& value = Member(object, name);
  if (value.is_null()) return absent;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    return InvalidArgumentError(
        "[tokenizer.json] ", Quoted(name), " is ", NameOf(value),
        "; expected a whole number from 0 to ", kLargest);
  }
  return value.get<int32_t>();
}

std::vector<const Json*> InSequence(const Json& value, const char* members) {
  if (value.is_null()) return {};
  if (TypeOf(value) != "Sequence") return {&value};
  std::vector<const Json*> all;
  for (const Json& member : Member(value, members)) {
    for (const Json* one : InSequence(member, members)) all.push_back(one);
  }
  return all;
}

}  // namespace stowage::text
