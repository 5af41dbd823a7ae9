#ifndef STOWAGE_TEXT_JINJA_PARSER_H_
#define STOWAGE_TEXT_JINJA_PARSER_H_

// The tokens and the syntax tree of a Jinja template, as Jinja 3.1 parses it with trim_blocks
// and lstrip_blocks: comments, and white space around tags, are dropped.
//
//   STOWAGE_ASSIGN_OR_RETURN(const Body body, Parse("Hello {{ name }}!"));

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

struct Token {
  enum class Kind {
    kData,  // text outside of tags
    kOutputBegin,
    kOutputEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kInteger,
    kReal,
    kString,  // text is its value
    kOperator,
    kEnd,  // of the template
  };
  Kind kind;
  std::string text;
  int64_t line;
};

/// Error kInvalidArgument, with the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

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
    kScope,  // bodies[0], with variables of its own
    kBreak,
    kContinue,
  };
  Kind kind;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<std::unique_ptr<const Expression>> expressions = {};
  std::vector<Body> bodies = {};
};

/// Errors, with the line: kInvalidArgument for invalid syntax, kUnsupported for syntax that
/// is not implemented.
Result<Body> Parse(std::string_view source);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_PARSER_H_
