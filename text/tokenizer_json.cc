#include "text/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage::text {

using Json = nlohmann::json;

const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  if (!object.is_object()) return *null;
  const auto found = object.find(name);
  return found == object.end() ? *null : *found;
}

std::string TypeOf(const Json& object) {
  const Json& type = Member(object, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

std::string NameOf(const Json& value) {
  if (!TypeOf(value).empty()) return Quoted(TypeOf(value));
  std::string text = value.dump(-1, ' ', true);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

Result<bool> Flag(const Json& object, const char* name, bool absent) {
  const Json& value = Member(object, name);
  if (value.is_null()) return absent;
  if (!value.is_boolean()) {
    return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " is ",
                                NameOf(value), "; expected true or false");
  }
  return value.get<bool>();
}

Result<int32_t> Id(const Json& value, std::string_view what) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() >= uint64_t{kMaxTokens}) {
    return InvalidArgumentError(
        "[tokenizer.json] the id of ", what, " is ", NameOf(value),
        "; expected a whole number from 0 to ", kMaxTokens - 1);
  }
  return value.get<int32_t>();
}

Result<std::string> TextOf(const Json& object, const char* name,
                           std::string_view absent) {
  const Json& value = Member(object, name);
  if (value.is_null()) return std::string(absent);
  if (!value.is_string()) {
    return InvalidArgumentError("[tokenizer.json] ", Quoted(name), " is ",
                                NameOf(value), "; expected a text");
  }
  return value.get<std::string>();
}

Result<int32_t> Number(const Json& object, const char* name, int32_t absent) {
  constexpr uint64_t kLargest = std::numeric_limits<int32_t>::max();
  const Json& value = Member(object, name);
  if (value.is_null()) return absent;
  if (!value.is_number_unsigned() || value.get<uint64_t>() > kLargest) {
    return InvalidArgumentError(
        "[tokenizer.json] ", Quoted(name), " is ", NameOf(value),
        "; expected a whole number from 0 to ", kLargest);
  }
  return value.get<int32_t>();
}

std::vector<const Json*> InSequence(const Json& value, const char* members) {
  if (value.is_null()) return {};
  if (TypeOf(value) != "Sequence") return {&value};
  std::vector<const Json*> all;
  for (const Json& member : Member(value, members)) {
    for (const Json* one : InSequence(member, members)) all.push_back(one);
  }
  return all;
}

namespace {

// The pattern of a Split or a Replace: {"Regex": "a+"} or {"String": "a"}.
struct Sought {
  std::string text;
  bool is_pattern = false;
};

Result<Sought> ReadSought(const Json& part) {
  const Json& pattern = Member(part, "pattern");
  const Json& regex = Member(pattern, "Regex");
  const Json& literal = Member(pattern, "String");
  Sought sought;
  if (regex.is_string()) {
    sought = {regex.get<std::string>(), true};
  } else if (literal.is_string()) {
    sought = {literal.get<std::string>(), false};
  }
  if (sought.text.empty()) {
    return InvalidArgumentError("[tokenizer.json] the pattern of a ",
                                TypeOf(part), " is ", NameOf(pattern),
                                "; expected a Regex or a String");
  }
  return sought;
}

void ReadForm(const char* name, NormalizerKind kind, const std::string& type,
              std::vector<NormalizerStep>* steps) {
  if (type == name) steps->push_back({.kind = kind});
}

// Reads a normalizer without options; false if it is another one.
bool ReadPlainNormalizer(const std::string& type,
                         std::vector<NormalizerStep>* steps) {
  const size_t before = steps->size();
  ReadForm("NFC", NormalizerKind::kNfc, type, steps);
  ReadForm("NFD", NormalizerKind::kNfd, type, steps);
  ReadForm("NFKC", NormalizerKind::kNfkc, type, steps);
  ReadForm("NFKD", NormalizerKind::kNfkd, type, steps);
  ReadForm("Lowercase", NormalizerKind::kLowercase, type, steps);
  ReadForm("StripAccents", NormalizerKind::kStripAccents, type, steps);
  ReadForm("Nmt", NormalizerKind::kNmt, type, steps);
  return steps->size() > before;
}

Status ReadBertNormalizer(const Json& bert,
                          std::vector<NormalizerStep>* steps) {
  STOWAGE_ASSIGN_OR_RETURN(const bool clean, Flag(bert, "clean_text", true));
  STOWAGE_ASSIGN_OR_RETURN(const bool ideographs,
                           Flag(bert, "handle_chinese_chars", true));
  STOWAGE_ASSIGN_OR_RETURN(const bool lower, Flag(bert, "lowercase", true));
  STOWAGE_ASSIGN_OR_RETURN(const bool accents,
                           Flag(bert, "strip_accents", lower));
  if (clean) steps->push_back({.kind = NormalizerKind::kClean});
  if (ideographs) steps->push_back({.kind = NormalizerKind::kSpaceIdeographs});
  if (accents) {
    steps->push_back({.kind = NormalizerKind::kNfd});
    steps->push_back({.kind = NormalizerKind::kStripNonspacing});
  }
  if (lower) steps->push_back({.kind = NormalizerKind::kLowercase});
  return {};
}

// The charsmap, which is in base 64 (RFC 4648, section 4).
Result<std::string> ReadCharsmap(const Json& part) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                           TextOf(part, "precompiled_charsmap", ""));
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  const size_t end = std::min(text.find('='), text.size());
  for (size_t i = 0; i < end; ++i) {
    const size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos) {
      return InvalidArgumentError(
          "[tokenizer.json] \"precompiled_charsmap\" is no base 64 at byte ",
          i);
    }
    bits = bits << 6 | static_cast<uint32_t>(digit);
    // Of four digits, all but the first complete a byte.
    if (i % 4 != 0)
      bytes += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 0xFF);
  }
  return bytes;
}

