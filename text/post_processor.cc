#include "text/post_processor.h"

#include <nlohmann/json.hpp>

#include "base/errors.h"
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

}  // namespace

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
