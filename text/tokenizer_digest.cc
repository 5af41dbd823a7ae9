#include "text/tokenizer_digest.h"

#include <bit>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"

namespace stowage::text {
namespace {

// Of all parts, each after its length or its number.
class PartsDigest {
 public:
  void Add(std::string_view part) {
    digest_ = Xxh64(part, Xxh64(StrCat(part.size()), digest_));
  }
  template <typename... Numbers>
  void AddNumbers(const Numbers&... numbers) {
    Add(StrCat("", StrCat(numbers, ",")...));
  }
  void Add(const AddedToken& token) {
    Add(token.text);
    AddNumbers(token.id, token.special, token.strip_left, token.strip_right,
               token.single_word, token.normalized, token.is_normal);
  }
  void Add(const PreTokenizerStep& step) {
    Add(step.pattern);
    AddNumbers(static_cast<int>(step.behavior), step.invert,
               static_cast<int>(step.kind), static_cast<int>(step.prefix));
  }
  void Add(const NormalizerStep& step) {
    Add(step.pattern);
    Add(step.content);
    AddNumbers(static_cast<int>(step.kind), step.left, step.right,
               step.rules.add_space, step.rules.collapse_spaces,
               step.rules.escape_spaces);
    Add(step.rules.charsmap);
    AddAll(step.rules.kept);
  }
  void Add(const DecoderStep& step) {
    Add(step.pattern);
    Add(step.content);
    AddNumbers(static_cast<int>(step.kind), step.left, step.right, step.first,
               step.cleanup);
  }
  void Add(int32_t id) { AddNumbers(id); }
  void Add(double score) { AddNumbers(std::bit_cast<int64_t>(score)); }
  template <typename T>
  void AddAll(const std::vector<T>& parts) {
    AddNumbers(parts.size());
    for (const T& part : parts) Add(part);
  }
  uint64_t digest() const { return digest_; }

 private:
  uint64_t digest_ = 0;
};

}  // namespace

uint64_t DigestOf(const TokenizerParts& parts) {
  PartsDigest digest;
  digest.AddAll(parts.tokens);
  digest.AddAll(parts.merges);
  digest.AddAll(parts.added);
  digest.AddAll(parts.pre_tokenizer);
  digest.AddAll(parts.normalizer);
  digest.AddAll(parts.decoder);
  digest.AddAll(parts.prefix);
  digest.AddAll(parts.suffix);
  digest.AddAll(parts.scores);
  digest.AddAll(parts.apart);
  digest.AddNumbers(static_cast<int>(parts.model), parts.ignore_merges,
                    parts.unknown.value_or(-1), parts.fuse_unknown,
                    parts.byte_fallback, parts.is_single,
                    std::bit_cast<int64_t>(parts.least_score.value_or(0)),
                    parts.max_word_characters);
  digest.Add(parts.word_prefix);
  return digest.digest();
}

}  // namespace stowage::text