Status ReadOneNormalizer(const Json& one, std::vector<NormalizerStep>* steps) {
  const std::string type = TypeOf(one);
  if (ReadPlainNormalizer(type, steps)) return {};
  if (type == "BertNormalizer") return ReadBertNormalizer(one, steps);
  NormalizerStep step;
  if (type == "Replace") {
    STOWAGE_ASSIGN_OR_RETURN(Sought sought, ReadSought(one));
    step.kind = sought.is_pattern ? NormalizerKind::kReplacePattern
                                  : NormalizerKind::kReplace;
    step.pattern = std::move(sought.text);
    STOWAGE_ASSIGN_OR_RETURN(step.content, TextOf(one, "content", ""));
  } else if (type == "Prepend") {
    step.kind = NormalizerKind::kPrepend;
    STOWAGE_ASSIGN_OR_RETURN(step.content, TextOf(one, "prepend", ""));
  } else if (type == "Strip") {
    step.kind = NormalizerKind::kStrip;
    STOWAGE_ASSIGN_OR_RETURN(step.left, Flag(one, "strip_left", true));
    STOWAGE_ASSIGN_OR_RETURN(step.right, Flag(one, "strip_right", true));
  } else if (type == "Precompiled") {
    step.kind = NormalizerKind::kPrecompiled;
    STOWAGE_ASSIGN_OR_RETURN(step.rules.charsmap, ReadCharsmap(one));
  } else {
    return UnsupportedError(
        "[tokenizer.json] the normalizer ", NameOf(one),
        " is not known; expected NFC, NFD, NFKC, NFKD, Lowercase, "
        "StripAccents, Nmt, Replace, Prepend, Strip, BertNormalizer, "
        "Precompiled or "
        "a Sequence of them");
  }
  steps->push_back(std::move(step));
  return {};
}

Result<SplitBehavior> Behavior(const Json& part, const char* absent) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string name,
                           TextOf(part, "behavior", absent));
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return UnsupportedError("[tokenizer.json] the behavior ",
                          NameOf(Member(part, "behavior")), " of a ",
                          TypeOf(part),
                          " is not known; expected Isolated, Removed, "
                          "MergedWithPrevious, MergedWithNext or Contiguous");
}

Status ReadSplit(const Json& split, std::vector<PreTokenizerStep>* steps) {
  STOWAGE_ASSIGN_OR_RETURN(Sought sought, ReadSought(split));
  PreTokenizerStep step;
  step.pattern = std::move(sought.text);
  if (!sought.is_pattern) step.kind = PreTokenizerKind::kLiteral;
  STOWAGE_ASSIGN_OR_RETURN(step.behavior, Behavior(split, ""));
  STOWAGE_ASSIGN_OR_RETURN(step.invert, Flag(split, "invert", false));
  steps->push_back(std::move(step));
  return {};
}

struct Metaspace {
  std::string replacement;
  MetaspacePrefix prefix = MetaspacePrefix::kAlways;
};

