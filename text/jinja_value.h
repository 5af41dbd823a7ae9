#ifndef STOWAGE_TEXT_JINJA_VALUE_H_
#define STOWAGE_TEXT_JINJA_VALUE_H_

// Defines the values of a Jinja template, and their filters, tests, methods and operators. Truth,
// equality, order and conversion to strings are the same as in Python. An unknown filter, test or
// method is an error only when it is called, since chat templates also contain code for tools that
// is not executed.
//
//   Result<Value> text = ApplyFilter("trim", std::string(" a "), {});  // "a"
//
// Functions that return a Result return kUnsupported for names and arguments that are not
// implemented, and kInvalidArgument where Python raises an exception.

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
  std::string name;  // used in errors
};
struct None {};
/// An object whose attributes a template may set.
struct Namespace {
  std::shared_ptr<Dict> attributes;
};
/// The variable `loop` in one iteration.
struct Loop {
  std::shared_ptr<const List> items;
  size_t index = 0;
};
/// An iterator, which is true in conditions even if it yields nothing.
struct Generator {
  std::shared_ptr<const List> items;
};
struct Function {
  std::string name;                  // if a built-in function
  const Statement* macro = nullptr;  // if a macro
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

/// Returns the type of `value` for error messages, such as "a string" or "a list".
std::string_view KindOf(const Value& value);
bool IsTrue(const Value& value);
/// Returns whether `value` is a bool, an integer or a real number.
bool IsNumber(const Value& value);
double NumberOf(const Value& value);
/// Returns the result of Python's `a == b`.
bool Equal(const Value& a, const Value& b);

/// Returns the result of Python's `str(value)`.
Result<std::string> TextOf(const Value& value);
/// Returns the result of Python's `a < b`.
Result<bool> Less(const Value& a, const Value& b);
/// Returns the result of Python's `item in container`.
Result<bool> Contains(const Value& container, const Value& item);
/// Returns the result of Python's `list(value)`.
Result<std::shared_ptr<const List>> Iterate(const Value& value);
Result<int64_t> LengthOf(const Value& value);
/// Returns the result of Python's `json.dumps(value, ensure_ascii=False)`.
Result<std::string> JsonOf(const Value& value);

/// Returns the characters of `text`, which must be UTF-8.
std::vector<std::string_view> Characters(std::string_view text);
/// Returns `text` without white space at the left, the right or both, like Python's str.lstrip,
/// rstrip and strip.
std::string_view Strip(std::string_view text, bool left = true,
                       bool right = true);

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};

  /// Returns the argument at `position`, or the argument named `name` if there are fewer positional
  /// arguments, or null if neither is given.
  const Value* Find(size_t position, std::string_view name) const;
};

/// Returns `of | name(arguments)`.
Result<Value> ApplyFilter(std::string_view name, const Value& of,
                          const Arguments& arguments);
/// Returns `of is name(arguments)`.
Result<bool> ApplyTest(std::string_view name, const Value& of,
                       const Arguments& arguments);
/// Returns `of.name(arguments)`.
Result<Value> CallMethod(std::string_view name, const Value& of,
                         const Arguments& arguments);

/// Returns the attribute `of.name`. Does not call methods.
Result<Value> AttributeOf(const Value& of, std::string_view name);
/// Returns `of[index]`.
Result<Value> ItemOf(const Value& of, const Value& index);
/// Returns `of[begin:end:step]`. An omitted bound is None.
Result<Value> SliceOf(const Value& of, const Value& begin, const Value& end,
                      const Value& step);
/// Returns the result of an arithmetic operator, of + for strings and lists, or of ~.
Result<Value> Operate(std::string_view operation, const Value& left,
                      const Value& right);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_VALUE_H_
