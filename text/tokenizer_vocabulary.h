#ifndef STOWAGE_TEXT_TOKENIZER_VOCABULARY_H_
#define STOWAGE_TEXT_TOKENIZER_VOCABULARY_H_

// Takes vocabulary and merges of a tokenizer.json as they come by, so that no tree is made
// of them: they are nearly all of a file.
//
//   VocabularyReader reader;
//   Json::parse(json, [&](int depth, Json::parse_event_t event, Json& value) {
//     return reader.Keep(depth, event, value);
//   });
//   STOWAGE_ASSIGN_OR_RETURN(parts.tokens, reader.Tokens());

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stowage::text {

class VocabularyReader {
 public:
  using Json = nlohmann::json;

  /// Whether to keep the value in the tree: nlohmann's parser_callback_t.
  bool Keep(int depth, Json::parse_event_t event, Json& value);

  /// What is wrong with what came by; empty: nothing.
  const std::string& error() const { return error_; }

  // Once all is read:

  /// By id, "" where an id has none. Errors kInvalidArgument: two with one id, and ids
  /// far beyond the number of tokens.
  Result<std::vector<std::string>> Tokens();
  /// Of a list, by id; else empty.
  std::vector<double> TakeScores() { return std::move(scores_); }
  /// "left right".
  std::vector<std::string> TakeMerges() { return std::move(merges_); }

 private:
  bool InVocabulary() const { return section_ == "model" && part_ == "vocab"; }
  bool InMerges() const { return section_ == "model" && part_ == "merges"; }
  bool KeepOfVocabulary(int depth, Json::parse_event_t event,
                        const Json& value);
  bool KeepOfMerges(int depth, Json::parse_event_t event, const Json& value);
  bool KeepOfList(int depth, Json::parse_event_t event, const Json& value);
  void AddToken(const Json& id);
  void AddScored();
  void AddMerge(std::string merge);
  void AddPair();

  std::vector<std::pair<int32_t, std::string>> tokens_;
  std::vector<std::string> merges_;
  std::string section_, part_, token_, error_;
  bool is_list_ = false;  // the vocabulary, of pairs of a text and a score
  std::vector<double> scores_;
  std::vector<Json> entry_;  // the pair that comes by
  std::vector<std::string> pair_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TOKENIZER_VOCABULARY_H_
