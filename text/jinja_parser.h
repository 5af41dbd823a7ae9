#ifndef STOWAGE_TEXT_JINJA_PARSER_H_
#define STOWAGE_TEXT_JINJA_PARSER_H_

// Tokenizes and parses Jinja templates as Jinja 3.1 does with trim_blocks and lstrip_blocks.
// Comments are dropped, as is the white space that these options remove around tags.
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
    kString,  // `text` is its value
    kOperator,
    kEnd,  // end of the template
  };
  Kind kind;
  std::string text;
  int64_t line;
};

/// Splits a template into tokens. Returns kInvalidArgument, naming the line, for an invalid token.
Result<std::vector<Token>> Tokenize(std::string_view source);

struct Expression {
  enum class Kind {
    kLiteral,      // value
    kName,         // text
    kList,         // parts
    kDict,         // parts: key, value, key, value, ...
    kAttribute,    // parts[0].text
    kItem,         // parts[0][parts[1]]
    kSlice,        // parts[0][parts[1]:parts[2]:parts[3]], bounds may be null
    kCall,         // parts[0](parts[1], ..., named)
    kFilter,       // parts[0]|text(parts[1], ..., named)
    kTest,         // parts[0] is text(parts[1], ..., named)
    kNot,          // not parts[0]
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
    kIf,      // a condition per body; one more body is the else branch
    kFor,  // names; expressions: the iterable and a condition or null; bodies:
           // the loop and its else branch
    kSet,  // names[0] or names[0].text = expressions[0]
    kSetBlock,  // names[0] = the output of bodies[0]
    kMacro,     // text, names of params, their defaults or null; bodies[0]
    kScope,     // bodies[0], in a new scope of variables
    kBreak,
    kContinue,
  };
  Kind kind;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<std::unique_ptr<const Expression>> expressions = {};
  std::vector<Body> bodies = {};
};

/// Parses a template. Returns kInvalidArgument for invalid syntax, and kUnsupported for syntax that
/// is not implemented. Errors name the line.
Result<Body> Parse(std::string_view source);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_PARSER_H_
