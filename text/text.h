#ifndef STOWAGE_TEXT_TEXT_H_
#define STOWAGE_TEXT_TEXT_H_

// The room's facade: tokenizers.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("tokenizer.json");

#include "text/tokenizer.h"       // IWYU pragma: export
#include "text/tokenizer_file.h"  // IWYU pragma: export

#endif  // STOWAGE_TEXT_TEXT_H_
