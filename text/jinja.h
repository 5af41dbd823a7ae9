#ifndef STOWAGE_TEXT_JINJA_H_
#define STOWAGE_TEXT_JINJA_H_

// Renders Jinja templates, with the features that chat templates of published models use. Rendering
// is compatible with transformers, which uses Jinja 3.1 in a sandbox with trim_blocks,
// lstrip_blocks, break and continue, and raise_exception. Undefined values are rendered as "".
//
//   STOWAGE_ASSIGN_OR_RETURN(const jinja::Template hello,
//                            jinja::Template::Parse("Hello {{ name | trim }}!"));
//   STOWAGE_ASSIGN_OR_RETURN(const std::string text,
//                            hello.Render({{"name", std::string(" you ")}}));
//
// Parsing fails for an unknown tag. Rendering fails only when it evaluates an unknown filter, test,
// method or operator. The number of steps and the memory of rendering are limited.
//
// ChatTemplate renders a conversation as text, in the format on which the model was trained:
//
//   STOWAGE_ASSIGN_OR_RETURN(
//       ChatTemplate chat,
//       ChatTemplate::Parse(jinja, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
//   STOWAGE_ASSIGN_OR_RETURN(
//       std::string prompt,
//       chat.Format({{"user", "Hello"}}, {.open_answer = true}));
//   tokenizer.Encode(prompt, {.special = true, .add_prefix = false});

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
  /// Parses a template. Returns kInvalidArgument for invalid syntax, and kUnsupported for syntax
  /// that is not implemented. Errors name the line.
  static Result<Template> Parse(std::string_view source);

  /// Renders the template. Returns kInvalidArgument if the template raises an exception, or where
  /// Python would raise one. Returns kUnsupported for unknown filters and other missing features,
  /// for more than 4 million steps, and if all computed strings and lists together need more than
  /// 64 MiB plus 1,024 times the bytes of the strings in `variables`.
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

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

struct ChatOptions {
  bool open_answer = false;  // the template's add_generation_prompt
  /// If false, the template variable `enable_thinking` is false. If true, it is undefined.
  bool thinking = true;
};

class ChatTemplate {
 public:
  /// The special tokens that templates use, as pairs of a variable's name, such as "bos_token", and
  /// the token's text.
  using Tokens = std::vector<std::pair<std::string, std::string>>;

  /// Parses a template. Propagates errors of jinja::Template::Parse. Errors quote the beginning of
  /// the template.
  static Result<ChatTemplate> Parse(std::string_view jinja, Tokens tokens = {});

  /// Returns the conversation as text, including special tokens. The template's variables `tools`
  /// and `documents` are None. There is no function for the current date, so a template that writes
  /// the date uses its own default. Returns kInvalidArgument for an unknown role, and if there are
  /// no messages and `open_answer` is false. Propagates errors of jinja::Template::Render, such as
  /// an exception for roles that do not alternate.
  Result<std::string> Format(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  /// Returns the text that the template writes after the content of an answer, without leading
  /// white space, such as "<|im_end|>\n". Propagates errors of Format. Returns kUnsupported if the
  /// template does not write the content of the answer.
  Result<std::string> AfterAnswer() const;

 private:
  ChatTemplate(jinja::Template jinja, Tokens tokens)
      : jinja_(std::move(jinja)), tokens_(std::move(tokens)) {}

  jinja::Template jinja_;
  Tokens tokens_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_JINJA_H_
