#ifndef STOWAGE_TEXT_TEXT_H_
#define STOWAGE_TEXT_TEXT_H_

// The umbrella header of text/, which provides tokenizers and chat templates.
//
//   Result<Tokenizer> tokenizer = ReadTokenizer("tokenizer.json");

#include "text/gguf_tokenizer.h"  // IWYU pragma: export
#include "text/jinja.h"           // IWYU pragma: export
#include "text/sentence_piece.h"  // IWYU pragma: export
#include "text/text_template.h"   // IWYU pragma: export
#include "text/tokenizer.h"       // IWYU pragma: export
#include "text/tokenizer_file.h"  // IWYU pragma: export

#endif  // STOWAGE_TEXT_TEXT_H_
