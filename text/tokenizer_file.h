#ifndef STOWAGE_TEXT_TOKENIZER_FILE_H_
#define STOWAGE_TEXT_TOKENIZER_FILE_H_

// Reads tokenizers from files: Hugging Face's tokenizer.json, SentencePiece's models, GGUF.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("SmolLM2/tokenizer.json");
//   tokenizer = ReadTokenizer("llama-2/tokenizer.model");
//   tokenizer = ReadTokenizer("SmolLM2-135M-Instruct.Q4_1.gguf");

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// Reads the tokenizer of `path`, which is one of
///  - a tokenizer.json;
///  - a SentencePiece model, with ".model" in its name; a tokenizer_config.json beside it says
///    whether bos and eos are added;
///  - a folder, a safetensors file or its index: the first of tokenizer.json, tokenizer.model
///    and spiece.model in the folder;
///  - a GGUF file, recognized by its first bytes, of which only the header is read.
/// Errors, with the file's name: those of InputFile::Open, ReadFile, ReadGgufHeader,
/// ParseTokenizerParts, ParseSentencePieceModel, GgufTokenizerOf, PartsOf and
/// Tokenizer::Create.
Result<Tokenizer> ReadTokenizer(const std::string& path);

/// The file that ReadTokenizer reads; it may be missing.
std::string TokenizerFileOf(const std::string& path);
/// The parts of that tokenizer. Errors as above, without the file's name.
Result<TokenizerParts> ReadTokenizerParts(const std::string& path);

/// Parses a tokenizer.json. Errors: kInvalidArgument for invalid JSON, and values that are
/// missing, of another type or too large; kUnsupported, with its name, for an unknown part
/// (docs/guides/tokens.md).
Result<TokenizerParts> ParseTokenizerParts(std::string_view json);

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_FILE_H_
