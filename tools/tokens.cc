// stowage tokens encodes and decodes text by the tokenizer of a file.

#include <charconv>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "data/text_data.h"
#include "text/text.h"
#include "tools/command.h"
#include "tools/options.h"
#include "tools/task.h"

namespace stowage::tools {
namespace {

using Json = nlohmann::ordered_json;

struct TokensFlags {
  std::string tokenizer;
  std::string file;  // "" for stdin
  bool plain = false;
  bool json = false;
};

Result<std::string> ReadInput(const std::string& path) {
  if (!path.empty()) return ReadFile(path);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// Parses ids separated by white space, commas and brackets: the output of encode, with or without
// --json.
Result<std::vector<int32_t>> ParseIds(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n,[]";
  std::vector<int32_t> ids;
  for (size_t at = text.find_first_not_of(kBetween);
       at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    int32_t id = 0;
    const auto [stop, code] =
        std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || stop != word.data() + word.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   StrCat("[tokens] number ", ids.size(), " is ",
                          Quoted(word.substr(0, 40)),
                          "; expected ids, whole numbers with white space or "
                          "commas between them")};
    }
    ids.push_back(id);
    at = end;
  }
  return ids;
}

// The tokens of a text; reports bytes without a token on stderr.
Result<std::vector<int32_t>> EncodeText(const Tokenizer& tokenizer,
                                        const TokensFlags& flags,
                                        std::string_view text) {
  const std::string name = flags.file.empty() ? "stdin" : flags.file;
  STOWAGE_RETURN_IF_ERROR(CheckIsText(text, name));
  int64_t without_token = 0;
  auto ids = tokenizer.Encode(
      text, {.special = !flags.plain, .without_token = &without_token});
  if (ids.ok()) ReportLostBytes(tokenizer, without_token, Quoted(name));
  return ids;
}

Status Encode(const Tokenizer& tokenizer, const TokensFlags& flags,
              std::string_view text) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           EncodeText(tokenizer, flags, text));
  if (flags.json) {
    PrintJson(ids);
    return {};
  }
  std::string line;
  for (const int32_t id : ids) {
    if (!line.empty()) line += ' ';
    line += StrCat(id);
  }
  std::cout << line << '\n';
  return {};
}

Status CountTokens(const Tokenizer& tokenizer, const TokensFlags& flags,
                   std::string_view text) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                           EncodeText(tokenizer, flags, text));
  if (flags.json) {
    PrintJson(Json{{"tokens", ids.size()}, {"bytes", text.size()}});
  } else {
    std::cout << ids.size() << '\n';
  }
  return {};
}

Status Decode(const Tokenizer& tokenizer, const TokensFlags& flags,
              std::string_view text) {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, ParseIds(text));
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string decoded,
      tokenizer.Decode(ids, {.skip_special = flags.plain}));
  if (flags.json) {
    PrintJson(decoded);
  } else {
    std::cout << decoded;
  }
  return {};
}

int RunTokens(const TokensFlags& flags,
              Status (*verb)(const Tokenizer&, const TokensFlags&,
                             std::string_view)) {
  const Result<Tokenizer> tokenizer = ReadTokenizer(flags.tokenizer);
  if (!tokenizer.ok()) return Fail(tokenizer.error());
  const Result<std::string> text = ReadInput(flags.file);
  if (!text.ok()) return Fail(text.error());
  const Status done = verb(*tokenizer, flags, *text);
  return done.ok() ? kExitDone : Fail(done.error());
}

}  // namespace

void AddTokens(Program& program) {
  Options options = program.AddSubcommand(
      "tokens", "Turn text into tokens and back, or count them",
      "stowage tokens --tokenizer tokenizer.json count book.txt");
  const auto flags = std::make_shared<TokensFlags>();
  options.Group("model");
  options.Add("--tokenizer,--weights", &flags->tokenizer,
              "A tokenizer.json, a SentencePiece file (.model), a folder with "
              "one, or a GGUF file");
  options.Require("--tokenizer");
  struct Verb {
    const char* name;
    const char* description;
    const char* input;
    const char* plain;
    Status (*run)(const Tokenizer&, const TokensFlags&, std::string_view);
  };
  for (const Verb& verb :
       {Verb{"encode", "Print the ids of the text", "The text; default: stdin",
             "Encode special tokens in the text as text", Encode},
        Verb{"decode", "Print the text of the ids",
             "The ids as printed by encode; default: stdin",
             "Omit special tokens", Decode},
        Verb{"count", "Print how many tokens the text has",
             "The text; default: stdin",
             "Encode special tokens in the text as text", CountTokens}}) {
    Options one = options.AddVerb(verb.name, verb.description);
    one.Add("file", &flags->file, verb.input);
    one.AddFlag("--plain", &flags->plain, verb.plain);
    one.AddFlag("--json", &flags->json, "Print JSON");
    one.OnRun([flags, run = verb.run] { return RunTokens(*flags, run); });
  }
}

}  // namespace stowage::tools
