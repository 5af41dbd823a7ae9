#ifndef STOWAGE_TESTS_TEXT_GGUF_TOKENIZER_BYTES_H_
#define STOWAGE_TESTS_TEXT_GGUF_TOKENIZER_BYTES_H_

// Builds the bytes of a GGUF file that contains a tokenizer but no weights.
//
//   const std::string file = GgufTokenizerBytes(gguf);

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/formats/gguf_bytes.h"
#include "text/text.h"

namespace stowage::testing {

inline std::string GgufTokenizerBytes(const GgufTokenizer& gguf) {
  const auto number = [](GgufKind kind) { return static_cast<uint32_t>(kind); };
  const bool has_scores = gguf.model == "llama" || gguf.model == "t5";
  const bool is_unigram = gguf.model == "t5";
  const uint64_t values = 5 + (is_unigram ? 2 : 0) + (gguf.bos ? 1 : 0) +
                          (gguf.add_bos ? 1 : 0) + (gguf.eos ? 1 : 0) +
                          (gguf.add_eos ? 1 : 0);
  GgufBytes file;
  file.Start(3, 0, values);
  const auto add_text = [&](const char* key, const std::string& text) {
    file.Text(key).U32(number(GgufKind::kText)).Text(text);
  };
  const auto add_texts = [&](const char* key,
                             const std::vector<std::string>& texts) {
    file.Text(key).U32(number(GgufKind::kArray)).U32(number(GgufKind::kText));
    file.U64(texts.size());
    for (const std::string& text : texts) file.Text(text);
  };
  add_text("tokenizer.ggml.model", gguf.model);
  add_texts("tokenizer.ggml.tokens", gguf.tokens);
  if (has_scores) {
    file.Text("tokenizer.ggml.scores").U32(number(GgufKind::kArray));
    file.U32(number(GgufKind::kF32)).U64(gguf.scores.size());
    for (const double score : gguf.scores) {
      file.U32(std::bit_cast<uint32_t>(static_cast<float>(score)));
    }
    file.Text("tokenizer.ggml.add_space_prefix").U32(number(GgufKind::kBool));
    file.U8(gguf.add_space ? 1 : 0);
    if (is_unigram) {
      file.Text("tokenizer.ggml.remove_extra_whitespaces");
      file.U32(number(GgufKind::kBool)).U8(gguf.collapse_spaces ? 1 : 0);
      file.Text("tokenizer.ggml.precompiled_charsmap");
      file.U32(number(GgufKind::kArray)).U32(number(GgufKind::kU8));
      file.U64(gguf.charsmap.size());
      for (const char c : gguf.charsmap) file.U8(static_cast<uint8_t>(c));
    }
  } else {
    add_text("tokenizer.ggml.pre", gguf.pre);
    add_texts("tokenizer.ggml.merges", gguf.merges);
  }
  file.Text("tokenizer.ggml.token_type").U32(number(GgufKind::kArray));
  file.U32(number(GgufKind::kI32)).U64(gguf.token_types.size());
  for (const int32_t type : gguf.token_types) {
    file.U32(static_cast<uint32_t>(type));
  }
  if (gguf.bos) {
    file.Text("tokenizer.ggml.bos_token_id").U32(number(GgufKind::kI32));
    file.U32(static_cast<uint32_t>(*gguf.bos));
  }
  if (gguf.add_bos) {
    file.Text("tokenizer.ggml.add_bos_token").U32(number(GgufKind::kBool));
    file.U8(*gguf.add_bos ? 1 : 0);
  }
  if (gguf.eos) {
    file.Text("tokenizer.ggml.eos_token_id").U32(number(GgufKind::kI32));
    file.U32(static_cast<uint32_t>(*gguf.eos));
  }
  if (gguf.add_eos) {
    file.Text("tokenizer.ggml.add_eos_token").U32(number(GgufKind::kBool));
    file.U8(1);
  }
  return file.bytes();
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TEXT_GGUF_TOKENIZER_BYTES_H_
