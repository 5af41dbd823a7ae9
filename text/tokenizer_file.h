#ifndef STOWAGE_TEXT_TOKENIZER_FILE_H_
#define STOWAGE_TEXT_TOKENIZER_FILE_H_

// Reads tokenizers from files: tokenizer.json of Hugging Face, SentencePiece models, and GGUF
// files.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("SmolLM2/tokenizer.json");
//   tokenizer = ReadTokenizer("llama-2/tokenizer.model");
//   tokenizer = ReadTokenizer("SmolLM2-135M-Instruct.Q4_1.gguf");

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage {

/// Reads the tokenizer of `path`, which must be one of the following.
///  - A tokenizer.json.
///  - A SentencePiece model, with ".model" in its file name. A tokenizer_config.json in the same
///    folder specifies whether bos and eos are added.
///  - A folder, a safetensors file or its index. The first of tokenizer.json, tokenizer.model and
///    spiece.model in the folder is read.
///  - A GGUF file, recognized by its first bytes. Only its header is read.
/// Errors name the file. Propagates errors of InputFile::Open, ReadFile, ReadGgufHeader,
/// ParseTokenizerParts, ParseSentencePieceModel, GgufTokenizerOf, PartsOf and Tokenizer::Create.
Result<Tokenizer> ReadTokenizer(const std::string& path);

/// Returns the path of the file that ReadTokenizer(path) reads. The file may not exist.
std::string TokenizerFileOf(const std::string& path);
/// Returns the parts of the tokenizer that ReadTokenizer(path) reads. Returns the errors of
/// ReadTokenizer except for the errors of Tokenizer::Create. Not all errors name the file.
Result<TokenizerParts> ReadTokenizerParts(const std::string& path);

/// Parses a tokenizer.json. Returns kInvalidArgument for invalid JSON, and for values that are
/// missing, too large or of the wrong type. Returns kUnsupported, naming the component, for an
/// unknown component (docs/guides/tokens.md).
Result<TokenizerParts> ParseTokenizerParts(std::string_view json);

}  // namespace stowage

#endif  // STOWAGE_TEXT_TOKENIZER_FILE_H_
