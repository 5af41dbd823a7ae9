#ifndef STOWAGE_TEXT_JINJA_LEXER_H_
#define STOWAGE_TEXT_JINJA_LEXER_H_

// The tokens of a template in Jinja. White space around tags is gone as Jinja 3.1 has it
// with trim_blocks and lstrip_blocks, and so are comments.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

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
    kString,  // its value
    kOperator,
    kEnd,  // of the template
  };
  Kind kind;
  std::string text;
  int64_t line;
};

/// Error kInvalidArgument, which names the line.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace stowage::jinja

#endif  // STOWAGE_TEXT_JINJA_LEXER_H_
