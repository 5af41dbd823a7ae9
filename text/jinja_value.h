#ifndef STOWAGE_TEXT_JINJA_VALUE_H_
#define STOWAGE_TEXT_JINJA_VALUE_H_

// The values that a template in Jinja computes with, and what Python makes of them:
// their truth, equality, order and text.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stowage::jinja {

struct Statement;
struct List;
struct Dict;

struct Undefined {
  std::string name;  // for errors
};
struct None {};
/// An object whose attributes a template may set.
struct Namespace {
  std::shared_ptr<Dict> attributes;
};
/// `loop` in one iteration.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
};
/// An iterator, which is true even if it yields nothing.
struct Generator {
  std::shared_ptr<const List> items;
};
struct Function {
  std::string name;                  // of a built-in function
  const Statement* macro = nullptr;  // else a macro
};

using Value =
    std::variant<Undefined, None, bool, int64_t, double, std::string,
                 std::shared_ptr<const List>, std::shared_ptr<const Dict>,
                 Namespace, Loop, Generator, Function>;

struct List {
  std::vector<Value> items;
};
struct Dict {
  std::vector<std::pair<std::string, Value>> items;  // in order of insertion

  const Value* Find(std::string_view key) const;
  void Set(std::string_view key, Value value);
};

Value MakeList(std::vector<Value> items);
Value MakeDict(Dict dict);

template <typename T>
bool Is(const Value& value) {
  return std::holds_alternative<T>(value);
}
inline bool IsList(const Value& value) {
  return Is<std::shared_ptr<const List>>(value);
}
inline bool IsDict(const Value& value) {
  return Is<std::shared_ptr<const Dict>>(value);
}

/// "a string", "a list": for errors.
std::string_view KindOf(const Value& value);
bool IsTrue(const Value& value);
/// A bool, an integer or a real number.
bool IsNumber(const Value& value);
double NumberOf(const Value& value);
/// As `a == b`.
bool Equal(const Value& a, const Value& b);

// Errors: kUnsupported where Python has an answer and this code none; kInvalidArgument
// where Python raises an exception.

/// As `str(value)`.
Result<std::string> TextOf(const Value& value);
/// As `a < b`.
Result<bool> Less(const Value& a, const Value& b);
/// As `item in container`.
Result<bool> Contains(const Value& container, const Value& item);
/// As `list(value)`.
Result<std::shared_ptr<const List>> Iterate(const Value& value);
Result<int64_t> LengthOf(const Value& value);
/// As `json.dumps(value, ensure_ascii=False)`.
Result<std::string> JsonOf(const Value& value);

/// The characters of UTF-8, one after the other.
std::vector<std::string_view> Characters(std::string_view text);
/// Without white space, as str.strip has it, at either end or one of them.
std::string_view Strip(std::string_view text, bool left = true,
                       bool right = true);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_VALUE_H_