// Files before 2023 have "add_prefix_space" instead of "prepend_scheme".
Result<Metaspace> ReadMetaspace(const Json& part) {
  Metaspace metaspace;
  STOWAGE_ASSIGN_OR_RETURN(metaspace.replacement,
                           TextOf(part, "replacement", "▁"));
  STOWAGE_ASSIGN_OR_RETURN(const bool space,
                           Flag(part, "add_prefix_space", true));
  STOWAGE_ASSIGN_OR_RETURN(
      const std::string scheme,
      TextOf(part, "prepend_scheme", space ? "always" : "never"));
  if (scheme == "never") {
    metaspace.prefix = MetaspacePrefix::kNever;
  } else if (scheme == "first" && space) {
    metaspace.prefix = MetaspacePrefix::kFirst;
  } else if (scheme != "always" || !space) {
    return UnsupportedError(
        "[tokenizer.json] the \"prepend_scheme\" of a Metaspace is ",
        Quoted(scheme), space ? "" : " with \"add_prefix_space\" false",
        "; expected always, first or never");
  }
  return metaspace;
}

Status ReadMetaspaceStep(const Json& part,
                         std::vector<PreTokenizerStep>* steps) {
  STOWAGE_ASSIGN_OR_RETURN(const Metaspace metaspace, ReadMetaspace(part));
  STOWAGE_ASSIGN_OR_RETURN(const bool split, Flag(part, "split", true));
  steps->push_back({.pattern = metaspace.replacement,
                    .kind = PreTokenizerKind::kMetaspace,
                    .prefix = metaspace.prefix});
  if (split) {
    steps->push_back({.pattern = metaspace.replacement,
                      .behavior = SplitBehavior::kMergedWithNext,
                      .kind = PreTokenizerKind::kLiteral});
  }
  return {};
}

Status ReadByteLevel(const Json& part, std::vector<PreTokenizerStep>* steps) {
  STOWAGE_ASSIGN_OR_RETURN(const bool space,
                           Flag(part, "add_prefix_space", true));
  STOWAGE_ASSIGN_OR_RETURN(const bool regex, Flag(part, "use_regex", true));
  if (space) steps->push_back({});
  if (regex) steps->push_back({kGpt2Pattern});
  return {};
}

constexpr PreTokenizerStep AtWhiteSpace() {
  return {.behavior = SplitBehavior::kRemoved,
          .kind = PreTokenizerKind::kWhiteSpace};
}

Status ReadOnePreTokenizer(const Json& one, bool* by_bytes,
                           std::vector<PreTokenizerStep>* steps) {
  const std::string type = TypeOf(one);
  if (type == "Split") return ReadSplit(one, steps);
  if (type == "Metaspace") return ReadMetaspaceStep(one, steps);
  if (type == "ByteLevel") {
    *by_bytes = true;
    return ReadByteLevel(one, steps);
  }
  if (type == "Digits") {
    STOWAGE_ASSIGN_OR_RETURN(const bool individual,
                             Flag(one, "individual_digits", false));
    steps->push_back({R"(\p{N})", individual ? SplitBehavior::kIsolated
                                             : SplitBehavior::kContiguous});
  } else if (type == "Punctuation") {
    STOWAGE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                             Behavior(one, "Isolated"));
    steps->push_back(
        {.behavior = behavior, .kind = PreTokenizerKind::kPunctuation});
  } else if (type == "BertPreTokenizer") {
    steps->push_back(AtWhiteSpace());
    steps->push_back({.kind = PreTokenizerKind::kPunctuation});
  } else if (type == "WhitespaceSplit") {
    steps->push_back(AtWhiteSpace());
  } else if (type == "Whitespace") {
    steps->push_back({.behavior = SplitBehavior::kRemoved,
                      .invert = true,
                      .kind = PreTokenizerKind::kWords});
  } else if (type == "CharDelimiterSplit") {
    STOWAGE_ASSIGN_OR_RETURN(const std::string text,
                             TextOf(one, "delimiter", ""));
    steps->push_back({.pattern = text,
                      .behavior = SplitBehavior::kRemoved,
                      .kind = PreTokenizerKind::kLiteral});
  } else {
    return UnsupportedError(
        "[tokenizer.json] the pre-tokenizer ", NameOf(one),
        " is not known; expected ByteLevel, Split, Digits, Metaspace, "
        "Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, "
        "CharDelimiterSplit or a Sequence of them");
  }
  return {};
}

