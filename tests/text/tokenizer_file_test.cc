#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "text/text.h"

namespace stowage {
namespace {

using Json = nlohmann::json;

Json File() {
  return Json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
              "merges": ["a b"]}})");
}

std::string ErrorOf(std::string_view json, ErrorCode code) {
  const Result<TokenizerParts> parts = ParseTokenizerParts(json);
  REQUIRE(!parts.ok());
  CHECK(parts.error().code == code);
  return parts.error().message;
}

std::string ErrorOf(const std::function<void(Json&)>& change,
                    ErrorCode code = ErrorCode::kInvalidArgument) {
  Json file = File();
  change(file);
  return ErrorOf(file.dump(), code);
}

TEST_CASE("merges are texts or pairs, and both say the same") {
  Json file = File();
  for (const bool pairs : {false, true}) {
    file["model"]["merges"] =
        pairs ? Json::parse(R"([["a", "b"]])") : Json::parse(R"(["a b"])");
    const TokenizerParts parts = ParseTokenizerParts(file.dump()).value();
    CHECK(parts.tokens == std::vector<std::string>{"a", "b", "ab"});
    CHECK(parts.merges == std::vector<std::string>{"a b"});
    REQUIRE(parts.added.size() == 1);
    CHECK(parts.added[0].special);
    CHECK(!parts.added[0].normalized);
  }
}

