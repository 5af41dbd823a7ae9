#include "data/examples.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/strings.h"
#include "formats/json.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

// The maximum messages of a conversation, whose formatting is quadratic: each answer is
// formatted with the messages before it.
constexpr size_t kMaxMessages = 1024;
constexpr int kMaxLineLevels = 64;  // of lists and objects

Error Invalid(std::string_view message,
              ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[examples] ", message)};
}

bool Has(const Json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

// A field that must be a string.
Result<std::string> Text(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    return Invalid(StrCat("lacks a text ", Quoted(field)));
  }
  return found->get<std::string>();
}

// The keys of a form of examples; the first identifies it.
using Form = std::array<std::string_view, 3>;

std::span<const Form> FormsOf(ExampleKind kind) {
  static constexpr std::array<Form, 3> kLearnt = {
      {{"messages", "messages", "messages"},
       {"completion", "prompt", "prompt"},
       {"text", "text", "text"}}};
  static constexpr std::array<Form, 1> kPairs = {
      {{"chosen", "prompt", "rejected"}}};
  static constexpr std::array<Form, 1> kJudged = {
      {{"label", "prompt", "completion"}}};
  switch (kind) {
    case ExampleKind::kPairs:
      return kPairs;
    case ExampleKind::kJudged:
      return kJudged;
    default:
      return kLearnt;
  }
}

Error LacksForm(const Json& example, ExampleKind kind) {
  switch (kind) {
    case ExampleKind::kPairs:
      return Invalid(
          "has no \"chosen\"; expected \"prompt\", \"chosen\" and "
          "\"rejected\"");
    case ExampleKind::kJudged:
      return Invalid(
          "has no \"label\"; expected \"prompt\", \"completion\" and "
          "\"label\"");
    default:
      return Invalid(StrCat(
          "has neither \"messages\", nor \"prompt\" and \"completion\", nor "
          "\"text\"",
          example.contains("chosen") ? "; pairs of answers are learnt by "
                                       "--objective dpo, ipo, orpo or simpo"
                                     : ""));
  }
}

// Checks that an example has the keys of one form, and none that change training elsewhere; adds
// other keys to the unread ones.
Status CheckKeys(const Json& example, ExampleKind kind, TokenExamples* unread) {
  const std::span<const Form> forms = FormsOf(kind);
  constexpr std::string_view kMeant =
      " add_generation_prompt answer assistant_masks attention_mask audio "
      "chat_template chat_template_kwargs chosen completion_mask "
      "continue_final_message conversations dialog dialogue documents "
      "enable_thinking function_call functions history image images input "
      "input_ids instruction instructions label labels loss_mask mask name "
      "output parallel_tool_calls position_ids reasoning reasoning_content "
      "rejected response response_mask sample_weight system system_prompt "
      "thinking token_type_ids tool_calls tools train videos weight weights ";
  const auto form = std::ranges::find_if(
      forms, [&](const auto& keys) { return example.contains(keys[0]); });
  if (form == forms.end()) return LacksForm(example, kind);
  for (const auto& [key, value] : example.items()) {
    if (value.is_null() || std::ranges::find(*form, key) != form->end()) {
      continue;
    }
    const bool of_other_form =
        std::ranges::any_of(forms, [&name = key](const auto& keys) {
          return std::ranges::find(keys, name) != keys.end();
        });
    const bool is_meant =
        key.find(' ') == std::string::npos &&
        kMeant.find(StrCat(" ", key, " ")) != std::string_view::npos;
    if (of_other_form || is_meant) {
      return Invalid(StrCat("has ", Quoted(key), " beside ",
                            Quoted(form->front()),
                            ", which would change what is learnt and is not "
                            "known; leave it away"));
    }
    unread->NoteUnread(key);
  }
  return {};
}

// Whether the message is learned: an answer whose weight is not 0.
Result<bool> IsLearnt(const Json& message, bool is_answer) {
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null() && key != "role" && key != "content" &&
        key != "weight") {
      return Invalid(StrCat("has a message with ", Quoted(key),
                            ", which is not known; expected role, content and "
                            "weight"));
    }
  }
  if (!Has(message, "weight")) return is_answer;
  const Json& weight = message["weight"];
  const bool known = weight.is_number() && (weight == 0 || weight == 1);
  if (!known || (weight == 1 && !is_answer)) {
    return Invalid(StrCat("has a message with a \"weight\" of ",
                          weight.dump(-1, ' ', true),
                          "; expected 0, or 1 for an answer that is learnt"));
  }
  return weight == 1;
}

class ExampleReader {
 public:
  ExampleReader(const Tokenizer& tokenizer, const ExampleFormat& format)
      : tokenizer_(tokenizer), format_(format) {}

