#ifndef STOWAGE_DATA_EXAMPLES_H_
#define STOWAGE_DATA_EXAMPLES_H_

// The data for fine-tuning a language model: JSON lines, one example each, as tokens of which
// some are learned and the others only read.
//
//   {"prompt": "2 + 2 = ", "completion": "4"}                  the completion is learned
//   {"messages": [{"role": "user", "content": "Hello"},
//                 {"role": "assistant", "content": "Hi"}]}     every answer is
//   {"text": "Once upon a time"}                               all of it is
//
// Preferences (nn/losses.h) are learned from pairs of answers, or from answers labeled as
// good or bad. A prompt and answers are texts or lists of messages; without a prompt, it is the
// messages that both conversations share at the beginning.
//
//   {"prompt": "2 + 2 = ", "chosen": "4", "rejected": "5"}
//   {"chosen": [{"role": "user", ...}, {"role": "assistant", "content": "Hi"}],
//    "rejected": [{"role": "user", ...}, {"role": "assistant", "content": "What?"}]}
//   {"prompt": "2 + 2 = ", "completion": "5", "label": false}
//
// A message with "weight": 0 is read and not learned. A prompt or a text begins with the
// tokens that the tokenizer puts before every text; a conversation with those of its template.
//
//   Result<TokenExamples> examples =
//       ReadExamples(text, "chats.jsonl", tokenizer, {.chat = &chat, .end = 2});
//   examples->tokens(0), examples->learnt(0)

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja.h"
#include "text/tokenizer.h"

namespace stowage {

class TokenExamples {
 public:
  size_t size() const { return ends_.size(); }
  /// The tokens of example i, at least two.
  std::span<const int32_t> tokens(size_t i) const {
    return std::span(tokens_).subspan(Begin(i), ends_[i] - Begin(i));
  }
  /// For each token of example i, whether it is learned, 1 or 0.
  std::span<const uint8_t> learnt(size_t i) const {
    return std::span(learnt_).subspan(Begin(i), ends_[i] - Begin(i));
  }

  /// For kJudged, whether each answer is good.
  const std::vector<uint8_t>& good() const { return good_; }
  void NoteGood(bool good) { good_.push_back(good ? 1 : 0); }

  /// The number of pairs whose two answers are equal, from which nothing is learned.
  int64_t same_answers() const { return same_answers_; }
  void NoteSameAnswers() { ++same_answers_; }

  /// Appends tokens to the current example.
  void Append(std::span<const int32_t> tokens, bool learnt);
  /// Ends the current example; drops it and returns false if no token after its first is
  /// learned.
  bool Finish();

  /// The keys that are ignored, such as "id", with the number of examples that have each.
  const std::map<std::string, int64_t>& unread_keys() const {
    return unread_keys_;
  }
  void NoteUnread(const std::string& key) { ++unread_keys_[key]; }

  /// The bytes of all texts without a token (EncodeOptions::without_token).
  int64_t without_token() const { return without_token_; }
  void set_without_token(int64_t bytes) { without_token_ = bytes; }

 private:
  size_t Begin(size_t i) const { return i == 0 ? 0 : ends_[i - 1]; }

  std::vector<int32_t> tokens_;
  std::vector<uint8_t> learnt_;
  std::vector<size_t> ends_;
  std::vector<uint8_t> good_;
  int64_t same_answers_ = 0;
  std::map<std::string, int64_t> unread_keys_;
  int64_t without_token_ = 0;
};

/// The kind of all lines: text to learn, a pair of answers of which one is better, or an answer
/// that is good or bad. A pair is two examples, the chosen one first.
enum class ExampleKind { kLearnt, kPairs, kJudged };

struct ExampleFormat {
  ExampleKind kind = ExampleKind::kLearnt;
  /// Formats conversations; null if there is no template.
  const ChatTemplate* chat = nullptr;
  /// The reason why `chat` is null, for errors.
  std::string_view no_chat = "the model has no chat template";
  /// The token appended to a completion or a text that does not end with it.
  std::optional<int32_t> end = {};
};

/// Reads the examples of JSON lines; blank lines are skipped. `origin` names the text in
/// errors, which state the line. Errors: kInvalidArgument for a line that is not a JSON object
/// of one of the kind's forms, a duplicate key, an unknown key that would change what is
/// learned, such as "tools", a message with other keys than role, content and a weight of 0 or
/// 1, more than 1,024 messages, nothing to learn, no examples, and those of
/// ChatTemplate::Format; kUnsupported for messages without a template, and for a template that
/// does not write an answer right after its prompt, or changes it in later turns, as Qwen 3's.
Result<TokenExamples> ReadExamples(std::string_view text,
                                   std::string_view origin,
                                   const Tokenizer& tokenizer,
                                   const ExampleFormat& format);

}  // namespace stowage

#endif  // STOWAGE_DATA_EXAMPLES_H_