TEST_CASE("a file without merges, or that is none, is refused") {
  Json file = File();
  file["model"].erase("merges");
  const TokenizerParts parts = ParseTokenizerParts(file.dump()).value();
  CHECK(Tokenizer::Create(parts).error().message.find("has no merges") !=
        std::string::npos);
  for (const std::string_view text :
       {"", "{", "nothing", "{\"model\":{}", "{\"a\": \"\xff\"}"}) {
    CHECK(ErrorOf(text, ErrorCode::kInvalidArgument)
              .starts_with("[tokenizer.json] the file is no JSON, at byte "));
  }
  CHECK(ErrorOf("[]", ErrorCode::kInvalidArgument) ==
        "[tokenizer.json] the file is no JSON object");
  CHECK(ErrorOf(R"({"model": {}, "model": {}})", ErrorCode::kInvalidArgument) ==
        "[tokenizer.json] the file has the key \"model\" twice");
  CHECK(ErrorOf("{}", ErrorCode::kInvalidArgument) ==
        "[tokenizer.json] there is no \"model\"; expected one of type BPE");
  const std::string deep(100'000, '[');
  CHECK(ErrorOf("{\"a\":" + deep, ErrorCode::kInvalidArgument) ==
        "[tokenizer.json] the file nests deeper than 64 levels");
}

TEST_CASE("ids are whole numbers that a vocabulary may have") {
  for (const char* id : {"-1", "1.5", "1048576", "18446744073709551615", "1e30",
                         "99999999999999999999999", "\"0\"", "null"}) {
    INFO(id);
    Json file = File();
    file["model"]["vocab"]["b"] = Json::parse(id);
    CHECK(ErrorOf(file.dump(), ErrorCode::kInvalidArgument)
              .find("the token \"b\" has id ") != std::string::npos);
    file = File();
    file["added_tokens"][0]["id"] = Json::parse(id);
    CHECK(ErrorOf(file.dump(), ErrorCode::kInvalidArgument)
              .find("the id of \"<s>\" is ") != std::string::npos);
  }
  // A table of ids is no larger than its tokens have it.
  CHECK(ErrorOf([](Json& f) { f["model"]["vocab"]["b"] = 1'048'575; })
            .starts_with("[tokenizer.json] the token \"b\" has id 1048575; "
                         "expected one from 0 to 10"));
  CHECK(ErrorOf([](Json& f) { f["model"]["vocab"]["b"] = 0; }) ==
        "[tokenizer.json] the tokens \"a\" and \"b\" both have id 0");
  CHECK(ErrorOf([](Json& f) {
          f["model"]["vocab"]["b"] = Json::array({1});
        }).find("has no number as its id") != std::string::npos);
}

TEST_CASE("merges that are neither texts nor pairs are named by their number") {
  for (const char* merge : {"[\"a\"]", "[\"a\", \"b\", \"c\"]", "7", "null",
                            "[1, 2]", "{}", "[[\"a\", \"b\"]]"}) {
    INFO(merge);
    CHECK(ErrorOf([&](Json& f) {
            f["model"]["merges"].push_back(Json::parse(merge));
          }) ==
          "[tokenizer.json] merge 1 is neither a text nor a pair of texts");
  }
}

TEST_CASE("parts that are not known are named") {
  const auto unsupported = [](const std::function<void(Json&)>& change) {
    return ErrorOf(change, ErrorCode::kUnsupported);
  };
  CHECK(unsupported([](Json& f) { f["model"]["type"] = "WordLevel"; }) ==
        "[tokenizer.json] the model is \"WordLevel\"; expected BPE, "
        "Unigram or WordPiece");
  CHECK(unsupported([](Json& f) { f["model"].erase("type"); }) ==
        "[tokenizer.json] the model is of no type; expected BPE, "
        "Unigram or WordPiece");
  // As files of such models have it.
  CHECK(unsupported([](Json& f) {
          f["model"] = Json::parse(
              R"({"unk_id": 0, "vocab": [["<unk>", 0.0], ["a", -2.5]]})");
        }) ==
        "[tokenizer.json] the pre-tokenizer is ByteLevel and the model "
        "\"Unigram\"; expected BPE");
  CHECK(unsupported([](Json& f) { f["model"]["byte_fallback"] = true; }) ==
        "[tokenizer.json] the model has \"byte_fallback\" beside ByteLevel, "
        "which has a token for every byte; expected one of the two");
  CHECK(unsupported([](Json& f) {
          f["model"]["dropout"] = 0.1;
        }).find("\"dropout\" 0.1") != std::string::npos);
  CHECK(unsupported([](Json& f) {
          f["normalizer"] = {{"type", "Reverse"}};
        })
            .starts_with("[tokenizer.json] the normalizer \"Reverse\" is not "
                         "known; expected NFC, NFD, "));
  CHECK(unsupported([](Json& f) {
          f["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
        }).find("the pre-tokenizer \"UnicodeScripts\" is not known") !=
        std::string::npos);
  CHECK(unsupported([](Json& f) { f["pre_tokenizer"] = nullptr; }) ==
        "[tokenizer.json] the decoder is \"ByteLevel\"; expected ByteLevel "
        "where the pre-tokenizer is ByteLevel alone");
  CHECK(
      unsupported([](Json& f) {
        f["pre_tokenizer"] = {
            {"type", "Sequence"},
            {"pretokenizers", {{{"type", "ByteLevel"}}, {{"type", "Digits"}}}}};
      }).find("\"Digits\" stands after ByteLevel") != std::string::npos);
  CHECK(unsupported([](Json& f) {
          f["decoder"] = {{"type", "BPEDecoder"}};
        }) ==
        "[tokenizer.json] the decoder is \"BPEDecoder\"; expected ByteLevel");
  CHECK(unsupported([](Json& f) {
          f["post_processor"] = {{"type", "PairProcessing"}};
        }).find("the post-processor \"PairProcessing\" is not known") !=
        std::string::npos);
  CHECK(unsupported([](Json& f) {
          f["pre_tokenizer"] = {{"type", "Split"},
                                {"pattern", {{"Regex", "a"}}},
                                {"behavior", "Sometimes"}};
        }).find("the behavior \"Sometimes\"") != std::string::npos);
}

TEST_CASE("parts of characters are refused where their values are none") {
  // Such a model, whose units are characters.
  const auto error = [](const char* part, const char* value,
                        ErrorCode code = ErrorCode::kInvalidArgument) {
    return ErrorOf(
        [&](Json& f) {
          f["pre_tokenizer"] = f["decoder"] = nullptr;
          f[part] = Json::parse(value);
        },
        code);
  };
  CHECK(error("normalizer", R"({"type": "Replace", "content": "a"})") ==
        "[tokenizer.json] the pattern of a Replace is null; expected a Regex "
        "or a String");
  CHECK(error("normalizer", R"({"type": "Prepend", "prepend": 7})") ==
        "[tokenizer.json] \"prepend\" is 7; expected a text");
  CHECK(error("pre_tokenizer",
              R"({"type": "Metaspace", "prepend_scheme": "second"})",
              ErrorCode::kUnsupported) ==
        "[tokenizer.json] the \"prepend_scheme\" of a Metaspace is "
        "\"second\"; expected always, first or never");
  CHECK(error("decoder", R"({"type": "CTC"})", ErrorCode::kUnsupported)
            .starts_with("[tokenizer.json] the decoder \"CTC\" is not known; "
                         "expected ByteLevel, Replace, "));
  CHECK(error("decoder", R"({"type": "Strip", "content": " ", "start": -1})") ==
        "[tokenizer.json] \"start\" is -1; expected a whole number from 0 to "
        "2147483647");
  CHECK(error("post_processor", R"({"type": "BertProcessing", "sep": 3})") ==
        "[tokenizer.json] \"cls\" of a BertProcessing is null; expected a "
        "token and its id");
}

TEST_CASE("the vocabulary of a unigram model is a list of pairs") {
  const auto read = [](const char* vocab) {
    Json file = File();
    file["pre_tokenizer"] = file["decoder"] = nullptr;
    file["model"] = {{"type", "Unigram"}, {"unk_id", 0}};
    file["model"]["vocab"] = Json::parse(vocab);
    return ParseTokenizerParts(file.dump());
  };
  const TokenizerParts parts =
      read(R"([["a", -1], ["", 0], ["b", -2.5]])").value();
  CHECK(parts.tokens == std::vector<std::string>{"a", "", "b"});
  CHECK(parts.scores == std::vector<double>{-1, 0, -2.5});
  CHECK(parts.unknown == 0);
  for (const char* entry :
       {"7", "[]", "[\"c\"]", "[\"c\", \"d\"]", "[1, 2]", "[\"c\", 1, 2]",
        "[[\"c\", 1]]", "{}", "[\"c\", null]", "[\"c\", {}]"}) {
    INFO(entry);
    CHECK(read(StrCat("[[\"a\", -1], ", entry, "]").c_str()).error().message ==
          "[tokenizer.json] token 1 of the vocabulary is no pair of a text and "
          "a score");
  }
  CHECK(read(R"({"a": 0})").error().message ==
        "[tokenizer.json] the vocabulary of \"Unigram\" is no list; expected "
        "pairs of a text and a score");
  CHECK(read("[]").error().message ==
        "[tokenizer.json] the vocabulary of \"Unigram\" is no list; expected "
        "pairs of a text and a score");
}

TEST_CASE("WordPiece has a prefix, a longest word and an unknown token") {
  Json file = File();
  file["pre_tokenizer"] = file["decoder"] = nullptr;
  file["model"] = Json::parse(R"({"unk_token": "?", "vocab": {"?": 0, "a": 1},
      "continuing_subword_prefix": "@", "max_input_chars_per_word": 7})");
  const TokenizerParts parts = ParseTokenizerParts(file.dump()).value();
  CHECK(parts.model == TokenizerModel::kWordPiece);
  CHECK(parts.word_prefix == "@");
  CHECK(parts.max_word_characters == 7);
  CHECK(parts.unknown == 0);
  file["model"]["max_input_chars_per_word"] = "7";
  CHECK(ErrorOf(file.dump(), ErrorCode::kInvalidArgument) ==
        "[tokenizer.json] \"max_input_chars_per_word\" is \"7\"; expected a "
        "whole number from 0 to 2147483647");
}

TEST_CASE("a charsmap is in base 64") {
  Json file = File();
  file["normalizer"] = Json::parse(
      R"({"type": "Precompiled", "precompiled_charsmap": "AAECAwQ="})");
  const TokenizerParts parts = ParseTokenizerParts(file.dump()).value();
  CHECK(parts.normalizer[0].rules.charsmap == std::string("\0\1\2\3\4", 5));
  CHECK(ErrorOf([](Json& f) {
          f["normalizer"] = Json::parse(
              R"({"type": "Precompiled", "precompiled_charsmap": "AA-A"})");
        }) ==
        "[tokenizer.json] \"precompiled_charsmap\" is no base 64 at byte 2");
}

TEST_CASE("processors put their tokens around each other's") {
  Json file = File();
  file["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
      {"type": "BertProcessing", "cls": ["a", 0], "sep": ["b", 1]},
      {"type": "RobertaProcessing", "cls": ["ab", 2], "sep": ["<s>", 3]}]})");
  const TokenizerParts parts = ParseTokenizerParts(file.dump()).value();
  CHECK(parts.prefix == std::vector<int32_t>{2, 0});
  CHECK(parts.suffix == std::vector<int32_t>{1, 3});
}

