#ifndef STOWAGE_TEXT_JINJA_H_
#define STOWAGE_TEXT_JINJA_H_

// Renders Jinja templates, with the features that chat templates of published models use. Rendering
// follows transformers: Jinja 3.1 in a sandbox, with trim_blocks, lstrip_blocks, break and
// continue, raise_exception, and undefined values that are rendered as empty.
//
//   STOWAGE_ASSIGN_OR_RETURN(const jinja::Template hello,
//                            jinja::Template::Parse("Hello {{ name | trim }}!"));
//   STOWAGE_ASSIGN_OR_RETURN(const std::string text,
//                            hello.Render({{"name", std::string(" you ")}}));
//
// Parsing fails for an unknown tag. Rendering fails when it reaches an unknown filter, test, method
// or operator. The steps and the memory of rendering are limited.
//
// ChatTemplate renders a conversation as text in the format that the model was trained on:
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
  /// Parses a template. Returns, with the line, kInvalidArgument for invalid syntax, and
  /// kUnsupported for syntax that is not implemented.
  static Result<Template> Parse(std::string_view source);

  /// Renders the template. Returns kInvalidArgument if the template raises an exception, or where
  /// Python would raise one. Returns kUnsupported for unknown filters and other missing features,
  /// for more than 4 million steps, and for strings of more than 64 MiB plus 1,024 times the bytes
  /// of `variables`.
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
  /// The special tokens that templates refer to: names such as "bos_token" with their text.
  using Tokens = std::vector<std::pair<std::string, std::string>>;

  /// Parses a template. Propagates errors of jinja::Template::Parse. Errors quote the beginning of
  /// the template.
  static Result<ChatTemplate> Parse(std::string_view jinja, Tokens tokens = {});

  /// Returns the conversation as text, including special tokens, without tools and documents. No
  /// clock is provided, so a template that writes today's date uses its own default. Returns
  /// kInvalidArgument for an unknown role, and for no messages without `open_answer`. Propagates
  /// errors of jinja::Template::Render, such as an exception for roles that do not alternate.
  Result<std::string> Format(const std::vector<ChatMessage>& messages,
                             const ChatOptions& options = {}) const;

  /// Returns the text that follows an answer, without leading white space, such as "<|im_end|>\n".
  /// Propagates errors of Format. Returns kUnsupported if the template does not write the content
  /// of the answer.
  Result<std::string> AfterAnswer() const;

 private:
  ChatTemplate(jinja::Template jinja, Tokens tokens)
      : jinja_(std::move(jinja)), tokens_(std::move(tokens)) {}

  jinja::Template jinja_;
  Tokens tokens_;
};

}  // namespace stowage

#endif  // STOWAGE_TEXT_JINJA_H_
