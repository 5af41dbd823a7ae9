#include "text/decoder.h"

#include <string_view>
#include <utility>

#include "base/result.h"
#include "text/vocabulary.h"

namespace stowage::text {
namespace {

constexpr size_t kMaxDecoderSteps = 64;

std::string WithReplaced(std::string_view text, std::string_view from,
                         std::string_view to) {
  std::string out;
  while (!text.empty()) {
    const size_t at = text.find(from);
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    out += to;
    text.remove_prefix(at + from.size());
  }
  return out;
}

// Merges a run of byte tokens to one, so that later steps see whole characters.
std::vector<std::string> WithBytes(std::vector<std::string> tokens) {
  std::vector<std::string> out;
  bool after_byte = false;
  for (std::string& token : tokens) {
    const auto byte = ByteOfToken(token);
    if (!byte) {
      out.push_back(std::move(token));
    } else if (after_byte) {
      out.back() += static_cast<char>(*byte);
    } else {
      out.emplace_back(1, static_cast<char>(*byte));
    }
    after_byte = byte.has_value();
  }
  return out;
}

std::vector<std::string> JoinedTokens(const std::vector<std::string>& tokens,
                                      std::string_view between) {
  std::string all;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) all += between;
    all += tokens[i];
  }
  return {std::move(all)};
}

// Strips the space that sentencepiece puts before a text.
void DecodePieces(const DecoderStep& step, std::vector<std::string>* tokens) {
  constexpr std::string_view kSpace = "▁";
  bool is_begin = step.first;
  for (std::string& token : *tokens) {
    const bool dropped = is_begin && token.starts_with(kSpace);
    if (dropped) token.erase(0, kSpace.size());
    if (!token.empty() || (dropped && !step.cleanup)) is_begin = false;
    token = WithReplaced(token, kSpace, " ");
  }
}

std::string WithoutEnds(std::string_view token, const DecoderStep& step) {
  for (int32_t i = 0; i < step.left && token.starts_with(step.pattern); ++i) {
    token.remove_prefix(step.pattern.size());
  }
  for (int32_t i = 0; i < step.right && token.ends_with(step.pattern); ++i) {
    token.remove_suffix(step.pattern.size());
  }
  return std::string(token);
}

// BERT's cleanup: no space before punctuation and English contractions.
std::string CleanedUp(std::string token) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (token.find(from) != std::string::npos)
      token = WithReplaced(token, from, to);
  }
  return token;
}

std::string WordPieceText(std::string token, const DecoderStep& step,
                          bool is_first) {
  if (!is_first) {
    if (token.starts_with(step.pattern)) {
      token.erase(0, step.pattern.size());
    } else {
      token.insert(0, " ");
    }
  }
  return step.cleanup ? CleanedUp(std::move(token)) : token;
}

std::string Decoded(const DecoderStep& step, std::string token, bool is_first,
                    bool is_last) {
  switch (step.kind) {
    case DecoderKind::kReplace:
      return WithReplaced(token, step.pattern, step.content);
    case DecoderKind::kToken:
      return token == step.pattern ? step.content : token;
    case DecoderKind::kStrip:
      return WithoutEnds(token, step);
    case DecoderKind::kMetaspace:
      return WithReplaced(token, step.pattern,
                          is_first && step.first ? "" : " ");
    case DecoderKind::kWordPiece:
      return WordPieceText(std::move(token), step, is_first);
    case DecoderKind::kSuffix:
      return WithReplaced(token, step.pattern, is_last ? "" : " ");
    default:
      return token;
  }
}

// The maximum growth of a text: steps that each double it would exhaust memory.
constexpr size_t kMaxDecodedGrowth = 256;

size_t TotalBytes(const std::vector<std::string>& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

Status DecodeEach(const DecoderStep& step, size_t limit,
                  std::vector<std::string>* tokens) {
  size_t bytes = 0;
  for (size_t i = 0; i < tokens->size(); ++i) {
    std::string& token = (*tokens)[i];
    token = Decoded(step, std::move(token), i == 0, i + 1 == tokens->size());
    bytes += token.size();
    if (bytes > limit) {
      return InvalidArgumentError("[text] ", tokens->size(),
                                  " tokens become a text of more than ", limit,
                                  " bytes; expected at most ",
                                  kMaxDecodedGrowth, " times their own");
    }
  }
  return {};
}

}  // namespace

Status CheckDecoder(const std::vector<DecoderStep>& steps) {
  if (steps.size() > kMaxDecoderSteps) {
    return UnsupportedError("[text] the decoder has ", steps.size(),
                            " steps; at most ", kMaxDecoderSteps, " are read");
  }
  for (const DecoderStep& step : steps) {
    const bool needs_text = step.kind == DecoderKind::kReplace ||
                            step.kind == DecoderKind::kStrip ||
                            step.kind == DecoderKind::kMetaspace ||
                            step.kind == DecoderKind::kSuffix;
    if (needs_text && step.pattern.empty()) {
      return InvalidArgumentError(
          "[text] a decoder replaces the empty text; expected a text of at "
          "least a character");
    }
  }
  return {};
}

Result<std::string> Decode(const std::vector<DecoderStep>& steps,
                           std::vector<std::string> tokens) {
  const size_t limit = kMaxDecodedGrowth * (TotalBytes(tokens) + 1024);
  for (const DecoderStep& step : steps) {
    switch (step.kind) {
      case DecoderKind::kByteFallback:
        tokens = WithBytes(std::move(tokens));
        break;
      case DecoderKind::kFuse:
        tokens = JoinedTokens(tokens, "");
        break;
      case DecoderKind::kSpaces:
        tokens = JoinedTokens(tokens, " ");
        break;
      case DecoderKind::kSentencePiece:
        DecodePieces(step, &tokens);
        break;
      default:
        STOWAGE_RETURN_IF_ERROR(DecodeEach(step, limit, &tokens));
    }
  }
  return JoinedTokens(tokens, "").front();
}

}  // namespace stowage::text
