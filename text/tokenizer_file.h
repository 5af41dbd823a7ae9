#ifndef STOWAGE_TEXT_TOKENIZER_FILE_H_
#define STOWAGE_TEXT_TOKENIZER_FILE_H_

// Tokenizers of files: tokenizer.json, as Hugging Face's libraries write it, SentencePiece's
// models, and GGUF.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("SmolLM2/tokenizer.json");
//   tokenizer = ReadTokenizer("llama-2/tokenizer.model");
//   tokenizer = ReadTokenizer("SmolLM2-135M-Instruct.Q4_1.gguf");

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// The tokenizer of a tokenizer.json; of a SentencePiece model, whose name has ".model" in
/// it, with the bos and the eos that a tokenizer_config.json beside it adds; of a folder's, or
/// beside a safetensors file or an index of some, tokenizer.json, tokenizer.model or
/// spiece.model, the first that is there; or of a GGUF file, known by its first bytes, of
/// which it reads the header alone. Errors, with the file's name: those of InputFile::Open, ReadFile,
/// ParseTokenizerParts, ParseSentencePieceModel, PartsOf and Tokenizer::Create; of a GGUF file
/// those of ReadGgufHeader, GgufTokenizerOf and PartsOf.
Result<Tokenizer> ReadTokenizer(const std::string& path);

/// Of that tokenizer, the file, which need not be there, and the parts; errors likewise, without
/// the file's name.
std::string TokenizerFileOf(const std::string& path);
Result<TokenizerParts> ReadTokenizerParts(const std::string& path);

/// The parts of a tokenizer, of the contents of such a file. Errors:
/// kInvalidArgument: no JSON, or what should be there is missing, of another type or
/// too large; kUnsupported, with its name: a part that is not known (docs/tokens.md).
Result<TokenizerParts> ParseTokenizerParts(std::string_view json);

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_FILE_H_
