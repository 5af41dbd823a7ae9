#ifndef STOWAGE_TEXT_TOKENIZER_FILE_H_
#define STOWAGE_TEXT_TOKENIZER_FILE_H_

// Tokenizers of files: tokenizer.json, as Hugging Face's libraries write it, and GGUF.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("SmolLM2/tokenizer.json");
//   tokenizer = ReadTokenizer("SmolLM2-135M-Instruct.Q4_1.gguf");

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// The tokenizer of a tokenizer.json, of the one in a folder or beside a safetensors file,
/// or of a GGUF file, known by its first bytes, of which it reads the header alone. Errors, with the file's name:
/// those of InputFile::Open, ReadFile, ParseTokenizerParts and Tokenizer::Create; of a
/// GGUF file those of ReadGgufHeader, GgufTokenizerOf and PartsOf.
Result<Tokenizer> ReadTokenizer(const std::string& path);

/// The parts of a tokenizer, of the contents of such a file. Errors:
/// kInvalidArgument: no JSON, or what should be there is missing, of another type or
/// too large; kUnsupported, with its name: a part that is not known (docs/tokens.md).
Result<TokenizerParts> ParseTokenizerParts(std::string_view json);

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_FILE_H_
