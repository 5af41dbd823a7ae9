#include "data/examples.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
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

TEST_CASE("a completion goes on from its prompt, without a space of its own") {
  const Tokenizer tokenizer =
      ReadTokenizer("tests/goldens/pieces/llama.model").value();
  const auto examples = ReadExamples(
      "{\"prompt\": \"a truth\", \"completion\": \" acknowledged\"}\n"
      "{\"prompt\": \"a truth<s>\", \"completion\": \"wife\"}\n",
      "pairs", tokenizer, {});
  REQUIRE_MESSAGE(examples.ok(), examples.error().message);
  const auto tokens_of = [&](size_t i) {
    return std::vector<int32_t>(examples->tokens(i).begin(),
                                examples->tokens(i).end());
  };
  CHECK(*tokenizer.Decode(tokens_of(0)) == "a truth acknowledged");
  // Behind a special token a text begins anew.
  CHECK(tokens_of(1) == *tokenizer.Encode("a truth<s>wife"));
}

constexpr char kChatMl[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
    "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
    "{% endif %}";

TEST_CASE("bytes that no token stands for are counted over all examples") {
  TokenizerParts parts{.tokens = {"a", "b", "ab"}, .merges = {"a b"}};
  const auto lost = [&](std::string_view lines) {
    const auto examples = ReadExamples(
        lines, "pairs", Tokenizer::Create(parts).value(), {.end = 1});
    REQUIRE_MESSAGE(examples.ok(), examples.error().message);
    return examples->without_token();
  };
  CHECK(lost("{\"text\": \"abba\"}\n") == 0);
  // "\u00e9" has two bytes.
  CHECK(lost("{\"text\": \"ab\u00e9\"}\n"
             "{\"prompt\": \"xy\", \"completion\": \"ba\"}\n") == 4);
}

TEST_CASE("texts and prompts begin and end as the tokenizer has it") {
  TokenizerParts parts =
      ParseTokenizerParts(ReadFile("tests/goldens/tokens/qwen.json").value())
          .value();
  const int32_t begin = 64, end = 65;  // "a" and "b"
  parts.prefix = {begin};
  parts.suffix = {end};
  const Tokenizer tokenizer = Tokenizer::Create(std::move(parts)).value();
  const auto examples =
      ReadExamples(R"({"prompt": "two ", "completion": "one"})"
                   "\n"
                   R"({"text": "x"})"
                   "\n"
                   R"({"text": "xb"})",
                   "pairs", tokenizer, {.end = end});
  REQUIRE_MESSAGE(examples.ok(), examples.error().message);
  CHECK(Text(tokenizer, *examples, 0, false) == "atwo ");
  // The end is there once, whoever puts it there.
  CHECK(Text(tokenizer, *examples, 0, true) == "oneb");
  CHECK(Text(tokenizer, *examples, 1, false) == "a");
  CHECK(Text(tokenizer, *examples, 1, true) == "xb");
  CHECK(Text(tokenizer, *examples, 2, true) == "xbb");

  const ChatTemplate chat = ChatTemplate::Parse(kChatMl).value();
  const auto talk =
      ReadExamples(R"({"messages": [{"role": "user", "content": "Hello"}, )"
                   R"({"role": "assistant", "content": "Hi"}]})",
                   "chats", tokenizer, {.chat = &chat, .end = end});
  REQUIRE_MESSAGE(talk.ok(), talk.error().message);
  CHECK(Text(tokenizer, *talk, 0, true) == "Hi<|im_end|>\n");
  CHECK(Text(tokenizer, *talk, 0, false) ==
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("of a conversation every answer is learnt whose weight is not 0") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat = ChatTemplate::Parse(kChatMl).value();
  const auto read = [&](const std::string& first, const std::string& user,
                        const std::string& second) {
    return ReadExamples(
        R"({"messages": [{"role": "user", "content": "Hello"}, )"
        R"({"role": "assistant", "content": "Hi")" +
            first + R"(}, {"role": "user", "content": "Bye")" + user +
            R"(}, {"role": "assistant", "content": "So long")" + second +
            R"(}, {"role": "user", "content": "?"}]})",
        "chats", tokenizer, {.chat = &chat});
  };
  const std::string prompt =
      "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n";
  const std::string more =
      "<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n";
  const std::string last = "<|im_start|>user\n?<|im_end|>\n";
  const auto both = read(R"(, "weight": 1)", "", R"(, "name": null)");
  REQUIRE_MESSAGE(both.ok(), both.error().message);
  CHECK(Text(tokenizer, *both, 0, true) == "Hi<|im_end|>\nSo long<|im_end|>\n");
  CHECK(Text(tokenizer, *both, 0, false) == prompt + more + last);
  const auto one = read(R"(, "weight": 0)", R"(, "weight": 0)", "");
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  CHECK(Text(tokenizer, *one, 0, true) == "So long<|im_end|>\n");
  CHECK(Text(tokenizer, *one, 0, false) ==
        prompt + "Hi<|im_end|>\n" + more + last);
  for (const auto& [first, user, what] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"(, "weight": 0.5)", "",
            "has a message with a \"weight\" of 0.5; expected 0, or 1 for an "
            "answer that is learnt"},
           {R"(, "weight": true)", "",
            "has a message with a \"weight\" of true; expected 0, or 1 for an "
            "answer that is learnt"},
           {"", R"(, "weight": 1)",
            "has a message with a \"weight\" of 1; expected 0, or 1 for an "
            "answer that is learnt"},
           {R"(, "tool_calls": [])", "",
            "has a message with \"tool_calls\", which is not known; expected "
            "role, content and weight"},
           {"", R"(, "name": "Ann")",
            "has a message with \"name\", which is not known; expected role, "
            "content and weight"}}) {
    const auto refused = read(first, user, "");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message ==
          "[examples] " + what + "; this is line 1 of \"chats\"");
  }
}

