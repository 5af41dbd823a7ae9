#include "text/chat_template.h"

#include <algorithm>

#include "base/strings.h"

namespace stowage {
namespace {

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Without white space around it, as Jinja's trim and Python's strip have it for ASCII.
std::string_view Strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The system message that a template of ChatML writes where there is none: a literal
// between the marks. Files hold the line's end as it is or as \n.
std::string PresetOf(std::string_view jinja) {
  constexpr std::string_view kOpen = "<|im_start|>system",
                             kClose = "<|im_end|>";
  for (size_t at = jinja.find(kOpen); at != std::string_view::npos;
       at = jinja.find(kOpen, at)) {
    at += kOpen.size();
    std::string_view rest = jinja.substr(at);
    if (rest.starts_with("\n")) {
      rest.remove_prefix(1);
    } else if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else {
      continue;
    }
    const std::string_view literal = rest.substr(0, rest.find_first_of("'\""));
    const size_t end = literal.find(kClose);
    if (end == std::string_view::npos) {
      at += literal.size();  // without a mark in all of it
    } else if (end > 0) {
      return std::string(literal.substr(0, end));
    }
  }
  return "";
}

Error Unknown(std::string_view jinja, std::string_view why) {
  return {ErrorCode::kUnsupported,
          StrCat("[text] the chat template ", Quoted(jinja.substr(0, 60)),
                 jinja.size() > 60 ? "..." : "", " ", why,
                 "; known are ChatML as of SmolLM2 and Qwen 2 and 2.5, Qwen 3, "
                 "Llama 2, Llama 3 and Mistral 0.1 and 0.2")};
}

// Whether it is Qwen 3's, which keeps the thoughts of the answers behind the last question
// alone, and writes empty ones where it is told not to think. Those that came after it, of
// Qwen 3.5 for one, have some of these words and other rules.
bool IsQwen3(std::string_view jinja) {
  return Has(jinja, "loop.index0 > ns.last_query_index") &&
         Has(jinja, "loop.last or (not loop.last and ") &&
         Has(jinja, "enable_thinking is false") &&
         Has(jinja, "'<think>\\n\\n</think>\\n\\n'") && !Has(jinja, "trim");
}

std::string_view SkipLines(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

// An answer of Qwen 3's as thoughts, which may be none, and what is said.
struct Answer {
  std::string_view thoughts, said;
};
Answer AnswerOf(std::string_view content) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  const size_t close = content.find(kClose);
  if (close == std::string_view::npos) return {{}, content};
  std::string_view thoughts = content.substr(0, close);
  if (const size_t open = thoughts.rfind(kOpen);
      open != std::string_view::npos) {
    thoughts.remove_prefix(open + kOpen.size());
  }
  thoughts = SkipLines(thoughts);
  thoughts = thoughts.substr(0, thoughts.find_last_not_of('\n') + 1);
  return {thoughts,
          SkipLines(content.substr(content.rfind(kClose) + kClose.size()))};
}

// As Qwen 3's template writes them, in the form that PyPI's trl 1.16.0 ships
// (chat_templates/qwen3.jinja), without tools and with thinking disabled.
std::string Qwen3Text(const std::vector<ChatMessage>& messages,
                      bool open_answer) {
  // Results of tools are no question. Without one, no answer is behind it.
  size_t last_question = messages.size();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view content = messages[i].content;
    if (messages[i].role == "user" &&
        !(content.starts_with("<tool_response>") &&
          content.ends_with("</tool_response>"))) {
      last_question = i;
    }
  }
  const auto write = [](std::string_view thoughts, std::string_view said) {
    return StrCat("<think>\n", thoughts, "\n</think>\n\n", SkipLines(said));
  };
  std::string out;
  for (size_t i = 0; i < messages.size(); ++i) {
    std::string content = messages[i].content;
    if (messages[i].role == "assistant") {
      const Answer answer = AnswerOf(messages[i].content);
      const bool is_last = i + 1 == messages.size();
      content = i > last_question && (is_last || !answer.thoughts.empty())
                    ? write(answer.thoughts, answer.said)
                    : std::string(answer.said);
    }
    out +=
        StrCat("<|im_start|>", messages[i].role, "\n", content, "<|im_end|>\n");
  }
  if (open_answer) out += StrCat("<|im_start|>assistant\n", write("", ""));
  return out;
}

// Which of them take the roles in turn begin with a user, after the system message.
Status CheckTurns(const std::vector<ChatMessage>& messages, size_t first) {
  for (size_t i = first; i < messages.size(); ++i) {
    const std::string_view expected =
        (i - first) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != expected) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[text] message ", i, " is of ", Quoted(messages[i].role),
                 "; expected ", Quoted(expected), ", since they take turns")};
    }
  }
  return {};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::Recognize(std::string_view jinja) {
  if (Has(jinja, "<|im_start|>") && Has(jinja, "<|im_end|>")) {
    if (IsQwen3(jinja)) return ChatTemplate(Family::kQwen3);
    if (Has(jinja, "<think>") || Has(jinja, "bos_token") ||
        Has(jinja, "strip") || Has(jinja, "trim")) {
      return Unknown(jinja, "is of ChatML, and changes what messages say");
    }
    ChatTemplate chat(Family::kChatMl);
    chat.preset_ = PresetOf(jinja);
    return chat;
  }
  if (Has(jinja, "<|start_header_id|>") && Has(jinja, "<|eot_id|>")) {
    ChatTemplate chat(Family::kLlama3);
    if (Has(jinja, "Cutting Knowledge Date: December 2023")) {
      constexpr std::string_view kDate = "date_string = \"";
      const size_t at = jinja.find(kDate);
      if (at == std::string_view::npos) {
        return Unknown(jinja, "is of Llama 3, and names no date");
      }
      const std::string_view date = jinja.substr(at + kDate.size());
      chat.preamble_ =
          StrCat("Cutting Knowledge Date: December 2023\nToday Date: ",
                 date.substr(0, date.find('"')), "\n\n");
    }
    return chat;
  }
  if (Has(jinja, "[INST]") && Has(jinja, "<<SYS>>")) {
    if (!Has(jinja, "bos_token + '[INST] ' + content.strip() + ' [/INST]'")) {
      return Unknown(jinja, "is nearly Llama 2's");
    }
    return ChatTemplate(Family::kLlama2);
  }
  if (Has(jinja, "'[INST] ' + message['content'] + ' [/INST]'") &&
      !Has(jinja, "system")) {
    ChatTemplate chat(Family::kMistral);
    chat.space_after_ = Has(jinja, "eos_token + ' '");
    return chat;
  }
  return Unknown(jinja, "is not known");
}

