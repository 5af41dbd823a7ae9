#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "text/jinja.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

// The error of rendering a conversation, or of parsing the template.
Error ErrorOf(std::string_view jinja) {
  const auto chat = ChatTemplate::Parse(jinja);
  if (!chat.ok()) return chat.error();
  const auto text = chat->Format({{"user", "Hello"}, {"assistant", "Hi"}});
  REQUIRE_MESSAGE(!text.ok(), *text);
  return text.error();
}

TEST_CASE("conversations are written as Jinja writes them") {
  const Json file =
      Json::parse(ReadFile("tests/goldens/chat_templates.json").value());
  REQUIRE(file["rows"].size() == 23 * 8 + 6 * 2);
  for (const Json& row : file["rows"]) {
    const std::string name = row["name"];
    INFO(name, ", ", row["messages"].dump());
    const Result<ChatTemplate> chat = ChatTemplate::Parse(
        file["templates"][name].get<std::string>(),
        {{"bos_token", row["bos_token"]}, {"eos_token", "</s>"}});
    REQUIRE_MESSAGE(chat.ok(), chat.error().message);
    std::vector<ChatMessage> messages;
    for (const Json& message : row["messages"]) {
      messages.push_back({message["role"], message["content"]});
    }
    const Result<std::string> text = chat->Format(
        messages, {.open_answer = row["open_answer"], .thinking = false});
    const bool written = row["text"].is_string();
    REQUIRE_MESSAGE(text.ok() == written,
                    (text.ok() ? *text : text.error().message));
    if (text.ok()) CHECK(*text == row["text"].get<std::string>());
  }
}

TEST_CASE("enable_thinking is set for a template only where it is off") {
  const ChatTemplate chat =
      ChatTemplate::Parse("{{ enable_thinking is defined }}").value();
  CHECK(chat.Format({{"user", "a"}}).value() == "False");
  CHECK(chat.Format({{"user", "a"}}, {.thinking = false}).value() == "True");
}

TEST_CASE("what is no Jinja, or not known, is named with its line") {
  const auto parse = [](std::string_view jinja) {
    const Error error = ErrorOf(jinja);
    const std::string_view message = error.message;
    const size_t at = message.find("is not read: ");
    REQUIRE_MESSAGE(at != std::string_view::npos, message);
    return std::pair(error.code, std::string(message.substr(at + 13)));
  };
  const std::string jinja = "; expected a template in Jinja",
                    unknown = ", which is not known here";
  for (const auto& [source, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"{{ 'a", "line 1: a string does not end"},
           {"\n{{ a", "line 2: a tag does not end"},
           {"{# a", "line 1: a comment does not end"},
           {"{{ a ! b }}", "line 1: the character \"!\" in a tag"},
           {"{{ a) }}", "line 1: a \")\" that closes nothing"},
           {"{{ a b }}", "line 1: expected the end of a tag and not \"b\""},
           {"{% if a %}", "line 1: expected the tag \"endif\""},
           {"{% for a %}", "line 1: expected \"in\" and not the end"},
           {"{{ }}", "line 1: expected a value and not the end"},
           {"{{ a[] }}", "line 1: an index is empty"},
           {"{% break %}", "line 1: a break outside of a loop"},
           {"{{ '\\xz' }}", "line 1: an escape of a string is cut short"}}) {
    const auto [code, got] = parse(source);
    CHECK(code == ErrorCode::kInvalidArgument);
    CHECK(got == message + jinja);
  }
  const std::string deep = std::string(101, '(') + std::string(101, ')');
  std::string terms = "1";
  for (int i = 0; i < 501; ++i) terms += "+1";
  for (const auto& [source, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"a\n{% include 'x' %}", "line 2: the tag \"include\""},
           {"{{ 2 ** 3 }}", "line 1: the operator \"**\""},
           {"{{ 1 < 2 < 3 }}", "line 1: a chain of comparisons"},
           {"{% set a, b = c %}", "line 1: a set of several variables"},
           {"{{ 99999999999999999999 }}",
            "line 1: the number 99999999999999999999"},
           {"{{ f(*a) }}", "line 1: a call with arguments from a list"},
           {"{{ a is divisibleby 2 }}",
            "line 1: the test \"divisibleby\" of a value without brackets"},
           {StrCat("{{ ", deep, " }}"), "line 1: it nests too deep"},
           {StrCat("{{ ", terms, " }}"),
            "line 1: a tag of more than 1000 tokens"}}) {
    const auto [code, got] = parse(source);
    CHECK(code == ErrorCode::kUnsupported);
    CHECK(got == message + unknown);
  }
  CHECK(ErrorOf(StrCat("{{ '", std::string(80, 'a'), "' }}{{")).message ==
        StrCat("[text] the chat template \"{{ '", std::string(56, 'a'),
               "\"... is not read: line 1: a tag does not end; expected a "
               "template in Jinja"));
}

