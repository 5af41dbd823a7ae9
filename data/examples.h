#ifndef STOWAGE_DATA_EXAMPLES_H_
#define STOWAGE_DATA_EXAMPLES_H_

// Reads and tokenizes the data for fine-tuning a language model. The data are JSON lines with one
// example each. A token is called learned if its prediction counts in the loss. The other tokens
// are only context.
//
//   {"prompt": "2 + 2 = ", "completion": "4"}                  the completion is learned
//   {"messages": [{"role": "user", "content": "Hello"},
//                 {"role": "assistant", "content": "Hi"}]}     every answer is learned
//   {"text": "Once upon a time"}                               all of the text is learned
//
// Preferences (nn/losses.h) are learned from pairs of answers, or from answers that are labeled as
// good or bad. Prompts and answers are strings or lists of messages. If a pair of conversations has
// no "prompt", the prompt is the longest list of messages with which both conversations begin.
//
//   {"prompt": "2 + 2 = ", "chosen": "4", "rejected": "5"}
//   {"chosen": [{"role": "user", ...}, {"role": "assistant", "content": "Hi"}],
//    "rejected": [{"role": "user", ...}, {"role": "assistant", "content": "What?"}]}
//   {"prompt": "2 + 2 = ", "completion": "5", "label": false}
//
// A message with "weight": 0 is only context. The prefix tokens of the tokenizer precede a prompt
// or a text. A conversation begins as the chat template specifies.
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
  /// Returns the tokens of example i, which are at least two.
  std::span<const int32_t> tokens(size_t i) const {
    return std::span(tokens_).subspan(Begin(i), ends_[i] - Begin(i));
  }
  /// Returns 1 for each token of example i that is learned, and 0 for the others.
  std::span<const uint8_t> learnt(size_t i) const {
    return std::span(learnt_).subspan(Begin(i), ends_[i] - Begin(i));
  }

  /// Returns 1 for each example whose answer is labeled as good, and 0 for the others. Empty unless
  /// the kind is ExampleKind::kJudged.
  const std::vector<uint8_t>& good() const { return good_; }
  void NoteGood(bool good) { good_.push_back(good ? 1 : 0); }

  /// Returns the number of pairs with two equal answers, from which nothing is learned.
  int64_t same_answers() const { return same_answers_; }
  void NoteSameAnswers() { ++same_answers_; }

  /// Appends tokens to the current example. `learnt` states whether they are learned.
  void Append(std::span<const int32_t> tokens, bool learnt);
  /// Ends the current example and returns true. If no token after the first one is learned, drops
  /// the example and returns false.
  bool Finish();

  /// Returns each ignored key, such as "id", and the number of examples that have it.
  const std::map<std::string, int64_t>& unread_keys() const {
    return unread_keys_;
  }
  void NoteUnread(const std::string& key) { ++unread_keys_[key]; }

  /// Returns the number of bytes of all texts that have no token (EncodeOptions::without_token).
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

/// The kind of all examples in a file: text to learn, pairs of a chosen and a rejected answer, or
/// answers labeled as good or bad. A pair is stored as two examples, of which the first has the
/// chosen answer.
enum class ExampleKind { kLearnt, kPairs, kJudged };

struct ExampleFormat {
  ExampleKind kind = ExampleKind::kLearnt;
  /// Formats conversations. Null if the model has no template.
  const ChatTemplate* chat = nullptr;
  /// The reason why `chat` is null, which errors state.
  std::string_view no_chat = "the model has no chat template";
  /// If present, this token is appended to each completion or text that does not end with it.
  std::optional<int32_t> end = {};
};

/// Reads examples from JSON lines, skipping blank lines. Errors name `origin` and the line. Returns
/// kInvalidArgument if
///  - a line is not a JSON object in one of the formats of the kind, or repeats a key;
///  - an unknown key would change what is learned, as "tools" would;
///  - a message has a key other than "role", "content" and "weight", or a weight other than 0 or 1;
///  - a conversation has more than 1,024 messages;
///  - an example has nothing to learn, or there are no examples.
/// Propagates errors of ChatTemplate::Format. Returns kUnsupported if an example has messages and
/// there is no chat template. Also returns kUnsupported if the template does not write an answer
/// directly after its prompt, or if it changes an answer in later turns, as the template of Qwen 3
/// does.
Result<TokenExamples> ReadExamples(std::string_view text,
                                   std::string_view origin,
                                   const Tokenizer& tokenizer,
                                   const ExampleFormat& format);

}  // namespace stowage

#endif  // STOWAGE_DATA_EXAMPLES_H_
