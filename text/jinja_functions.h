#ifndef STOWAGE_TEXT_JINJA_FUNCTIONS_H_
#define STOWAGE_TEXT_JINJA_FUNCTIONS_H_

// The filters, tests and methods of values that templates in Jinja call. One that is not
// there is an error only where it is called: templates have parts for tools.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

struct Arguments {
  std::vector<Value> values = {};
  std::vector<std::pair<std::string, Value>> named = {};

  /// The argument at a position or of a name; null where it is not given.
  const Value* Find(size_t position, std::string_view name) const;
};

// Errors: kUnsupported for a name or arguments that are not read; kInvalidArgument where
// Python raises an exception.
Result<Value> ApplyFilter(std::string_view name, const Value& of,
                          const Arguments& arguments);
Result<bool> ApplyTest(std::string_view name, const Value& of,
                       const Arguments& arguments);
/// `of.name(arguments)`.
Result<Value> CallMethod(std::string_view name, const Value& of,
                         const Arguments& arguments);

/// `of.name`, where no method is meant.
Result<Value> AttributeOf(const Value& of, std::string_view name);
/// `of[index]`.
Result<Value> ItemOf(const Value& of, const Value& index);
/// `of[begin:end:step]`; a bound that is left away is none.
Result<Value> SliceOf(const Value& of, const Value& begin, const Value& end,
                      const Value& step);
/// Arithmetic, and the joining of strings and lists by + and ~.
Result<Value> Operate(std::string_view operation, const Value& left,
                      const Value& right);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_FUNCTIONS_H_