TEST_CASE(
    "of other families, too, answers are learnt up to the end of a turn") {
  const Tokenizer tokenizer = Bytes();
  const auto file = nlohmann::json::parse(
      ReadFile("tests/goldens/chat_templates.json").value());
  struct Row {
    std::string name, given, learnt;
  };
  const Row rows[] = {
      {"phi3", "<|user|>\nHello<|end|>\n<|assistant|>\n", "Hi<|end|>\n<e>"},
      {"gemma2",
       "<b><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
       "Hi<end_of_turn>\n"},
      {"gemma3",
       "<b><start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n",
       "Hi<end_of_turn>\n"},
      {"olmo2", "<b><|user|>\nHello\n<|assistant|>\n", "Hi<e>"}};
  for (const Row& row : rows) {
    INFO(row.name);
    const ChatTemplate chat =
        ChatTemplate::Parse(file["templates"][row.name].get<std::string>(),
                            {{"bos_token", "<b>"}, {"eos_token", "<e>"}})
            .value();
    const auto examples =
        ReadExamples(R"({"messages": [{"role": "user", "content": "Hello"}, )"
                     R"({"role": "assistant", "content": "Hi"}]})",
                     "chats", tokenizer, {.chat = &chat});
    REQUIRE_MESSAGE(examples.ok(), examples.error().message);
    CHECK(Text(tokenizer, *examples, 0, false) == row.given);
    CHECK(Text(tokenizer, *examples, 0, true) == row.learnt);
  }
}

TEST_CASE("of Qwen 3 one answer is learnt, with the thoughts that it has") {
  const Tokenizer tokenizer = Bytes();
  const auto file = nlohmann::json::parse(
      ReadFile("tests/goldens/chat_templates.json").value());
  const ChatTemplate chat =
      ChatTemplate::Parse(file["templates"]["qwen3"].get<std::string>())
          .value();
  const auto read = [&](const std::string& more) {
    return ReadExamples(
        R"({"messages": [{"role": "user", "content": "Hello"}, )" + more + "]}",
        "chats", tokenizer, {.chat = &chat});
  };
  const std::string asked =
      "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n";
  const std::string answer = R"({"role": "assistant", "content": "Hi"})";
  const auto one = read(answer);
  REQUIRE_MESSAGE(one.ok(), one.error().message);
  CHECK(Text(tokenizer, *one, 0, false) == asked + "<think>\n\n</think>\n\n");
  CHECK(Text(tokenizer, *one, 0, true) == "Hi<|im_end|>\n");
  const auto thought =
      read(R"({"role": "assistant", "content": "<think>Well</think>Hi"})");
  REQUIRE_MESSAGE(thought.ok(), thought.error().message);
  CHECK(Text(tokenizer, *thought, 0, false) == asked);
  CHECK(Text(tokenizer, *thought, 0, true) ==
        "<think>\nWell\n</think>\n\nHi<|im_end|>\n");
  const auto refused =
      read(answer + R"(, {"role": "user", "content": "Bye"}, )" + answer);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kUnsupported);
  CHECK(refused.error().message ==
        "[examples] has an answer, message 1, that the chat template writes "
        "otherwise than behind its prompt for an answer, or once more is said; "
        "expected one answer, the last message, or \"weight\": 0 for the "
        "others; this is line 1 of \"chats\"");
  const auto last =
      read(R"({"role": "assistant", "content": "Hi", "weight": 0}, )"
           R"({"role": "user", "content": "Bye"}, )" +
           answer);
  REQUIRE_MESSAGE(last.ok(), last.error().message);
  CHECK(Text(tokenizer, *last, 0, true) == "Hi<|im_end|>\n");
}

