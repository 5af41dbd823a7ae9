// Texts and pairs joined as PyPI's `tokenizers` joins them
// (tests/goldens/make_encoder_goldens.py).

#include "text/text_template.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/strings.h"
#include "text/text.h"

namespace stowage {
namespace {

using Json = nlohmann::json;
using Ids = std::vector<int32_t>;

const std::string kFolder = "tests/goldens/encoders/";

TEST_CASE("texts are joined, typed and cut as PyPI's tokenizers does it") {
  const Json goldens = Json::parse(*ReadFile(kFolder + "encodings.json"));
  REQUIRE(goldens.size() == 54);
  for (const Json& golden : goldens) {
    CAPTURE(golden.dump());
    const std::string path = StrCat(
        kFolder, golden["tokenizer"].get<std::string>(), "/tokenizer.json");
    const auto tokenizer = ReadTokenizer(path);
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.error().message);
    const auto joins = TextTemplate::Parse(*ReadFile(path));
    REQUIRE_MESSAGE(joins.ok(), joins.error().message);
    const auto encode = [&](const char* key) {
      return *tokenizer->Encode(golden[key].get<std::string>(),
                                {.add_prefix = false});
    };
    const Ids first = encode("text");
    std::optional<Ids> second;
    if (!golden["pair"].is_null()) second = encode("pair");
    const JoinedTexts joined =
        joins->Join(first, second ? &*second : nullptr, golden["longest"]);
    CHECK(joined.tokens == golden["ids"].get<Ids>());
    CHECK(joined.types == golden["types"].get<Ids>());
    const auto whole = std::ssize(first) + (second ? std::ssize(*second) : 0) +
                       joins->added_tokens(second.has_value());
    CHECK(joined.is_cut == (whole > std::ssize(joined.tokens)));
  }
}

TEST_CASE("without a post-processor texts are joined alone") {
  const auto joins = TextTemplate::Parse(R"({"post_processor": null})");
  REQUIRE(joins.ok());
  const Ids second = {7, 8};
  const JoinedTexts joined = joins->Join(Ids{5}, &second, 9);
  CHECK(joined.tokens == Ids{5, 7, 8});
  CHECK(joined.types == Ids{0, 1, 1});
  CHECK(joins->added_tokens(true) == 0);
}

TEST_CASE("templates that join otherwise are refused by name") {
  const auto error_of = [](std::string_view processor) {
    const auto joins =
        TextTemplate::Parse(StrCat(R"({"post_processor": )", processor, "}"));
    REQUIRE(!joins.ok());
    return joins.error().message;
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(contains(error_of(R"({"type": "Unheard"})"), "\"Unheard\""));
  constexpr std::string_view kSingle =
      R"("single": [{"Sequence": {"id": "A"}}])";
  CHECK(contains(
      error_of(StrCat(R"({"type": "TemplateProcessing", )", kSingle,
                      R"(, "pair": [{"Sequence": {"id": "A"}}]})")),
      "the template \"pair\" has 1 times the text A and 0 times B; expected A "
      "and B, once"));
  constexpr std::string_view kBert =
      R"({"type": "BertProcessing", "cls": ["a", 1], "sep": ["b", 2]})";
  CHECK(contains(error_of(StrCat(R"({"type": "Sequence", "processors": [)",
                                 kBert, ",", kBert, "]}")),
                 "several post-processors that add tokens"));
}

}  // namespace
}  // namespace stowage