TEST_CASE("what a template puts around a text must be among its tokens") {
  CHECK(ErrorOf([](Json& f) {
          f["post_processor"] = Json::parse(
              R"({"type": "TemplateProcessing", "special_tokens": {},
                  "single": [{"SpecialToken": {"id": "<s>"}},
                             {"Sequence": {"id": "A"}}]})");
        }) ==
        "[tokenizer.json] the template's token \"<s>\" is not among its "
        "special_tokens");
  CHECK(ErrorOf([](Json& f) { f["model"]["unk_token"] = "<unk>"; }) ==
        "[tokenizer.json] \"unk_token\" is \"<unk>\", which is none of the "
        "model's tokens");
}

TEST_CASE("a tokenizer is made, or the package that is needed is named") {
  const Result<Tokenizer> tokenizer =
      Tokenizer::Create(ParseTokenizerParts(File().dump()).value());
#ifdef STOWAGE_HAS_PCRE2
  REQUIRE(tokenizer.ok());
  CHECK(*tokenizer->Encode("ab<s>b") == std::vector<int32_t>{2, 3, 1});
#else
  REQUIRE(!tokenizer.ok());
  CHECK(tokenizer.error().code == ErrorCode::kUnsupported);
  CHECK(tokenizer.error().message ==
        "[text] this build has no PCRE2, by which text is cut into words for "
        "tokens; install libpcre2-dev and build again");
#endif
}