TEST_CASE("a template that says no, or asks otherwise, is quoted") {
  const Tokenizer tokenizer = Bytes();
  const auto error = [&](std::string_view jinja, const std::string& messages) {
    const ChatTemplate chat = ChatTemplate::Parse(jinja).value();
    const auto examples = ReadExamples("{\"messages\": " + messages + "}", "c",
                                       tokenizer, {.chat = &chat});
    REQUIRE_FALSE(examples.ok());
    return examples.error().message;
  };
  const std::string talk =
      R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])";
  CHECK(error("{{ raise_exception('Only tools') }}", talk) ==
        "[text] the chat template does not write this conversation: it says "
        "\"Only tools\"; this is line 1 of \"c\"");
  CHECK(error("{% for m in messages %}{{ m.content }}{% endfor %}"
              "{% if add_generation_prompt %}<think>{% endif %}",
              talk)
            .starts_with("[examples] has an answer, message 1, that the chat"));
  CHECK(error("{{ messages[0].content }}",
              R"([{"role": "assistant", "content": "b"}])") ==
        "[examples] begins with an answer, for which the chat template has no "
        "prompt: \"item 0 of 0\" is undefined; expected a message before it, "
        "or \"weight\": 0; this is line 1 of \"c\"");
}

TEST_CASE("a conversation has no more messages than are read") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat = ChatTemplate::Parse(kChatMl).value();
  const auto read = [&](int messages) {
    std::string list = R"({"role": "user", "content": "?"})";
    for (int i = 2; i < messages; ++i) {
      list += R"(, {"role": "assistant", "content": "!", "weight": 0})";
    }
    list += R"(, {"role": "assistant", "content": "!"})";
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
  CHECK(contains(error("{\"text\": \"cut"), "is no JSON, at byte "));
  CHECK(contains(error("[1]"), "is no JSON object"));
  CHECK(contains(error("{\"story\": \"x\"}"), "has neither \"messages\""));
  CHECK(contains(error("{\"text\": 3}"), "lacks a text \"text\""));
  CHECK(contains(error("{\"completion\": \"x\"}"), "lacks a text \"prompt\""));
  CHECK(contains(error("{\"prompt\": \"x\", \"completion\": \"\"}"),
                 "has nothing to learn"));
  CHECK(contains(error("{\"text\": \"x\"}"), "has nothing to learn"));
  CHECK(contains(error("{\"messages\": []}"),
                 "has messages, and the model has no chat template; "));
  CHECK(contains(error(R"({"text": "ab", "text": "cd"})"),
                 "has the key \"text\" twice"));
  CHECK(contains(error(R"({"text": "ab", "messages": []})"),
                 "has \"text\" beside \"messages\", which would change what is "
                 "learnt and is not known; leave it away"));
  for (const char* key : {"tools", "chat_template_kwargs", "reasoning_content",
                          "label", "labels", "history", "weights"}) {
    CHECK(
        contains(error("{\"text\": \"ab\", \"" + std::string(key) + "\": [1]}"),
                 "has \"" + std::string(key) + "\" beside \"text\""));
  }
  CHECK(contains(
      error("{\"text\": \"a\xff\"}"),
      "is no JSON, at byte 12: invalid string: ill-formed UTF-8 byte; "));
  CHECK(contains(error(std::string("{\"text\": \"a\0\"}", 14)),
                 "is no JSON, at byte 12: a NUL; "));
  CHECK(contains(error(R"({"text": "\ud800"})"),
                 "is no JSON, at byte 17: invalid string: surrogate "
                 "U+D800..U+DBFF must be followed by U+DC00..U+DFFF; "));
  CHECK(contains(error(R"({"text": 1e999})"), "number overflow"));
  CHECK(contains(error("{\"a\": " + std::string(65, '[')),
                 "nests deeper than 64 levels"));
  // What describes an example is not read, and is counted.
  const auto described = ReadExamples(
      "{\"text\": \"all of it\", \"id\": 7, \"tools\": null}\n"
      "{\"source\": \"web\", \"text\": \"all of it\", \"id\": 8}",
      "data", tokenizer, {});
  REQUIRE(described.ok());
  CHECK(described->unread_keys() ==
        std::map<std::string, int64_t>{{"id", 2}, {"source", 1}});
  const auto none = ReadExamples(" \n", "empty.jsonl", tokenizer, {});
  REQUIRE_FALSE(none.ok());
  CHECK(contains(none.error().message, "\"empty.jsonl\" has no examples"));
}

