#ifndef STOWAGE_TEXT_CHAT_TEMPLATE_H_
#define STOWAGE_TEXT_CHAT_TEMPLATE_H_

// A conversation as the text that a model was trained on. Files hold a program in Jinja
// for that; here the families that are known are told by its words, and each is written
// by code of its own.
//
//   STOWAGE_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::Recognize(text));
//   STOWAGE_ASSIGN_OR_RETURN(
//       std::string prompt,
//       chat.Format({{"user", "Hello"}}, {.open_answer = true}));
//   tokenizer.Encode(prompt, {.special = true, .add_prefix = false});

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct ChatOptions {
  bool open_answer = false;  // the text ends where an assistant's answer begins
  std::string bos = "<s>";   // of Llama 2's and Mistral's; Llama 3's is known
  std::string eos = "</s>";
};

class ChatTemplate {
 public:
  /// The family that `jinja` is of: ChatML as SmolLM2 and Qwen 2 and 2.5 have it, with
  /// the system message that stands in for one that is missing; Qwen 3, with thinking
  /// disabled; Llama 2, Llama 3 and 3.1 to 3.3, whose date is the one in the template;
  /// Mistral 0.1 and 0.2. Error kUnsupported, with what is known, for any other.
  static Result<ChatTemplate> Recognize(std::string_view jinja);

  /// The conversation as text, special tokens included. Of Qwen 3 an answer begins with
  /// its thoughts, "<think>\n\n</think>\n\n" where it has none, as long as no question
  /// follows it; then they are left out. So what has been said is written otherwise once
  /// more is asked. Error kInvalidArgument: no
  /// messages, an unknown role, and, for Llama 2 and Mistral, users and assistants who
  /// do not alternate; for Mistral, a system message.
  Result<std::string> Format(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  /// The token that an answer ends with, which need not be what the model's files call
  /// the end of a text; of Llama 2 and Mistral, that of `options`.
  std::string EndOfAnswer(const ChatOptions& options = {}) const;

 private:
  enum class Family { kChatMl, kQwen3, kLlama2, kLlama3, kMistral };
  explicit ChatTemplate(Family family) : family_(family) {}

  Family family_;
  std::string preset_;        // ChatML: in place of a system message
  std::string preamble_;      // Llama 3: before each system message
  bool space_after_ = false;  // Mistral: after each answer
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_CHAT_TEMPLATE_H_
