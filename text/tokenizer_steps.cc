#include "text/tokenizer_steps.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/result.h"
#include "text/tokenizer_json.h"

namespace stowage::text {
namespace {

using Json = nlohmann::json;

// What Split and Replace look for: {"Regex": "a+"} or {"String": "a"}.
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

// Those that are nothing but a name.
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

// The bytes that the text says in base 64 (RFC 4648, section 4).
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
    // Of four digits, all but the first end a byte.
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

// Files of before 2023 have "add_prefix_space" in place of "prepend_scheme".
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

}  // namespace stowage::text
