#include "text/chat_template.h"

#include "base/strings.h"

namespace stowage {

Result<ChatTemplate> ChatTemplate::Parse(std::string_view jinja,
                                         Tokens tokens) {
  auto parsed = jinja::Template::Parse(jinja);
  if (parsed.ok()) return ChatTemplate(*std::move(parsed), std::move(tokens));
  return Error{parsed.error().code,
               StrCat("[text] the chat template ", Quoted(jinja.substr(0, 60)),
                      jinja.size() > 60 ? "..." : "",
                      " is not read: ", parsed.error().message,
                      parsed.error().code == ErrorCode::kUnsupported
                          ? ", which is not known here"
                          : "; expected a template in Jinja")};
}

Result<std::string> ChatTemplate::Format(
    const std::vector<ChatMessage>& messages,
    const ChatOptions& options) const {
  if (messages.empty() && !options.open_answer) {
    return Error{
        ErrorCode::kInvalidArgument,
        "[text] a conversation has no messages; expected one at least"};
  }
  std::vector<jinja::Value> list;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[text] message ", i, " is of ", Quoted(role),
                          "; expected system, user or assistant")};
    }
    list.push_back(
        jinja::MakeDict({{{"role", role}, {"content", messages[i].content}}}));
  }
  std::vector<std::pair<std::string, jinja::Value>> variables = {
      {"messages", jinja::MakeList(std::move(list))},
      {"add_generation_prompt", options.open_answer},
      {"tools", jinja::None{}},
      {"documents", jinja::None{}}};
  if (!options.thinking) variables.emplace_back("enable_thinking", false);
  for (const auto& [name, token] : tokens_) variables.emplace_back(name, token);
  auto text = jinja_.Render(std::move(variables));
  if (text.ok()) return text;
  return Error{
      text.error().code,
      StrCat("[text] the chat template does not write this conversation: ",
             text.error().message,
             text.error().code == ErrorCode::kUnsupported
                 ? ", which is not known here"
                 : "")};
}

Result<std::string> ChatTemplate::AfterAnswer() const {
  constexpr std::string_view kAnswer = "ANSWER";
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string text,
      Format({{"user", "question"}, {"assistant", std::string(kAnswer)}}));
  const size_t at = text.rfind(kAnswer);
  if (at == std::string::npos) {
    return Error{ErrorCode::kUnsupported,
                 "[text] the chat template does not write what answers say"};
  }
  return std::string(jinja::Strip(
      std::string_view(text).substr(at + kAnswer.size()), true, false));
}

}  // namespace stowage