std::string ChatTemplate::EndOfAnswer(const ChatOptions& options) const {
  switch (family_) {
    case Family::kChatMl:
    case Family::kQwen3:
      return "<|im_end|>";
    case Family::kLlama3:
      return "<|eot_id|>";
    case Family::kLlama2:
    case Family::kMistral:
      break;
  }
  return options.eos;
}

Result<std::string> ChatTemplate::Format(
    const std::vector<ChatMessage>& messages,
    const ChatOptions& options) const {
  if (messages.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "[text] a conversation has no messages; expected one at least"};
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string_view role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[text] message ", i, " is of ", Quoted(role),
                          "; expected system, user or assistant")};
    }
  }
  const bool has_system = messages.front().role == "system";
  std::string out;
  switch (family_) {
    case Family::kChatMl: {
      const auto add = [&](std::string_view role, std::string_view content) {
        out += StrCat("<|im_start|>", role, "\n", content, "<|im_end|>\n");
      };
      if (!has_system && !preset_.empty()) add("system", preset_);
      for (const ChatMessage& m : messages) add(m.role, m.content);
      if (options.open_answer) out += "<|im_start|>assistant\n";
      break;
    }
    case Family::kQwen3:
      out = Qwen3Text(messages, options.open_answer);
      break;
    case Family::kLlama3: {
      const auto head = [](std::string_view role) {
        return StrCat("<|start_header_id|>", role, "<|end_header_id|>\n\n");
      };
      out = "<|begin_of_text|>";
      if (!has_system && !preamble_.empty()) {
        out += StrCat(head("system"), preamble_, "<|eot_id|>");
      }
      for (size_t i = 0; i < messages.size(); ++i) {
        out += StrCat(head(messages[i].role),
                      i == 0 && has_system ? preamble_ : "",
                      Strip(messages[i].content), "<|eot_id|>");
      }
      if (options.open_answer) out += head("assistant");
      break;
    }
    case Family::kLlama2: {
      const size_t first = has_system ? 1 : 0;
      STOWAGE_RETURN_IF_ERROR(CheckTurns(messages, first));
      for (size_t i = first; i < messages.size(); ++i) {
        std::string content = messages[i].content;
        if (i == 1 && has_system) {
          content = StrCat("<<SYS>>\n", messages[0].content, "\n<</SYS>>\n\n",
                           content);
        }
        out += messages[i].role == "user"
                   ? StrCat(options.bos, "[INST] ", Strip(content), " [/INST]")
                   : StrCat(" ", Strip(content), " ", options.eos);
      }
      break;
    }
    case Family::kMistral: {
      STOWAGE_RETURN_IF_ERROR(CheckTurns(messages, 0));
      out = options.bos;
      for (const ChatMessage& m : messages) {
        out += m.role == "user"
                   ? StrCat("[INST] ", m.content, " [/INST]")
                   : StrCat(m.content, options.eos, space_after_ ? " " : "");
      }
      break;
    }
  }
  return out;
}

}  // namespace stowage
