#ifndef STOWAGE_TESTS_TOOLS_LETTERS_TOKENIZER_H_
#define STOWAGE_TESTS_TOOLS_LETTERS_TOKENIZER_H_

// A tokenizer.json of 57 tokens, for the tiny models of tests/goldens/pretrained.

#include <nlohmann/json.hpp>
#include <string>

#include "tests/tools/run_stowage.h"

namespace stowage::testing {

/// The path of one of letters, a space, a full stop, a line's end, and "th" and "he" as
/// one token each, with some added tokens.
inline std::string LettersTokenizer(
    const nlohmann::json& added = nlohmann::json::array()) {
  nlohmann::json vocabulary = nlohmann::json::object();
  const auto add = [&](const std::string& token) {
    vocabulary[token] = vocabulary.size();
  };
  for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c));
  for (char c = 'A'; c <= 'Z'; ++c) add(std::string(1, c));
  for (const char* token : {"\u0120", ".", "\u010a", "th", "he"}) add(token);
  const nlohmann::json file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"t h", "h e"}}}}};
  return WriteTemp("tokenizer.json", file.dump());
}

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_LETTERS_TOKENIZER_H_
