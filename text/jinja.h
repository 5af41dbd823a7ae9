#ifndef STOWAGE_TEXT_JINJA_H_
#define STOWAGE_TEXT_JINJA_H_

// Templates in Jinja, as far as chat templates of published models use it, rendered as
// transformers renders them: Jinja 3.1 in a sandbox, with trim_blocks, lstrip_blocks,
// break and continue, raise_exception, and undefined values that are empty.
//
//   STOWAGE_ASSIGN_OR_RETURN(const jinja::Template hello,
//                            jinja::Template::Parse("Hello {{ name | trim }}!"));
//   STOWAGE_ASSIGN_OR_RETURN(const std::string text,
//                            hello.Render({{"name", std::string(" you ")}}));
//
// What this code does not know is an error and never passed over: a tag when the template
// is parsed, a filter, a test, a method or an operator on values that it does not take when
// it is reached. A template that does too much ends with an error.

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace stowage::jinja {

class Template {
 public:
  /// Errors, which name the line: kInvalidArgument for what is no Jinja, kUnsupported for
  /// what is not known here.
  static Result<Template> Parse(std::string_view source);

  /// The text for these variables. Errors: kInvalidArgument where the template raises an
  /// exception, or Python would; kUnsupported for what is not known here, and for more
  /// than 4 million steps or 64 MiB and 1,024 times the bytes of `variables` in strings.
  Result<std::string> Render(
      std::vector<std::pair<std::string, Value>> variables) const;

 private:
  struct Data;
  explicit Template(std::shared_ptr<const Data> data)
      : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace stowage::jinja

namespace stowage {

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

#endif  // STOWAGE_TEXT_JINJA_H_
