#include "text/chat_template.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/read_file.h"
#include "base/strings.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

TEST_CASE(
    "conversations are written as Jinja writes them by the same template") {
  const Json rows =
      Json::parse(ReadFile("tests/goldens/chat_templates.json").value());
  REQUIRE(rows.size() == 8 * 6 + 9 * 2);
  for (const Json& row : rows) {
    INFO(row["name"].get<std::string>(), ", ", row["messages"].dump());
    const Result<ChatTemplate> chat =
        ChatTemplate::Recognize(row["template"].get<std::string>());
    if (!chat.ok()) FAIL(chat.error().message);
    std::vector<ChatMessage> messages;
    for (const Json& message : row["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const Result<std::string> text =
        chat->Format(messages, {.open_answer = row["open_answer"]});
    REQUIRE(text.ok() == row["text"].is_string());
    if (text.ok()) CHECK(*text == row["text"].get<std::string>());
  }
}

TEST_CASE("a template that is not known is refused, with those that are") {
  for (const char* jinja :
       {"", "{{ messages }}",
        "{{'<|im_start|>' + m.content.strip() + '<|im_end|>'}}<think>",
        // Qwen 3 that always thinks, and Qwen 3.5.
        "{%- if loop.index0 > ns.last_query_index %}{%- if loop.last or (not "
        "loop.last and reasoning_content) %}<|im_start|><|im_end|>"
        "{{- '<|im_start|>assistant\\n<think>\\n' }}",
        "{%- set content = render_content(message.content)|trim %}"
        "{%- if loop.index0 > ns.last_query_index %}<|im_start|><|im_end|>"
        "{%- if enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' "
        "}}",
        "{{ '[INST]' + m + '[/INST]' }} [AVAILABLE_TOOLS]",
        "{{ '[INST] <<SYS>>' + m }}"}) {
    const Result<ChatTemplate> chat = ChatTemplate::Recognize(jinja);
    REQUIRE(!chat.ok());
    CHECK(chat.error().code == ErrorCode::kUnsupported);
    CHECK(
        chat.error().message.find(
            "known are ChatML as of SmolLM2 and Qwen 2 and 2.5, Qwen 3, Llama "
            "2, Llama 3 and Mistral 0.1 and 0.2") != std::string::npos);
  }
}

TEST_CASE(
    "a system message stands in if its literal ends where its mark does") {
  const auto system = [](std::string_view jinja) {
    const ChatTemplate chat = ChatTemplate::Recognize(jinja).value();
    return chat.Format({{"user", "a"}}).value();
  };
  const std::string user = "<|im_start|>user\na<|im_end|>\n";
  const std::string kind = "<|im_start|>system\nBe kind<|im_end|>\n" + user;
  CHECK(system("<|im_start|>system\nBe kind<|im_end|>") == kind);
  CHECK(system("'<|im_start|>system\\n' + m + '<|im_end|>'"
               "'<|im_start|>system\\nBe kind<|im_end|>'") == kind);
  CHECK(system("<|im_start|>system\n<|im_end|>") == user);
  CHECK(system("<|im_end|><|im_start|>system\nBe kind") == user);
}

TEST_CASE("an answer ends with the token that its template has behind it") {
  const Json rows =
      Json::parse(ReadFile("tests/goldens/chat_templates.json").value());
  std::set<std::string> ends;
  for (const Json& row : rows) {
    INFO(row["name"].get<std::string>());
    const ChatTemplate chat =
        ChatTemplate::Recognize(row["template"].get<std::string>()).value();
    const std::string text =
        chat.Format({{"user", "a"}, {"assistant", "ANSWER"}}).value();
    std::string_view behind = text;
    behind.remove_prefix(behind.find("ANSWER") + 6);
    behind.remove_prefix(behind.find_first_not_of(' '));
    const std::string end = chat.EndOfAnswer();
    CHECK(behind.starts_with(end));
    ends.insert(end);
  }
  CHECK(ends == std::set<std::string>{"</s>", "<|eot_id|>", "<|im_end|>"});
  const ChatTemplate mistral =
      ChatTemplate::Recognize(
          "{{ '[INST] ' + message['content'] + ' [/INST]' }}")
          .value();
  CHECK(mistral.EndOfAnswer({.eos = "<end>"}) == "<end>");
}

TEST_CASE("roles that do not fit are named by their message") {
  const ChatTemplate mistral =
      ChatTemplate::Recognize(
          "{{ '[INST] ' + message['content'] + ' [/INST]' }}")
          .value();
  CHECK(mistral.Format({{"user", "a"}, {"user", "b"}}).error().message ==
        "[text] message 1 is of \"user\"; expected \"assistant\", since they "
        "take "
        "turns");
  CHECK(mistral.Format({{"system", "a"}}).error().message ==
        "[text] message 0 is of \"system\"; expected \"user\", since they take "
        "turns");
  CHECK(mistral.Format({{"tool", "a"}}).error().message ==
        "[text] message 0 is of \"tool\"; expected system, user or assistant");
  CHECK(mistral.Format({}).error().message ==
        "[text] a conversation has no messages; expected one at least");
}

}  // namespace
}  // namespace stowage
