#ifndef STOWAGE_TEXT_JINJA_PARSER_H_
#define STOWAGE_TEXT_JINJA_PARSER_H_

// The syntax tree of a template in Jinja, parsed as Jinja 3.1 does with trim_blocks and
// lstrip_blocks.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

struct Expression {
  enum class Kind {
    kLiteral,    // value
    kName,       // text
    kList,       // parts
    kDict,       // parts: key, value, key, value, ...
    kAttribute,  // parts[0].text
    kItem,       // parts[0][parts[1]]
    kSlice,   // parts[0][parts[1]:parts[2]:parts[3]], each of them may be null
    kCall,    // parts[0](parts[1], ..., named)
    kFilter,  // parts[0]|text(parts[1], ..., named)
    kTest,    // parts[0] is text(parts[1], ..., named)
    kNot,     // not parts[0]
    kNegative,     // -parts[0]
    kAnd,          // parts[0] and parts[1]
    kOr,           // parts[0] or parts[1]
    kBinary,       // parts[0] text parts[1], arithmetic and ~
    kCompare,      // parts[0] text parts[1]
    kConditional,  // parts[0] if parts[1] else parts[2], which may be null
  };
  Kind kind;
  std::string text = {};
  Value value = {};
  std::vector<std::unique_ptr<const Expression>> parts = {};
  std::vector<std::pair<std::string, std::unique_ptr<const Expression>>> named =
      {};
};

struct Statement;
using Body = std::vector<std::unique_ptr<const Statement>>;

struct Statement {
  enum class Kind {
    kText,    // text
    kOutput,  // expressions[0]
    kIf,      // a condition for each body; one more body is the else
    kFor,     // names, expressions: iterable and a condition that may be null;
              // bodies: of the loop and of its else
    kSet,     // names[0] or names[0].text = expressions[0]
    kSetBlock,  // names[0] = what bodies[0] writes
    kMacro,  // text, names of params, their defaults, which may be null; bodies[0]
    kScope,  // bodies[0]: a block for which variables are its own
    kBreak,
    kContinue,
  };
  Kind kind;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<std::unique_ptr<const Expression>> expressions = {};
  std::vector<Body> bodies = {};
};

/// Errors: kInvalidArgument for what is no Jinja, kUnsupported for what is not read here;
/// both say in which line.
Result<Body> Parse(std::string_view source);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_PARSER_H_