constexpr char kTalk[] =
    R"({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},)"
    R"({"role": "user", "content": "d"})";

std::string Answer(std::string_view text) {
  return StrCat(R"({"role": "assistant", "content": ")", text, "\"}");
}

TEST_CASE("of pairs both answers follow the prompt, the chosen one first") {
  const Tokenizer tokenizer = Bytes();
  const ChatTemplate chat = ChatTemplate::Parse(kChatMl).value();
  const auto read = [&](const std::string& line) {
    return ReadExamples(line, "pairs", tokenizer,
                        {.kind = ExampleKind::kPairs,
                         .chat = &chat,
                         .end = tokenizer.FindAdded("<|im_end|>")});
  };
  const auto texts =
      read(R"({"prompt": "2 + 2 = ", "chosen": "4", "rejected": "5", "id": 1})"
           "\n"
           R"({"prompt": "x", "chosen": "y", "rejected": "y"})");
  REQUIRE_MESSAGE(texts.ok(), texts.error().message);
  REQUIRE(texts->size() == 4);
  CHECK(Text(tokenizer, *texts, 0, false) == "2 + 2 = ");
  CHECK(Text(tokenizer, *texts, 0, true) == "4<|im_end|>");
  CHECK(Text(tokenizer, *texts, 1, false) == "2 + 2 = ");
  CHECK(Text(tokenizer, *texts, 1, true) == "5<|im_end|>");
  CHECK(texts->unread_keys() == std::map<std::string, int64_t>{{"id", 1}});
  CHECK(texts->same_answers() == 1);
  // The answers of a prompt, or of the messages that both begin with, are only read.
  const std::string prompt =
      "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
      "<|im_start|>user\nd<|im_end|>\n<|im_start|>assistant\n";
  const std::string asked =
      StrCat(R"({"prompt": [)", kTalk, R"(], "chosen": [)", Answer("e"),
             R"(], "rejected": [)", Answer("f"), "]}");
  const std::string both =
      StrCat(R"({"chosen": [)", kTalk, ",", Answer("e"), R"(], "rejected": [)",
             kTalk, ",", Answer("f"), "]}");
  // Sets whose conversations begin with a prompt that is told beside them.
  std::string told = both;
  told.insert(1, R"("prompt": "a", )");
  for (const std::string& line : {asked, both, told}) {
    CAPTURE(line);
    const auto talks = read(line);
    REQUIRE_MESSAGE(talks.ok(), talks.error().message);
    REQUIRE(talks->size() == 2);
    CHECK(Text(tokenizer, *talks, 0, false) == prompt);
    CHECK(Text(tokenizer, *talks, 0, true) == "e<|im_end|>\n");
    CHECK(Text(tokenizer, *talks, 1, false) == prompt);
    CHECK(Text(tokenizer, *talks, 1, true) == "f<|im_end|>\n");
  }
  const auto same =
      read(StrCat(R"({"chosen": [)", kTalk, ",", Answer("e"),
                  R"(], "rejected": [)", kTalk, ",", Answer("e"), "]}"));
  REQUIRE_MESSAGE(same.ok(), same.error().message);
  CHECK(Text(tokenizer, *same, 1, true) == "e<|im_end|>\n");
}