Status ReadOneDecoder(const Json& one, std::vector<DecoderStep>* steps) {
  const std::string type = TypeOf(one);
  DecoderStep step;
  if (type == "Replace") {
    STOWAGE_ASSIGN_OR_RETURN(Sought sought, ReadSought(one));
    if (sought.is_pattern) {
      return UnsupportedError(
          "[tokenizer.json] the decoder Replace has a Regex, ",
          Quoted(sought.text), "; expected a String");
    }
    step = {.kind = DecoderKind::kReplace, .pattern = std::move(sought.text)};
    STOWAGE_ASSIGN_OR_RETURN(step.content, TextOf(one, "content", ""));
  } else if (type == "ByteFallback") {
    step.kind = DecoderKind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecoderKind::kFuse;
  } else if (type == "Strip") {
    step.kind = DecoderKind::kStrip;
    STOWAGE_ASSIGN_OR_RETURN(step.pattern, TextOf(one, "content", " "));
    STOWAGE_ASSIGN_OR_RETURN(step.left, Number(one, "start", 0));
    STOWAGE_ASSIGN_OR_RETURN(step.right, Number(one, "stop", 0));
  } else if (type == "Metaspace") {
    STOWAGE_ASSIGN_OR_RETURN(Metaspace metaspace, ReadMetaspace(one));
    step = {.kind = DecoderKind::kMetaspace,
            .pattern = std::move(metaspace.replacement),
            .first = metaspace.prefix != MetaspacePrefix::kNever};
  } else if (type == "WordPiece") {
    step.kind = DecoderKind::kWordPiece;
    STOWAGE_ASSIGN_OR_RETURN(step.pattern, TextOf(one, "prefix", "##"));
    STOWAGE_ASSIGN_OR_RETURN(step.cleanup, Flag(one, "cleanup", true));
  } else if (type == "BPEDecoder") {
    step.kind = DecoderKind::kSuffix;
    STOWAGE_ASSIGN_OR_RETURN(step.pattern, TextOf(one, "suffix", "</w>"));
  } else {
    return UnsupportedError(
        "[tokenizer.json] the decoder ", NameOf(one),
        " is not known; expected ByteLevel, Replace, ByteFallback, Fuse, "
        "Strip, Metaspace, WordPiece, BPEDecoder or a Sequence of them");
  }
  steps->push_back(std::move(step));
  return {};
}

}  // namespace

Status ReadNormalizer(const Json& normalizer, TokenizerParts* parts) {
  for (const Json* one : InSequence(normalizer, "normalizers")) {
    STOWAGE_RETURN_IF_ERROR(ReadOneNormalizer(*one, &parts->normalizer));
  }
  return {};
}

Status ReadPreTokenizer(const Json& pre_tokenizer, TokenizerParts* parts,
                        bool* by_bytes) {
  *by_bytes = false;
  for (const Json* one : InSequence(pre_tokenizer, "pretokenizers")) {
    if (*by_bytes) {
      return UnsupportedError("[tokenizer.json] the pre-tokenizer ",
                              NameOf(*one),
                              " stands after ByteLevel; expected it last");
    }
    STOWAGE_RETURN_IF_ERROR(
        ReadOnePreTokenizer(*one, by_bytes, &parts->pre_tokenizer));
  }
  return {};
}

Status ReadDecoder(const Json& decoder, bool by_bytes, TokenizerParts* parts) {
  const std::vector<const Json*> all = InSequence(decoder, "decoders");
  const bool is_byte_level = all.size() == 1 && TypeOf(*all[0]) == "ByteLevel";
  if (by_bytes != is_byte_level) {
    return UnsupportedError("[tokenizer.json] the decoder is ", NameOf(decoder),
                            "; expected ",
                            by_bytes ? "ByteLevel"
                                     : "ByteLevel where the pre-tokenizer is "
                                       "ByteLevel alone");
  }
  if (by_bytes) return {};
  if (all.empty()) parts->decoder.push_back({.kind = DecoderKind::kSpaces});
  for (const Json* one : all) {
    STOWAGE_RETURN_IF_ERROR(ReadOneDecoder(*one, &parts->decoder));
  }
  return {};
}

namespace {

// The ids of a special token of a template.
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

// The tokens that a processor puts around a text.
struct Around {
  std::vector<int32_t> before, after;
};

// The tokens that TemplateProcessing puts around a text.
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

// The type of a piece's tokens; 0 by default.
Result<int32_t> TypeIdOf(const Json& piece) {
  const Json& id = Member(piece, "type_id");
  if (id.is_null()) return 0;
  return Id(id, NameOf(piece));
}

// Reads one of the two templates of a TemplateProcessing.
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
    if (type == "ByteLevel") continue;  // affects only offsets
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
    if (type == "ByteLevel") continue;  // affects only offsets
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
    // Each processor puts its tokens around the result of the one before it.
    parts->prefix.insert(parts->prefix.begin(), around.before.begin(),
                         around.before.end());
    parts->suffix.insert(parts->suffix.end(), around.after.begin(),
                         around.after.end());
  }
  return {};
}

}  // namespace stowage::text
