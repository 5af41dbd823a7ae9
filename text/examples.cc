#include "text/examples.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/strings.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

// Each answer is written with all that was said before it.
constexpr size_t kMostMessages = 1024;

Error Invalid(std::string_view message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[examples] ", message)};
}

// A field that must be text.
Result<std::string> Text(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    return Invalid(StrCat("lacks a text ", Quoted(field)));
  }
  return found->get<std::string>();
}

class Reader {
 public:
  Reader(const Tokenizer& tokenizer, const ExampleFormat& format)
      : tokenizer_(tokenizer), format_(format) {}

  Status Read(const std::string& line) {
    const Json example = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!example.is_object()) return Invalid("is no JSON object");
    if (example.contains("messages")) return ReadMessages(example["messages"]);
    if (example.contains("completion")) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string prompt,
                               Text(example, "prompt"));
      STOWAGE_ASSIGN_OR_RETURN(const std::string completion,
                               Text(example, "completion"));
      STOWAGE_RETURN_IF_ERROR(Append(prompt, false));
      STOWAGE_RETURN_IF_ERROR(Append(completion, true));
      return Finish(format_.end);
    }
    if (example.contains("text")) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string text, Text(example, "text"));
      STOWAGE_RETURN_IF_ERROR(Append(text, true));
      return Finish(format_.end);
    }
    return Invalid(
        "has neither \"messages\", nor \"prompt\" and \"completion\", nor "
        "\"text\"");
  }

  TokenExamples Take() { return std::move(examples_); }
  size_t size() const { return examples_.size(); }

 private:
  // Every answer is learnt: what the conversation's text has beyond the text that ends
  // where the answer begins.
  Status ReadMessages(const Json& messages) {
    if (format_.chat == nullptr) {
      return Invalid("has messages, and the model has no chat template",
                     ErrorCode::kUnsupported);
    }
    if (!messages.is_array()) return Invalid("has messages that are no list");
    if (messages.size() > kMostMessages) {
      return Invalid(StrCat("has ", messages.size(), " messages; at most ",
                            kMostMessages, " are read"));
    }
    std::vector<ChatMessage> said;
    std::string written;
    for (const Json& message : messages) {
      if (!message.is_object()) return Invalid("has a message of no object");
      STOWAGE_ASSIGN_OR_RETURN(std::string role, Text(message, "role"));
      STOWAGE_ASSIGN_OR_RETURN(std::string content, Text(message, "content"));
      const bool is_answer = role == "assistant";
      if (is_answer) {
        STOWAGE_RETURN_IF_ERROR(
            AppendUpTo(said, /*open_answer=*/true, false, &written));
      }
      said.push_back({std::move(role), std::move(content)});
      if (is_answer) {
        STOWAGE_RETURN_IF_ERROR(
            AppendUpTo(said, /*open_answer=*/false, true, &written));
      }
    }
    return Finish({});
  }

  // Appends what the conversation so far has beyond what was written before.
  Status AppendUpTo(const std::vector<ChatMessage>& said, bool open_answer,
                    bool learnt, std::string* written) {
    ChatOptions options = format_.chat_options;
    options.open_answer = open_answer;
    STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                             format_.chat->Format(said, options));
    if (!text.starts_with(*written)) {
      return Invalid(
          "has an answer that the chat template writes otherwise once more is "
          "said, or with other thoughts than it asks for; expected one answer, "
          "the last message, without thoughts",
          ErrorCode::kUnsupported);
    }
    STOWAGE_RETURN_IF_ERROR(
        Append(std::string_view(text).substr(written->size()), learnt));
    *written = text;
    return {};
  }

  // What is learnt is text; what is only read may hold special tokens.
  Status Append(std::string_view text, bool learnt) {
    STOWAGE_ASSIGN_OR_RETURN(
        const std::vector<int32_t> tokens,
        tokenizer_.Encode(text, {.special = true, .add_prefix = false}));
    examples_.Append(tokens, learnt);
    return {};
  }

  Status Finish(const std::optional<int32_t>& end) {
    if (end) examples_.Append(std::span(&*end, 1), true);
    if (examples_.Finish()) return {};
    return Invalid(
        "has nothing to learn: no token of an answer behind another");
  }

  const Tokenizer& tokenizer_;
  const ExampleFormat& format_;
  TokenExamples examples_;
};

}  // namespace

void TokenExamples::Append(std::span<const int32_t> tokens, bool learnt) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  learnt_.resize(tokens_.size(), learnt ? 1 : 0);
}

bool TokenExamples::Finish() {
  const size_t begin = ends_.empty() ? 0 : ends_.back();
  const auto first = learnt_.begin() + static_cast<std::ptrdiff_t>(begin);
  if (first == learnt_.end() ||
      std::find(first + 1, learnt_.end(), 1) == learnt_.end()) {
    tokens_.resize(begin);
    learnt_.resize(begin);
    return false;
  }
  ends_.push_back(tokens_.size());
  return true;
}

Result<TokenExamples> ReadExamples(std::string_view text,
                                   std::string_view origin,
                                   const Tokenizer& tokenizer,
                                   const ExampleFormat& format) {
  Reader reader(tokenizer, format);
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Status read = reader.Read(line);
    if (read.ok()) continue;
    return Error{read.error().code,
                 StrCat(read.error().message, "; this is line ", number, " of ",
                        Quoted(origin))};
  }
  if (reader.size() == 0) {
    return Invalid(StrCat(Quoted(origin),
                          " has no examples; expected a JSON "
                          "object a line"));
  }
  return reader.Take();
}

}  // namespace stowage
