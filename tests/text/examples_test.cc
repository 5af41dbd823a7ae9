#include "text/examples.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/read_file.h"
#include "text/text.h"

namespace stowage {
namespace {

// A token a byte, ids by the alphabet: "!" is 0, "a" is 64, a newline is 198; then
// ChatML's two.
Tokenizer Bytes() {
  TokenizerParts parts =
      ParseTokenizerParts(ReadFile("tests/goldens/tokens/qwen.json").value())
          .value();
  return Tokenizer::Create(std::move(parts)).value();
}

std::string Text(const Tokenizer& tokenizer, const TokenExamples& examples,
                 size_t i, bool learnt) {
  std::vector<int32_t> ids;
  for (size_t k = 0; k < examples.tokens(i).size(); ++k) {
    if (examples.learnt(i)[k] == (learnt ? 1 : 0)) {
      ids.push_back(examples.tokens(i)[k]);
    }
  }
  return tokenizer.Decode(ids).value();
}

TEST_CASE(
    "of a completion all is learnt, and what ends it; of a prompt nothing") {
  const Tokenizer tokenizer = Bytes();
  const int32_t end = *tokenizer.FindAdded("<|im_end|>");
  const auto examples = ReadExamples(
      "{\"prompt\": \"two and \", \"completion\": \"two\"}\n\n"
      "{\"text\": \"all of it\"}\r\n",
      "pairs", tokenizer, {.end = end});
  REQUIRE_MESSAGE(examples.ok(), examples.error().message);
  REQUIRE(examples->size() == 2);
  CHECK(Text(tokenizer, *examples, 0, false) == "two and ");
  CHECK(Text(tokenizer, *examples, 0, true) == "two<|im_end|>");
  CHECK(Text(tokenizer, *examples, 1, false).empty());
  CHECK(Text(tokenizer, *examples, 1, true) == "all of it<|im_end|>");
  CHECK(examples->tokens(0).back() == end);
}

TEST_CASE("of a conversation every answer is learnt, with its end") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat =
      ChatTemplate::Recognize(
          "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
          "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
          "{% endif %}")
          .value();
  const auto examples = ReadExamples(
      R"({"messages": [{"role": "user", "content": "Hello"},
{"role": "assistant", "content": "Hi"}, {"role": "user", "content": "Bye"},
{"role": "assistant", "content": "So long"}]})",
      "chats", tokenizer, {.chat = &chat});
  // Over several lines it is no JSON.
  CHECK_FALSE(examples.ok());
  const auto one =
      ReadExamples(R"({"messages": [{"role": "user", "content": "Hello"}, )"
                   R"({"role": "assistant", "content": "Hi"}, )"
                   R"({"role": "user", "content": "Bye"}, )"
                   R"({"role": "assistant", "content": "So long"}]})",
                   "chats", tokenizer, {.chat = &chat});
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  CHECK(Text(tokenizer, *one, 0, true) == "Hi<|im_end|>\nSo long<|im_end|>\n");
  CHECK(Text(tokenizer, *one, 0, false) ==
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("of Qwen 3 one answer is learnt, behind thoughts that are empty") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat =
      ChatTemplate::Recognize(
          "<|im_start|><|im_end|>{%- if loop.index0 > ns.last_query_index %}"
          "{%- if loop.last or (not loop.last and reasoning_content) %}"
          "{%- if enable_thinking is false %}"
          "{{- '<think>\\n\\n</think>\\n\\n' }}")
          .value();
  const auto read = [&](const std::string& more) {
    return ReadExamples(
        R"({"messages": [{"role": "user", "content": "Hello"}, )" + more + "]}",
        "chats", tokenizer, {.chat = &chat});
  };
  const std::string answer = R"({"role": "assistant", "content": "Hi"})";
  const auto one = read(answer);
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  CHECK(Text(tokenizer, *one, 0, false) ==
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
        "<think>\n\n</think>\n\n");
  CHECK(Text(tokenizer, *one, 0, true) == "Hi<|im_end|>\n");
  const std::string thought =
      R"({"role": "assistant", "content": "<think>Well</think>Hi"})";
  for (const std::string& more :
       {answer + R"(, {"role": "user", "content": "Bye"}, )" + answer,
        thought}) {
    const auto refused = read(more);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kUnsupported);
    CHECK(
        refused.error().message ==
        "[examples] has an answer that the chat template writes otherwise "
        "once more is said, or with other thoughts than it asks for; expected "
        "one answer, the last message, without thoughts; this is line 1 of "
        "\"chats\"");
  }
}

TEST_CASE("a conversation has no more messages than are read") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat =
      ChatTemplate::Recognize("<|im_start|><|im_end|>").value();
  const auto read = [&](int messages) {
    std::string list = R"({"role": "user", "content": "?"})";
    for (int i = 1; i < messages; ++i) {
      list += R"(, {"role": "assistant", "content": "!"})";
    }
    return ReadExamples("{\"messages\": [" + list + "]}", "chats", tokenizer,
                        {.chat = &chat});
  };
  CHECK(read(1024).ok());
  const auto refused = read(1025);
  REQUIRE_FALSE(refused.ok());
  CHECK(
      refused.error().message ==
      "[examples] has 1025 messages; at most 1024 are read; this is line 1 of "
      "\"chats\"");
}

TEST_CASE("a line that is no example is named by its number") {
  const Tokenizer tokenizer = Bytes();
  const auto error = [&](const std::string& line) {
    const auto examples = ReadExamples("{\"text\": \"good\"}\n" + line + "\n",
                                       "data.jsonl", tokenizer, {});
    REQUIRE_FALSE(examples.ok());
    CHECK(examples.error().message.ends_with(
        "; this is line 2 of \"data.jsonl\""));
    return examples.error().message;
  };
  const auto contains = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  CHECK(contains(error("{\"text\": \"cut"), "is no JSON object"));
  CHECK(contains(error("[1]"), "is no JSON object"));
  CHECK(contains(error("{\"story\": \"x\"}"), "has neither \"messages\""));
  CHECK(contains(error("{\"text\": 3}"), "lacks a text \"text\""));
  CHECK(contains(error("{\"completion\": \"x\"}"), "lacks a text \"prompt\""));
  CHECK(contains(error("{\"prompt\": \"x\", \"completion\": \"\"}"),
                 "has nothing to learn"));
  CHECK(contains(error("{\"text\": \"x\"}"), "has nothing to learn"));
  CHECK(contains(error("{\"messages\": []}"), "has no chat template"));
  const auto none = ReadExamples(" \n", "empty.jsonl", tokenizer, {});
  REQUIRE_FALSE(none.ok());
  CHECK(contains(none.error().message, "\"empty.jsonl\" has no examples"));
}

}  // namespace
}  // namespace stowage
