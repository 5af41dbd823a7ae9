#ifndef STOWAGE_TEXT_CHAT_TEMPLATE_H_
#define STOWAGE_TEXT_CHAT_TEMPLATE_H_

// A conversation as the text that a model was trained on. Files hold a program in Jinja
// for that, the chat template, which is rendered as transformers renders it
// (text/jinja.h).
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       ChatTemplate chat,
//       ChatTemplate::Parse(jinja, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
//   STOWAGE_ASSIGN_OR_RETURN(
//       std::string prompt,
//       chat.Format({{"user", "Hello"}}, {.open_answer = true}));
//   tokenizer.Encode(prompt, {.special = true, .add_prefix = false});

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja.h"

namespace stowage {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct ChatOptions {
  bool open_answer = false;  // the text ends where an assistant's answer begins
  /// Whether thoughts may come before an answer; if not, the template's variable
  /// `enable_thinking` is false, and else it is undefined.
  bool thinking = true;
};

class ChatTemplate {
 public:
  /// The special tokens that templates write: "bos_token" and the text of it.
  using Tokens = std::vector<std::pair<std::string, std::string>>;

  /// Errors, with the template's beginning and the line: kInvalidArgument for what is no
  /// Jinja, kUnsupported for a tag or an expression that is not known (text/jinja.h).
  static Result<ChatTemplate> Parse(std::string_view jinja, Tokens tokens = {});

  /// The conversation as text, special tokens included. There are no tools, no documents
  /// and no clock: a template that would write today's date writes its own. Errors:
  /// kInvalidArgument for no messages where no answer is opened, an unknown role, and
  /// where the template raises an exception, as for roles that do not alternate;
  /// kUnsupported where it does what is not known.
  Result<std::string> Format(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  /// What it writes behind an answer, white space before it left out: "<|im_end|>\n".
  /// Errors as Format, and kUnsupported where it does not write what answers say.
  Result<std::string> AfterAnswer() const;

 private:
  ChatTemplate(jinja::Template jinja, Tokens tokens)
      : jinja_(std::move(jinja)), tokens_(std::move(tokens)) {}

  jinja::Template jinja_;
  Tokens tokens_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_CHAT_TEMPLATE_H_
