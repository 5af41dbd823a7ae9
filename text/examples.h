#ifndef STOWAGE_TEXT_EXAMPLES_H_
#define STOWAGE_TEXT_EXAMPLES_H_

// The data that a language model is fine-tuned on: JSON lines, one example each, as tokens
// of which some are to be learnt and the others are only read.
//
//   {"prompt": "2 + 2 = ", "completion": "4"}                  the completion is learnt
//   {"messages": [{"role": "user", "content": "Hello"},
//                 {"role": "assistant", "content": "Hi"}]}     every answer is
//   {"text": "Once upon a time"}                               all of it is
//
// Preferences (nn/losses.h) are learnt from pairs of answers, or from answers that are
// good or bad. A prompt and answers are texts or lists of messages; without a prompt it is
// the messages that both conversations begin with.
//
//   {"prompt": "2 + 2 = ", "chosen": "4", "rejected": "5"}
//   {"chosen": [{"role": "user", ...}, {"role": "assistant", "content": "Hi"}],
//    "rejected": [{"role": "user", ...}, {"role": "assistant", "content": "What?"}]}
//   {"prompt": "2 + 2 = ", "completion": "5", "label": false}
//
// A message with "weight": 0 is read and not learnt. A prompt or a text begins with the
// tokens that the tokenizer puts before every text; a conversation with what its template
// writes.
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
  /// Of example i, at least two.
  std::span<const int32_t> tokens(size_t i) const {
    return std::span(tokens_).subspan(Begin(i), ends_[i] - Begin(i));
  }
  /// For each of them whether it is to be learnt, 1 or 0.
  std::span<const uint8_t> learnt(size_t i) const {
    return std::span(learnt_).subspan(Begin(i), ends_[i] - Begin(i));
  }

  /// Of judged answers, whether each is good.
  const std::vector<uint8_t>& good() const { return good_; }
  void NoteGood(bool good) { good_.push_back(good ? 1 : 0); }

  /// Pairs whose two answers are the same, from which nothing is learnt.
  int64_t same_answers() const { return same_answers_; }
  void NoteSameAnswers() { ++same_answers_; }

  /// Adds tokens to the example that is under way.
  void Append(std::span<const int32_t> tokens, bool learnt);
  /// Ends it. False, and nothing is left of it, where nothing of it is to be learnt: no
  /// token but its first.
  bool Finish();

  /// The keys of the examples that say nothing of what is learnt, as "id", and are not
  /// read; with how many examples have each.
  const std::map<std::string, int64_t>& unread_keys() const {
    return unread_keys_;
  }
  void NoteUnread(const std::string& key) { ++unread_keys_[key]; }

  /// Bytes of all their texts that no token stands for (EncodeOptions::without_token).
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

/// What a line of JSON is: something to learn, two answers of which one is better, or one
/// that is good or bad. A pair is two examples, the chosen one first.
enum class ExampleKind { kLearnt, kPairs, kJudged };

struct ExampleFormat {
  ExampleKind kind = ExampleKind::kLearnt;
  /// Writes conversations; null where there is no template that is read.
  const ChatTemplate* chat = nullptr;
  /// The reason for that, in errors.
  std::string_view no_chat = "the model has no chat template";
  /// The token behind a completion or a text that does not end with it.
  std::optional<int32_t> end = {};
};

/// The examples of JSON lines; lines of white space alone are passed over. `origin`
/// names the text in errors, which name the line. kInvalidArgument: a line that is no
/// JSON object, where it is not, or has none of the kind's forms; a key twice; a key that
/// would change what is learnt and is not known, as "tools"; a message with any other key
/// than role, content and a weight of 0 or 1; more than 1,024 messages; nothing to learn;
/// no examples at all; ChatTemplate::Format's. kUnsupported: messages where there is no
/// template, and an answer that the template writes otherwise than behind its prompt for
/// one, or once more is said, as Qwen 3's does.
Result<TokenExamples> ReadExamples(std::string_view text,
                                   std::string_view origin,
                                   const Tokenizer& tokenizer,
                                   const ExampleFormat& format);

}  // namespace stowage

#endif  // STOWAGE_TEXT_EXAMPLES_H_
