#ifndef STOWAGE_TEXT_JINJA_H_
#define STOWAGE_TEXT_JINJA_H_

// Jinja templates, as far as chat templates of published models use them, rendered as
// transformers renders them: Jinja 3.1 in a sandbox, with trim_blocks, lstrip_blocks, break
// and continue, raise_exception, and undefined values that are empty.
//
//   STOWAGE_ASSIGN_OR_RETURN(const jinja::Template hello,
//                            jinja::Template::Parse("Hello {{ name | trim }}!"));
//   STOWAGE_ASSIGN_OR_RETURN(const std::string text,
//                            hello.Render({{"name", std::string(" you ")}}));
//
// An unknown tag is an error when the template is parsed; an unknown filter, test, method or
// operator when it is reached. Steps and memory of rendering are limited.
//
// ChatTemplate renders a conversation as the text that a model was trained on:
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
  /// Errors, with the line: kInvalidArgument for invalid syntax, kUnsupported for syntax that
  /// is not implemented.
  static Result<Template> Parse(std::string_view source);

  /// Renders the template. Errors: kInvalidArgument if the template raises an exception, or
  /// Python would; kUnsupported for unknown filters and the like, for more than 4 million
  /// steps, and for strings of more than 64 MiB plus 1,024 times the bytes of `variables`.
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
  /// If false, the template's variable `enable_thinking` is false; else it is undefined.
  bool thinking = true;
};

class ChatTemplate {
 public:
  /// The special tokens that templates use: "bos_token" with its text, and so on.
  using Tokens = std::vector<std::pair<std::string, std::string>>;

  /// Errors: those of jinja::Template::Parse, with the beginning of the template.
  static Result<ChatTemplate> Parse(std::string_view jinja, Tokens tokens = {});

  /// The conversation as text, special tokens included, without tools and documents. There
  /// is no clock: a template that writes today's date falls back to its own. Errors:
  /// kInvalidArgument for no messages without `open_answer`, and an unknown role; those of
  /// jinja::Template::Render, such as an exception for roles that do not alternate.
  Result<std::string> Format(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  /// The text after an answer, without leading white space: "<|im_end|>\n". Errors: those of
  /// Format; kUnsupported if the template does not write the answer's content.
  Result<std::string> AfterAnswer() const;

 private:
  ChatTemplate(jinja::Template jinja, Tokens tokens)
      : jinja_(std::move(jinja)), tokens_(std::move(tokens)) {}

  jinja::Template jinja_;
  Tokens tokens_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_JINJA_H_