TEST_CASE("what is wrong with a tokenizer.json is told with its name") {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path =
      StrCat(folder == nullptr ? "/tmp" : folder, "/tokenizer.json");
  const auto said = [&](std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
    const Result<Tokenizer> tokenizer = ReadTokenizer(path);
    return tokenizer.ok() ? "" : tokenizer.error().message;
  };
  const std::string start =
      StrCat("[text] \"", path, "\" has no tokenizer that is read: ");
  Json file = File();
  file["model"].erase("merges");
  CHECK(said(file.dump())
            .starts_with(start + "[text] the tokenizer has no merges"));
  CHECK(
      said("{}").starts_with(start + "[tokenizer.json] there is no \"model\""));
}

TEST_CASE("a file that is not there is not found") {
  const Result<Tokenizer> tokenizer = ReadTokenizer("no/such/tokenizer.json");
  REQUIRE(!tokenizer.ok());
  CHECK(tokenizer.error().code == ErrorCode::kNotFound);
}

TEST_CASE("a tokenizer is looked for in a folder and beside weights") {
  namespace fs = std::filesystem;
  const char* const root = std::getenv("TEST_TMPDIR");
  const fs::path folder = fs::path(root == nullptr ? "/tmp" : root) / "beside";
  fs::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << "{}";
  for (const fs::path& path :
       {folder, folder / "tokenizer.json", folder / "model.safetensors",
        folder / "model.safetensors.index.json"}) {
    const Result<Tokenizer> tokenizer = ReadTokenizer(path.string());
    REQUIRE(!tokenizer.ok());
    CHECK(tokenizer.error().message ==
          StrCat("[text] ", Quoted((folder / "tokenizer.json").string()),
                 " has no tokenizer that is read: [tokenizer.json] there is no "
                 "\"model\"; expected one of type BPE"));
  }
}

}  // namespace
}  // namespace stowage
