#ifndef STOWAGE_TEXT_JINJA_VALUE_H_
#define STOWAGE_TEXT_JINJA_VALUE_H_

// The values that a Jinja template computes with, with Python's truth, equality, order and
// text, and the filters, tests, methods and operators on them. An unknown filter, test or
// method is an error only when it is called: chat templates have parts for tools.
//
//   Result<Value> text = ApplyFilter("trim", std::string(" a "), {});  // "a"
//
// Errors of all functions: kUnsupported for names and arguments that are not implemented;
// kInvalidArgument where Python raises an exception.

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

/// The characters of `text`, which is UTF-8.
std::vector<std::string_view> Characters(std::string_view text);
/// As str.strip, lstrip or rstrip.
std::string_view Strip(std::string_view text, bool left = true,
                       bool right = true);

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};

  /// The argument at a position or of a name; null if it is not given.
  const Value* Find(size_t position, std::string_view name) const;
};

/// `of | name(arguments)`.
Result<Value> ApplyFilter(std::string_view name, const Value& of,
                          const Arguments& arguments);
/// `of is name(arguments)`.
Result<bool> ApplyTest(std::string_view name, const Value& of,
                       const Arguments& arguments);
/// `of.name(arguments)`.
Result<Value> CallMethod(std::string_view name, const Value& of,
                         const Arguments& arguments);

/// `of.name`, not called.
Result<Value> AttributeOf(const Value& of, std::string_view name);
/// `of[index]`.
Result<Value> ItemOf(const Value& of, const Value& index);
/// `of[begin:end:step]`; an omitted bound is None.
Result<Value> SliceOf(const Value& of, const Value& begin, const Value& end,
                      const Value& step);
/// Arithmetic, and concatenation of strings and lists by + and ~.
Result<Value> Operate(std::string_view operation, const Value& left,
                      const Value& right);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_VALUE_H_
