#include "text/jinja_value.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/strings.h"
#include "text/unicode.h"

namespace stowage::jinja {
namespace {

// As str.isspace: Unicode's White_Space, and four separators of ASCII.
bool IsSpace(char32_t code) {
  return text::IsWhiteSpace(code) || (code >= 0x1c && code <= 0x1f);
}

Result<std::string> NoText(const Value& value) {
  return UnsupportedError("it writes ", KindOf(value));
}

}  // namespace

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [name, value] : items) {
    if (name == key) return &value;
  }
  return nullptr;
}

void Dict::Set(std::string_view key, Value value) {
  for (auto& [name, old] : items) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  items.emplace_back(key, std::move(value));
}

Value MakeList(std::vector<Value> items) {
  return std::make_shared<const List>(List{std::move(items)});
}
Value MakeDict(Dict dict) {
  return std::make_shared<const Dict>(std::move(dict));
}

std::string_view KindOf(const Value& value) {
  constexpr std::array<std::string_view, std::variant_size_v<Value>> kKinds = {
      "an undefined value", "none",     "a truth value", "an integer",
      "a real number",      "a string", "a list",        "a dict",
      "a namespace",        "a loop",   "a generator",   "a function"};
  return kKinds[value.index()];
}

bool IsTrue(const Value& value) {
  if (Is<Undefined>(value) || Is<None>(value)) return false;
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag;
  if (IsNumber(value)) return NumberOf(value) != 0;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return !text->empty();
  }
  if (IsList(value)) {
    return !std::get<std::shared_ptr<const List>>(value)->items.empty();
  }
  if (IsDict(value)) {
    return !std::get<std::shared_ptr<const Dict>>(value)->items.empty();
  }
  return true;
}

bool IsNumber(const Value& value) {
  return Is<bool>(value) || Is<int64_t>(value) || Is<double>(value);
}

double NumberOf(const Value& value) {
  if (const auto* const flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  if (const auto* const whole = std::get_if<int64_t>(&value)) {
    return static_cast<double>(*whole);
  }
  return std::get<double>(value);
}

bool Equal(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) return NumberOf(a) == NumberOf(b);
  if (a.index() != b.index()) return false;
  if (Is<Undefined>(a) || Is<None>(a)) return true;
  if (const auto* const text = std::get_if<std::string>(&a)) {
    return *text == std::get<std::string>(b);
  }
  if (IsList(a)) {
    return std::ranges::equal(std::get<std::shared_ptr<const List>>(a)->items,
                              std::get<std::shared_ptr<const List>>(b)->items,
                              Equal);
  }
  if (IsDict(a)) {
    const Dict& left = *std::get<std::shared_ptr<const Dict>>(a);
    const Dict& right = *std::get<std::shared_ptr<const Dict>>(b);
    return left.items.size() == right.items.size() &&
           std::ranges::all_of(left.items, [&](const auto& item) {
             const Value* const other = right.Find(item.first);
             return other != nullptr && Equal(item.second, *other);
           });
  }
  return false;
}

Result<std::string> TextOf(const Value& value) {
  if (Is<Undefined>(value)) return std::string();
  if (Is<None>(value)) return std::string("None");
  if (const auto* const flag = std::get_if<bool>(&value)) {
    return std::string(*flag ? "True" : "False");
  }
  if (const auto* const whole = std::get_if<int64_t>(&value)) {
    return StrCat(*whole);
  }
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  return NoText(value);
}

Result<bool> Less(const Value& a, const Value& b) {
  if (IsNumber(a) && IsNumber(b)) return NumberOf(a) < NumberOf(b);
  if (Is<std::string>(a) && Is<std::string>(b)) {
    return std::get<std::string>(a) < std::get<std::string>(b);
  }
  return InvalidArgumentError("it compares ", KindOf(a), " with ", KindOf(b));
}

Result<bool> Contains(const Value& container, const Value& item) {
  if (const auto* const text = std::get_if<std::string>(&container)) {
    if (!Is<std::string>(item)) {
      return InvalidArgumentError("it looks for ", KindOf(item),
                                  " in a string");
    }
    return text->find(std::get<std::string>(item)) != std::string::npos;
  }
  if (IsDict(container)) {
    return Is<std::string>(item) &&
           std::get<std::shared_ptr<const Dict>>(container)->Find(
               std::get<std::string>(item)) != nullptr;
  }
  STOWAGE_ASSIGN_OR_RETURN(const auto list, Iterate(container));
  return std::ranges::any_of(
      list->items, [&](const Value& one) { return Equal(one, item); });
}

Result<std::shared_ptr<const List>> Iterate(const Value& value) {
  if (IsList(value)) return std::get<std::shared_ptr<const List>>(value);
  if (const auto* const generator = std::get_if<Generator>(&value)) {
    return generator->items;
  }
  std::vector<Value> items;
  if (const auto* const text = std::get_if<std::string>(&value)) {
    for (const std::string_view one : Characters(*text)) {
      items.emplace_back(std::string(one));
    }
  } else if (IsDict(value)) {
    for (const auto& [key, ignored] :
         std::get<std::shared_ptr<const Dict>>(value)->items) {
      items.emplace_back(key);
    }
  } else if (!Is<Undefined>(value)) {
    return InvalidArgumentError("it iterates over ", KindOf(value));
  }
  return std::make_shared<const List>(List{std::move(items)});
}

Result<int64_t> LengthOf(const Value& value) {
  if (Is<Generator>(value))
    return InvalidArgumentError("it takes a generator's length");
  STOWAGE_ASSIGN_OR_RETURN(const auto list, Iterate(value));
  return std::ssize(list->items);
}

Result<std::string> JsonOf(const Value& value) {
  if (Is<None>(value)) return std::string("null");
  if (const auto* const flag = std::get_if<bool>(&value)) {
    return std::string(*flag ? "true" : "false");
  }
  if (const auto* const text = std::get_if<std::string>(&value)) {
    return nlohmann::json(*text).dump(-1, ' ', false,
                                      nlohmann::json::error_handler_t::replace);
  }
  if (IsList(value)) {
    std::string all = "[";
    for (const Value& item :
         std::get<std::shared_ptr<const List>>(value)->items) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string one, JsonOf(item));
      all += StrCat(all.size() == 1 ? "" : ", ", one);
    }
    return all + "]";
  }
  if (IsDict(value)) {
    std::string all = "{";
    for (const auto& [key, item] :
         std::get<std::shared_ptr<const Dict>>(value)->items) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string name, JsonOf(Value(key)));
      STOWAGE_ASSIGN_OR_RETURN(const std::string one, JsonOf(item));
      all += StrCat(all.size() == 1 ? "" : ", ", name, ": ", one);
    }
    return all + "}";
  }
  if (const auto* const whole = std::get_if<int64_t>(&value)) {
    return StrCat(*whole);
  }
  return NoText(value);
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> all;
  while (!text.empty()) {
    const size_t bytes = text::FirstCharacter(text).bytes;
    all.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return all;
}

std::string_view Strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const text::Character first = text::FirstCharacter(text);
    if (!IsSpace(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    // The last character begins at the last byte that is not a continuation.
    size_t begin = text.size() - 1;
    while (begin > 0 &&
           (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) {
      --begin;
    }
    const text::Character last = text::FirstCharacter(text.substr(begin));
    if (!IsSpace(last.code) || begin + last.bytes != text.size()) break;
    text = text.substr(0, begin);
  }
  return text;
}

}  // namespace stowage::jinja
