#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "formats/json.h"

namespace stowage {
namespace {

TEST_CASE("values are found by the keys and positions that lead to them") {
  const auto parsed = JsonValues::Parse(
      R"({"a": {"b": [1, {"c": "x.y"}, -2.5], "none": null}, "t": true,)"
      R"( "empty": {}, "last": [[], [7]]})");
  REQUIRE_MESSAGE(parsed.ok(), parsed.error().message);
  CHECK(*parsed->Int("a.b.0") == 1);
  CHECK(*parsed->Real("a.b.0") == 1);
  CHECK(*parsed->Text("a.b.1.c") == "x.y");
  CHECK(*parsed->Real("a.b.2") == -2.5);
  CHECK(*parsed->Bool("t"));
  CHECK(*parsed->Int("last.1.0") == 7);
  CHECK(parsed->values().size() == 6);
  CHECK(parsed->HasBelow("a.b"));
  CHECK_FALSE(parsed->HasBelow("empty"));
  CHECK_FALSE(parsed->Has("a.none"));
  CHECK(parsed->Int("a.none").error().code == ErrorCode::kNotFound);
  CHECK(parsed->Int("t").error().message ==
        "[json] the value \"t\" is no integer");
  CHECK(parsed->Int("a.b.2").error().message ==
        "[json] the value \"a.b.2\" is no integer");
}

TEST_CASE("what is no JSON is refused, saying where") {
  const auto refusal = [](const std::string& text) {
    const auto parsed = JsonValues::Parse(text);
    REQUIRE_FALSE(parsed.ok());
    return parsed.error().message;
  };
  CHECK(refusal(R"({"a": 1, "b" 2})") ==
        "[json] the text is no JSON, at byte 14: unexpected number literal; "
        "expected ':'");
  CHECK(refusal(R"({"a": {"b": 1}, "a": {}})") ==
        "[json] the text has the key \"a\" twice");
  CHECK(refusal(R"({"a": {"b": 1}, "a.b": 2})") ==
        "[json] two values stand at \"a.b\"");
  CHECK(refusal(R"({"a": [9223372036854775808]})") ==
        "[json] the value \"a.0\" is 9223372036854775808, which 63 bits cannot "
        "hold");
  CHECK(refusal(std::string(100'000, '[')) ==
        "[json] the text nests deeper than 64 levels");
  CHECK(refusal(std::string("{}\0{}", 5)) ==
        "[json] the text is no JSON, at byte 3: a NUL");
  CHECK(refusal("{\"a\": \"\xff\"}") ==
        "[json] the text is no JSON, at byte 8: invalid string: ill-formed "
        "UTF-8 byte");
  CHECK(refusal("").starts_with("[json] the text is no JSON, at byte "));
}

TEST_CASE("a long key over many values takes no more than a text is worth") {
  const auto text = [](size_t key, int count) {
    std::string list = "0";
    for (int i = 1; i < count; ++i) list += ",0";
    return "{\"" + std::string(key, 'k') + "\": [" + list + "]}";
  };
  CHECK(JsonValues::Parse(text(60, 1000)).ok());
  // A path of 1,002 to 1,004 bytes a value, of which a text of 3,007 has 1,000.
  const auto parsed = JsonValues::Parse(text(1000, 1000));
  REQUIRE_FALSE(parsed.ok());
  CHECK(parsed.error().code == ErrorCode::kInvalidArgument);
  CHECK(parsed.error().message ==
        "[json] the paths of its values have more than 192448 bytes together, "
        "64 for each of the text; expected shorter keys above lists");
}

}  // namespace
}  // namespace stowage