TEST_CASE("of judged answers each is good or bad") {
  const Tokenizer tokenizer = Bytes();
  const auto read = [&](const std::string& line) {
    return ReadExamples(line, "judged", tokenizer,
                        {.kind = ExampleKind::kJudged});
  };
  const auto judged =
      read(R"({"prompt": "a ", "completion": "b", "label": true})"
           "\n"
           R"({"prompt": "a ", "completion": "c", "label": 0})");
  REQUIRE_MESSAGE(judged.ok(), judged.error().message);
  REQUIRE(judged->size() == 2);
  CHECK(judged->good() == std::vector<uint8_t>{1, 0});
  CHECK(Text(tokenizer, *judged, 1, false) == "a ");
  CHECK(Text(tokenizer, *judged, 1, true) == "c");
  const auto refused =
      read(R"({"prompt": "a", "completion": "b", "label": "good"})");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message ==
        "[examples] has a \"label\" of \"good\"; expected true or false; this "
        "is line 1 of \"judged\"");
}

TEST_CASE("preferences of another form are refused by what they lack") {
  const Tokenizer tokenizer = Bytes();
  const auto error = [&](ExampleKind kind, const std::string& line) {
    const auto examples = ReadExamples(line, "data", tokenizer, {.kind = kind});
    REQUIRE_FALSE(examples.ok());
    const std::string& message = examples.error().message;
    return message.substr(0, message.find("; this is line 1 of \"data\""));
  };
  using enum ExampleKind;
  CHECK(error(kPairs, R"({"prompt": "a", "completion": "b"})") ==
        "[examples] has no \"chosen\"; expected \"prompt\", \"chosen\" and "
        "\"rejected\"");
  CHECK(error(kPairs, R"({"prompt": "a", "chosen": "b"})") ==
        "[examples] lacks \"rejected\"");
  CHECK(error(kPairs, R"({"chosen": "b", "rejected": "c"})") ==
        "[examples] lacks a text \"prompt\"");
  CHECK(error(kPairs, R"({"prompt": "a", "chosen": "b", "rejected": ["c"]})") ==
        "[examples] has a text \"prompt\", which is none of the messages of "
        "\"rejected\"; expected both as texts or as messages");
  CHECK(
      error(kPairs, StrCat(R"({"prompt": [)", kTalk,
                           R"(], "chosen": "b", "rejected": "c"})")) ==
      "[examples] has a \"prompt\" of messages and a text \"chosen\"; expected "
      "both as texts or as messages");
  CHECK(
      error(kPairs, StrCat(R"({"prompt": [)", kTalk, R"(], "chosen": [)", kTalk,
                           ",", Answer("e"), R"(], "rejected": [)", kTalk, ",",
                           Answer("f"), "]}")) ==
      "[examples] has \"chosen\" that begins with the messages of \"prompt\"; "
      "leave \"prompt\" away");
  CHECK(error(kPairs, StrCat(R"({"chosen": [)", kTalk, ",", Answer("e"),
                             R"(], "rejected": [)", kTalk, "]}")) ==
        "[examples] has a conversation with which the other one begins; "
        "expected two answers to one prompt");
  CHECK(error(kPairs, StrCat(R"({"chosen": [)", kTalk, R"(], "rejected": [)",
                             Answer("f"), "]}")) ==
        "[examples] has messages, and the model has no chat template");
  CHECK(error(kPairs, R"({"prompt": "a", "chosen": "b", "rejected": "c",)"
                      R"( "system": "d"})") ==
        "[examples] has \"system\" beside \"chosen\", which would change what "
        "is learnt and is not known; leave it away");
  CHECK(error(kJudged, R"({"prompt": "a", "completion": "b"})") ==
        "[examples] has no \"label\"; expected \"prompt\", \"completion\" and "
        "\"label\"");
  CHECK(error(kJudged, R"({"prompt": "a", "label": true})") ==
        "[examples] lacks \"completion\"");
  CHECK(error(kLearnt, R"({"prompt": "a", "chosen": "b", "rejected": "c"})") ==
        "[examples] has neither \"messages\", nor \"prompt\" and "
        "\"completion\", nor \"text\"; pairs of answers are learnt by "
        "--objective dpo, ipo, orpo or simpo");
}

}  // namespace
}  // namespace stowage
