#include "text/tokenizer_vocabulary.h"

#include "base/result.h"
#include "text/tokenizer.h"

namespace stowage::text {
namespace {

constexpr int64_t kMaxMerges = 1 << 22;

}  // namespace

bool VocabularyReader::Keep(int depth, Json::parse_event_t event, Json& value) {
  using Event = Json::parse_event_t;
  if (!error_.empty()) return false;
  if (event == Event::key) {
    if (depth == 1) section_ = value.get<std::string>();
    if (depth == 2) part_ = value.get<std::string>();
    if (depth == 3) token_ = value.get<std::string>();
    return !(InVocabulary() && depth == 3);
  }
  if (InVocabulary()) return KeepOfVocabulary(depth, event, value);
  if (InMerges()) return KeepOfMerges(depth, event, value);
  return true;
}

bool VocabularyReader::KeepOfVocabulary(int depth, Json::parse_event_t event,
                                        const Json& value) {
  using Event = Json::parse_event_t;
  if (depth == 2 && event == Event::array_start) is_list_ = true;
  if (is_list_ && depth >= 2) return KeepOfList(depth, event, value);
  if (depth < 3) return true;
  if (event == Event::value && depth == 3) {
    AddToken(value);
  } else if (event != Event::value) {
    error_ = StrCat("the token ", Quoted(token_), " has no number as its id");
  }
  return false;
}

bool VocabularyReader::KeepOfList(int depth, Json::parse_event_t event,
                                  const Json& value) {
  using Event = Json::parse_event_t;
  if (depth == 2) return true;
  if (depth == 3 && event == Event::array_start) {
    entry_.clear();
    return true;
  }
  if (depth == 3 && event == Event::array_end) {
    AddScored();
  } else if (depth == 4 && event == Event::value && entry_.size() < 3) {
    entry_.push_back(value);
  } else {
    error_ = StrCat("token ", tokens_.size(),
                    " of the vocabulary is no pair of a text and a score");
  }
  return false;
}

void VocabularyReader::AddScored() {
  if (entry_.size() != 2 || !entry_[0].is_string() || !entry_[1].is_number()) {
    error_ = StrCat("token ", tokens_.size(),
                    " of the vocabulary is no pair of a text and a score");
  } else if (tokens_.size() >= static_cast<size_t>(kMaxTokens)) {
    error_ = StrCat("there are more than ", kMaxTokens, " tokens");
  } else {
    tokens_.emplace_back(static_cast<int32_t>(tokens_.size()),
                         entry_[0].get<std::string>());
    scores_.push_back(entry_[1].get<double>());
  }
}

bool VocabularyReader::KeepOfMerges(int depth, Json::parse_event_t event,
                                    const Json& value) {
  using Event = Json::parse_event_t;
  if (depth < 3) return true;
  if (event == Event::array_start) {
    pair_.clear();
    return true;
  }
  if (event == Event::value && depth == 4) {
    pair_.push_back(value.is_string() ? value.get<std::string>() : "");
  } else if (event == Event::value && depth == 3) {
    AddMerge(value.is_string() ? value.get<std::string>() : "");
  } else if (event == Event::array_end && depth == 3) {
    AddPair();
  } else {
    AddMerge("");
  }
  return false;
}

Result<std::vector<std::string>> VocabularyReader::Tokens() {
  std::vector<std::string> tokens;
  const int32_t ids = IdsOf(tokens_.size());
  for (auto& [id, token] : tokens_) {
    if (id >= ids) {
      return InvalidArgumentError("[tokenizer.json] the token ", Quoted(token),
                                  " has id ", id, "; expected one from 0 to ",
                                  ids - 1, " among ", tokens_.size(),
                                  " tokens");
    }
    const auto at = static_cast<size_t>(id);
    if (at >= tokens.size()) tokens.resize(at + 1);
    std::string& place = tokens[at];
    if (!place.empty() && place != token) {
      return InvalidArgumentError("[tokenizer.json] the tokens ", Quoted(place),
                                  " and ", Quoted(token), " both have id ", id);
    }
    place = std::move(token);
  }
  return tokens;
}

void VocabularyReader::AddToken(const Json& id) {
  const int64_t at =
      id.is_number_unsigned() && id.get<uint64_t>() < uint64_t{kMaxTokens}
          ? id.get<int64_t>()
          : -1;
  if (at < 0) {
    error_ = StrCat("the token ", Quoted(token_), " has id ", id.dump(),
                    "; expected a whole number from 0 to ", kMaxTokens - 1);
    return;
  }
  tokens_.emplace_back(static_cast<int32_t>(at), token_);
}

void VocabularyReader::AddMerge(std::string merge) {
  if (merge.empty()) {
    error_ = StrCat("merge ", merges_.size(),
                    " is neither a text nor a pair of texts");
  } else if (static_cast<int64_t>(merges_.size()) >= kMaxMerges) {
    error_ = StrCat("there are more than ", kMaxMerges, " merges");
  } else {
    merges_.push_back(std::move(merge));
  }
}

void VocabularyReader::AddPair() {
  const bool good = pair_.size() == 2 && !pair_[0].empty() && !pair_[1].empty();
  AddMerge(good ? StrCat(pair_[0], " ", pair_[1]) : "");
}

}  // namespace stowage::text
