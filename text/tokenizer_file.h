#ifndef STOWAGE_TEXT_TOKENIZER_FILE_H_
#define STOWAGE_TEXT_TOKENIZER_FILE_H_

// Tokenizers of tokenizer.json files, as Hugging Face's libraries write them.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("SmolLM2/tokenizer.json");

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// Errors: those of ReadFile, ParseTokenizerParts and Tokenizer::Create.
Result<Tokenizer> ReadTokenizer(const std::string& path);

/// The parts of a tokenizer, of the contents of such a file. Errors:
/// kInvalidArgument: no JSON, or what should be there is missing, of another type or
/// too large; kUnsupported, with its name: a part that is not known (docs/tokens.md).
Result<TokenizerParts> ParseTokenizerParts(std::string_view json);

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_FILE_H_