TEST_CASE("what a template does where Python raises an exception is an error") {
  for (const auto& [jinja, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"{{ raise_exception('No ' ~ 1) }}", "it says \"No 1\""},
           {"{{ messages[2]['role'] }}", "\"item 2 of 2\" is undefined"},
           {"{{ messages[0].name.first }}", "\"name\" is undefined"},
           {"{{ bos_token + 'a' }}", "\"bos_token\" is undefined"},
           {"{{ strftime_now('%d') }}", "\"strftime_now\" is undefined"},
           {"{% for a in 3 %}{% endfor %}", "it iterates over an integer"},
           {"{{ 1 < 'a' }}", "it compares an integer with a string"},
           {"{{ 1 in 'a' }}", "it looks for an integer in a string"},
           {"{{ 1 % 0 }}", "it divides by 0"},
           {"{{ range(1, 200000)|length }}",
            "a range of more than 100000 numbers"},
           {"{% for a, b in [[1]] %}{% endfor %}",
            "it takes 2 variables from 1 values"},
           {"{% set a = 1 %}{% set a.b = 1 %}",
            "it sets an attribute of an integer"}}) {
    const Error error = ErrorOf(jinja);
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.message ==
          "[text] the chat template does not write this conversation: " +
              message);
  }
}

TEST_CASE("what is not known is an error where a template comes to it") {
  const std::string begin =
      "[text] the chat template does not write this conversation: ";
  for (const auto& [jinja, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"{{ messages | batch(2) }}", "the filter \"batch\" of a list"},
           {"{{ 'a' is sameas('a') }}", "the test \"sameas\" of a string"},
           {"{{ 'a'.center(9) }}", "the method \"center\" of a string"},
           {"{{ 'a'.center }}", "the attribute \"center\" of a string"},
           {"{{ messages[0]['items'] }}", "the method \"items\" as a value"},
           {"{{ '\u00e9' | upper }}", "upper of letters beyond ASCII"},
           {"{{ messages }}", "it writes a list"},
           {"{{ 1 / 2 }}", "the operator \"/\", whose result is a real number"},
           {"{{ 9223372036854775807 + 1 }}", "an integer beyond 63 bits"},
           {"{{ cycler(1) }}", "the function \"cycler\""},
           {"{% set n = namespace() %}{% set n.n = n %}",
            "a namespace in another value"},
           {"{% if true %}{% for i in [1] %}{% macro a() %}{% endmacro %}"
            "{% endfor %}{% endif %}",
            "a macro within a block"},
           {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
            "macros in macros, 17 deep"},
           {"{% for i in range(99999) %}{% for j in range(99999) %}"
            "{% endfor %}{% endfor %}",
            "strings of far more bytes than it is given"},
           {"{% for i in range(99999) %}"
            "{{ 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 }}"
            "{{ 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 }}"
            "{% endfor %}",
            "more than 4194304 steps"},
           {"{% set n = namespace(s='aaaaaaaa') %}{% for i in range(40) %}"
            "{% set n.s = n.s + n.s %}{% endfor %}",
            "strings of far more bytes than it is given"}}) {
    const Error error = ErrorOf(jinja);
    CHECK(error.code == ErrorCode::kUnsupported);
    CHECK(error.message == begin + message + ", which is not known here");
  }
  // Parts that no conversation comes to may hold anything that can be parsed.
  CHECK(ChatTemplate::Parse("{% if tools %}{{ tools | batch(2) }}{% endif %}a")
            .value()
            .Format({{"user", "b"}})
            .value() == "a");
}

TEST_CASE("an answer ends with what its template has behind it") {
  const auto after = [](std::string_view jinja) {
    return ChatTemplate::Parse(jinja, {{"eos_token", "</s>"}})
        .value()
        .AfterAnswer();
  };
  CHECK(after("{% for m in messages %}{{ m.content }}<|im_end|>\n{% endfor %}")
            .value() == "<|im_end|>\n");
  CHECK(after("{% for m in messages %}{{ m.content + ' ' + eos_token }}"
              "{% endfor %}")
            .value() == "</s>");
  const auto none = after("Hello");
  REQUIRE(!none.ok());
  CHECK(none.error().message ==
        "[text] the chat template does not write what answers say");
}

TEST_CASE("roles that are not known are named by their message") {
  const ChatTemplate chat = ChatTemplate::Parse("a").value();
  CHECK(chat.Format({{"user", "a"}, {"tool", "a"}}).error().message ==
        "[text] message 1 is of \"tool\"; expected system, user or assistant");
  CHECK(chat.Format({}).error().message ==
        "[text] a conversation has no messages; expected one at least");
  CHECK(chat.Format({}, {.open_answer = true}).value() == "a");
}

}  // namespace
}  // namespace stowage
