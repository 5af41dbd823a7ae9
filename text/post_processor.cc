#include "text/post_processor.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/tokenizer_json.h"

namespace stowage::text {
namespace {

using Json = nlohmann::json;

// The ids of a piece of a template; nothing where it is the text.
Result<std::vector<int32_t>> TemplateIds(const Json& piece,
                                         const Json& processor) {
  const Json& name = Member(Member(piece, "SpecialToken"), "id");
  if (!name.is_string()) {
    return InvalidArgumentError("[tokenizer.json] a template has the piece ",
                                NameOf(piece),
                                "; expected a SpecialToken or a Sequence");
  }
  const Json& ids = Member(Member(Member(processor, "special_tokens"),
                                  name.get<std::string>().c_str()),
                           "ids");
  if (!ids.is_array()) {
    return InvalidArgumentError("[tokenizer.json] the template's token ",
                                NameOf(name),
                                " is not among its special_tokens");
  }
  std::vector<int32_t> all;
  for (const Json& entry : ids) {
    STOWAGE_ASSIGN_OR_RETURN(const int32_t id, Id(entry, NameOf(name)));
    all.push_back(id);
  }
  return all;
}

// What one processor puts around a text.
struct Around {
  std::vector<int32_t> before, after;
};

// What TemplateProcessing puts around a text.
Result<Around> ReadTemplate(const Json& processor) {
  Around around;
  bool after = false;
  for (const Json& piece : Member(processor, "single")) {
    if (!Member(piece, "Sequence").is_null()) {
      if (after) {
        return UnsupportedError(
            "[tokenizer.json] a template has more than one Sequence for one "
            "text; expected one");
      }
      after = true;
      continue;
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                             TemplateIds(piece, processor));
    std::vector<int32_t>& to = after ? around.after : around.before;
    to.insert(to.end(), ids.begin(), ids.end());
  }
  if (!after) {
    return InvalidArgumentError(
        "[tokenizer.json] a template has no Sequence; expected one");
  }
  return around;
}

// BertProcessing and RobertaProcessing: "cls": ["[CLS]", 101] before a text, "sep" after.
Result<Around> ReadClsAndSep(const Json& processor) {
  const auto id_of = [&](const char* name) -> Result<int32_t> {
    const Json& pair = Member(processor, name);
    if (!pair.is_array() || pair.size() != 2) {
      return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " of a ",
                                  TypeOf(processor), " is ", NameOf(pair),
                                  "; expected a token and its id");
    }
    return Id(pair[1], NameOf(pair[0]));
  };
  STOWAGE_ASSIGN_OR_RETURN(const int32_t cls, id_of("cls"));
  STOWAGE_ASSIGN_OR_RETURN(const int32_t sep, id_of("sep"));
  return Around{{cls}, {sep}};
}

// The type of a piece's tokens; 0 where it says none.
Result<int32_t> TypeIdOf(const Json& piece) {
  const Json& id = Member(piece, "type_id");
  if (id.is_null()) return 0;
  return Id(id, NameOf(piece));
}

// One of the two templates of a TemplateProcessing.
Result<std::vector<TextTemplate::Piece>> ReadTemplatePieces(
    const Json& processor, const char* which) {
  std::vector<TextTemplate::Piece> pieces;
  std::array<int, 2> texts = {0, 0};
  for (const Json& piece : Member(processor, which)) {
    TextTemplate::Piece read;
    const Json& sequence = Member(piece, "Sequence");
    if (sequence.is_null()) {
      STOWAGE_ASSIGN_OR_RETURN(read.tokens, TemplateIds(piece, processor));
      STOWAGE_ASSIGN_OR_RETURN(read.type,
                               TypeIdOf(Member(piece, "SpecialToken")));
    } else {
      const bool is_second = Member(sequence, "id") == "B";
      read.text = is_second ? 1 : 0;
      ++texts[is_second ? 1 : 0];
      STOWAGE_ASSIGN_OR_RETURN(read.type, TypeIdOf(sequence));
    }
    pieces.push_back(std::move(read));
  }
  const bool is_pair = std::string_view(which) == "pair";
  if (texts == std::array{1, is_pair ? 1 : 0}) return pieces;
  return UnsupportedError("[tokenizer.json] the template ", Quoted(which),
                          " has ", texts[0], " times the text A and ", texts[1],
                          " times B; expected A", is_pair ? " and B" : " alone",
                          ", once");
}

}  // namespace

Result<TextTemplate> ReadTextTemplate(const Json& processor) {
  std::optional<TextTemplate> found;
  for (const Json* one : InSequence(processor, "processors")) {
    const std::string type = TypeOf(*one);
    if (type == "ByteLevel") continue;  // which is about offsets alone
    if (found) {
      return UnsupportedError(
          "[tokenizer.json] has several post-processors that add tokens; "
          "expected one");
    }
    if (type == "TemplateProcessing") {
      STOWAGE_ASSIGN_OR_RETURN(auto single, ReadTemplatePieces(*one, "single"));
      STOWAGE_ASSIGN_OR_RETURN(auto pair, ReadTemplatePieces(*one, "pair"));
      found.emplace(std::move(single), std::move(pair));
      continue;
    }
    const bool is_roberta = type == "RobertaProcessing";
    if (type != "BertProcessing" && !is_roberta) {
      return UnsupportedError("[tokenizer.json] the post-processor ",
                              NameOf(*one), " joins no texts here");
    }
    STOWAGE_ASSIGN_OR_RETURN(const Around around, ReadClsAndSep(*one));
    using Piece = TextTemplate::Piece;
    const Piece cls{.tokens = around.before}, sep{.tokens = around.after};
    const int32_t second = is_roberta ? 0 : 1;
    std::vector<Piece> pair = {cls, {.text = 0}, sep};
    if (is_roberta) pair.push_back(sep);
    pair.push_back({.text = 1, .type = second});
    pair.push_back({.tokens = around.after, .type = second});
    found.emplace(std::vector<Piece>{cls, {.text = 0}, sep}, std::move(pair));
  }
  return found ? *std::move(found) : TextTemplate();
}

Status ReadPostProcessor(const Json& processor, TokenizerParts* parts) {
  for (const Json* one : InSequence(processor, "processors")) {
    const std::string type = TypeOf(*one);
    if (type == "ByteLevel") continue;  // which is about offsets alone
    Around around;
    if (type == "TemplateProcessing") {
      STOWAGE_ASSIGN_OR_RETURN(around, ReadTemplate(*one));
    } else if (type == "BertProcessing" || type == "RobertaProcessing") {
      STOWAGE_ASSIGN_OR_RETURN(around, ReadClsAndSep(*one));
    } else {
      return UnsupportedError("[tokenizer.json] the post-processor ",
                              NameOf(*one),
                              " is not known; expected TemplateProcessing, "
                              "BertProcessing, RobertaProcessing, ByteLevel or "
                              "a Sequence of them");
    }
    // Each puts its own around what the one before it gives.
    parts->prefix.insert(parts->prefix.begin(), around.before.begin(),
                         around.before.end());
    parts->suffix.insert(parts->suffix.end(), around.after.begin(),
                         around.after.end());
  }
  return {};
}

}  // namespace stowage::text