  Status Read(const std::string& line) {
    if (const Status json = CheckJsonText(line, kMaxLineLevels); !json.ok()) {
      return Invalid(json.error().message);
    }
    const Json example = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!example.is_object()) return Invalid("is no JSON object");
    STOWAGE_RETURN_IF_ERROR(CheckKeys(example, format_.kind, &examples_));
    if (format_.kind == ExampleKind::kPairs) return ReadPair(example);
    if (format_.kind == ExampleKind::kJudged) return ReadJudged(example);
    if (example.contains("messages")) {
      STOWAGE_ASSIGN_OR_RETURN(const auto messages,
                               MessagesOf(example, "messages"));
      return ReadMessages(messages, 0);
    }
    if (example.contains("completion")) {
      return ReadText(example, "prompt", "completion");
    }
    return ReadText(example, nullptr, "text");
  }

  TokenExamples Take() {
    examples_.set_without_token(without_token_);
    return std::move(examples_);
  }
  size_t size() const { return examples_.size(); }

 private:
  // A text after a prompt, if there is one, and its end token.
  Status ReadText(const Json& example, const char* prompt_key,
                  const char* text_key) {
    last_.reset();
    Append(tokenizer_.prefix(), false);
    if (prompt_key != nullptr) {
      STOWAGE_ASSIGN_OR_RETURN(const std::string prompt,
                               Text(example, prompt_key));
      STOWAGE_RETURN_IF_ERROR(AppendText(prompt, false));
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, Text(example, text_key));
    STOWAGE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, Encode(text));
    const auto suffix = tokenizer_.suffix();
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
    if (format_.end && (tokens.empty() || tokens.back() != *format_.end)) {
      tokens.push_back(*format_.end);
    }
    Append(tokens, true);
    return Finish();
  }

  // A prompt and an answer, both texts or both messages. The first `shared` messages of the answer
  // belong to the prompt.
  Status ReadAnswer(const Json& example, const char* answer_key,
                    size_t shared) {
    const bool has_prompt = Has(example, "prompt");
    if (!example[answer_key].is_array()) {
      if (has_prompt && example["prompt"].is_array()) {
        return Invalid(StrCat("has a \"prompt\" of messages and a text ",
                              Quoted(answer_key),
                              "; expected both as texts or as messages"));
      }
      return ReadText(example, "prompt", answer_key);
    }
    STOWAGE_ASSIGN_OR_RETURN(const auto answer,
                             MessagesOf(example, answer_key));
    std::vector<Json> messages;
    if (has_prompt && example["prompt"].is_string()) {
      // Some data sets repeat the prompt as the conversations' first message.
      if (std::ranges::none_of(answer, [&](const Json& message) {
            return message.is_object() && Has(message, "content") &&
                   message["content"] == example["prompt"];
          })) {
        return Invalid(StrCat(
            "has a text \"prompt\", which is none of the messages of ",
            Quoted(answer_key), "; expected both as texts or as messages"));
      }
    } else if (has_prompt) {
      STOWAGE_ASSIGN_OR_RETURN(messages, MessagesOf(example, "prompt"));
      if (!messages.empty() && answer.size() > messages.size() &&
          std::equal(messages.begin(), messages.end(), answer.begin())) {
        return Invalid(StrCat("has ", Quoted(answer_key),
                              " that begins with the messages of \"prompt\"; "
                              "leave \"prompt\" away"));
      }
    }
    const size_t learnt_from = messages.size() + shared;
    messages.insert(messages.end(), answer.begin(), answer.end());
    return ReadMessages(messages, learnt_from);
  }

  Status ReadPair(const Json& example) {
    size_t shared = 0;
    for (const char* const key : {"chosen", "rejected"}) {
      if (!Has(example, key)) return Invalid(StrCat("lacks ", Quoted(key)));
    }
    const Json& chosen = example["chosen"];
    const Json& rejected = example["rejected"];
    if (chosen == rejected) examples_.NoteSameAnswers();
    const bool has_messages =
        Has(example, "prompt") && example["prompt"].is_array();
    if (chosen.is_array() && rejected.is_array() && !has_messages) {
      // The last message is an answer.
      const size_t most = std::min(chosen.size(), rejected.size());
      while (shared + 1 < most && chosen[shared] == rejected[shared]) ++shared;
      if (chosen.size() != rejected.size() && most > 0 &&
          chosen[shared] == rejected[shared]) {
        return Invalid(
            "has a conversation with which the other one begins; expected two "
            "answers to one prompt");
      }
    }
    STOWAGE_RETURN_IF_ERROR(ReadAnswer(example, "chosen", shared));
    return ReadAnswer(example, "rejected", shared);
  }

  Status ReadJudged(const Json& example) {
    const Json& label = example["label"];
    const bool is_number = label.is_number() && (label == 0 || label == 1);
    if (!label.is_boolean() && !is_number) {
      return Invalid(StrCat("has a \"label\" of ", label.dump(-1, ' ', true),
                            "; expected true or false"));
    }
    if (!Has(example, "completion")) return Invalid("lacks \"completion\"");
    STOWAGE_RETURN_IF_ERROR(ReadAnswer(example, "completion", 0));
    examples_.NoteGood(is_number ? label == 1 : label.get<bool>());
    return {};
  }

  static Result<std::vector<Json>> MessagesOf(const Json& example,
                                              const char* key) {
    const Json& messages = example[key];
    if (!messages.is_array()) {
      return Invalid(StrCat("has ", Quoted(key), " that are no list"));
    }
    return std::vector<Json>(messages.begin(), messages.end());
  }

  // Learns every answer from a message on: the part of the conversation's text after the text
  // that ends where the answer begins.
  Status ReadMessages(const std::vector<Json>& messages, size_t learnt_from) {
    last_.reset();
    if (format_.chat == nullptr) {
      return Invalid(StrCat("has messages, and ", format_.no_chat),
                     ErrorCode::kUnsupported);
    }
    if (messages.size() > kMaxMessages) {
      return Invalid(StrCat("has ", messages.size(), " messages; at most ",
                            kMaxMessages, " are read"));
    }
    std::vector<ChatMessage> all;
    std::vector<size_t> answers;  // learned
    for (const Json& message : messages) {
      if (!message.is_object()) return Invalid("has a message of no object");
      STOWAGE_ASSIGN_OR_RETURN(std::string role, Text(message, "role"));
      STOWAGE_ASSIGN_OR_RETURN(std::string content, Text(message, "content"));
      STOWAGE_ASSIGN_OR_RETURN(const bool learnt,
                               IsLearnt(message, role == "assistant"));
      if (learnt && all.size() >= learnt_from) answers.push_back(all.size());
      all.push_back({std::move(role), std::move(content)});
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string text, format_.chat->Format(all));
    size_t written = 0;  // bytes encoded so far
    for (const size_t answer : answers) {
      STOWAGE_ASSIGN_OR_RETURN(const Span span, SpanOf(all, answer, text));
      if (span.begin < written) return WrittenOtherwise(answer);
      STOWAGE_RETURN_IF_ERROR(
          AppendText(text.substr(written, span.begin - written), false));
      STOWAGE_RETURN_IF_ERROR(
          AppendText(text.substr(span.begin, span.end - span.begin), true));
      written = span.end;
    }
    STOWAGE_RETURN_IF_ERROR(AppendText(text.substr(written), false));
    return Finish();
  }

  struct Span {
    size_t begin, end;
  };
  // The range of bytes of an answer in a conversation's text.
  Result<Span> SpanOf(const std::vector<ChatMessage>& all, size_t answer,
                      const std::string& text) const {
    std::vector<ChatMessage> said(
        all.begin(), all.begin() + static_cast<std::ptrdiff_t>(answer));
    // With thinking off, templates write empty thoughts before the answer.
    std::optional<size_t> begin;
    for (const bool thinking : {false, true}) {
      const auto prompt = format_.chat->Format(
          said, {.open_answer = true, .thinking = thinking});
      if (!prompt.ok() && said.empty()) {
        const std::string& why = prompt.error().message;
        return Invalid(StrCat(
            "begins with an answer, for which the chat template has no prompt",
            why.substr(std::min(why.find(": "), why.size())),
            "; expected a message before it, or \"weight\": 0"));
      }
      if (!prompt.ok()) return prompt.error();
      if (text.starts_with(*prompt)) {
        begin = prompt->size();
        break;
      }
    }
    said.push_back(all[answer]);
    STOWAGE_ASSIGN_OR_RETURN(const std::string until,
                             format_.chat->Format(said));
    if (!begin || until.size() < *begin || !text.starts_with(until)) {
      return WrittenOtherwise(answer);
    }
    return Span{*begin, until.size()};
  }

  static Error WrittenOtherwise(size_t answer) {
    return Invalid(
        StrCat("has an answer, message ", answer,
               ", that the chat template writes otherwise than behind its "
               "prompt for an answer, or once more is said; expected one "
               "answer, the last message, or \"weight\": 0 for the others"),
        ErrorCode::kUnsupported);
  }

  Result<std::vector<int32_t>> Encode(std::string_view text) {
    return tokenizer_.Encode(text, {.special = true,
                                    .add_prefix = false,
                                    .after = last_,
                                    .without_token = &without_token_});
  }

  Status AppendText(std::string_view text, bool learnt) {
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, Encode(text));
    Append(tokens, learnt);
    return {};
  }

  void Append(std::span<const int32_t> tokens, bool learnt) {
    if (!tokens.empty()) last_ = tokens.back();
    examples_.Append(tokens, learnt);
  }

  Status Finish() {
    if (examples_.Finish()) return {};
    return Invalid(
        "has nothing to learn: no token of an answer behind another");
  }

  const Tokenizer& tokenizer_;
  const ExampleFormat& format_;
  TokenExamples examples_;
  std::optional<int32_t> last_ = std::nullopt;  // last token of the example
  int64_t without_token_ = 0;
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
  ExampleReader reader(tokenizer, format);
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
