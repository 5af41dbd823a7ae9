#ifndef STOWAGE_NN_TEXT_DATA_H_
#define STOWAGE_NN_TEXT_DATA_H_

// Text for character models: a UTF-8 file becomes tokens below
// kTextVocabulary, its last tenth is held out, and batches are drawn from the
// rest.
//
// The vocabulary is fixed, so that a model's graph does not depend on a file:
// newline is 0, and the printable ASCII characters ' ' to '~' are 1 to 95.
// Reading normalizes to these: CR LF and CR become newline, tab and the
// no-break spaces become a space, curly quotes become straight ones, dashes a
// hyphen, an ellipsis three dots; a byte order mark goes away; any other
// character becomes '?'.
//
// A batch is a function of the seed and the step alone, so a resumed run draws
// what the uninterrupted one would have drawn.
//
//   Result<TextData> text = TextData::Load("novel.txt", 64);
//   SampleTextBatch(text->train(), 16, 64, seed, step, tokens, targets);

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

inline constexpr int64_t kTextVocabulary = 96;

/// Normalizes UTF-8 text as said above. Errors: a NUL byte or a byte sequence
/// that is not UTF-8, with line and column (in bytes). `replaced`, unless null, becomes the
/// number of characters that no other spells, for each of which there is a "?".
Result<std::string> NormalizeText(std::string_view utf8,
                                  int64_t* replaced = nullptr);

/// One token a character. Precondition: `normalized` came from NormalizeText.
std::vector<int32_t> EncodeText(std::string_view normalized);
/// The inverse. Precondition: every token is in [0, kTextVocabulary).
std::string DecodeText(std::span<const int32_t> tokens);

class TextData {
 public:
  /// Reads, normalizes and splits a file for windows of `seq` tokens. Errors:
  /// kNotFound or kIo when it cannot be read; an empty or binary file; a text
  /// whose train or held-out part holds no whole window and its next token.
  static Result<TextData> Load(const std::string& path, int64_t seq);
  /// The same for text in hand; `origin` names it in errors.
  static Result<TextData> FromText(std::string_view utf8,
                                   std::string_view origin, int64_t seq);

  /// The same of tokens that are there already, of any vocabulary.
  static Result<TextData> FromTokens(std::vector<int32_t> tokens,
                                     std::string_view origin, int64_t seq);

  std::span<const int32_t> tokens() const { return tokens_; }
  /// Characters of the text that became "?" (NormalizeText).
  int64_t replaced() const { return replaced_; }
  std::span<const int32_t> train() const {
    return tokens().first(tokens_.size() - held_out_);
  }
  /// The last tenth.
  std::span<const int32_t> held_out() const { return tokens().last(held_out_); }

 private:
  static Result<TextData> Split(std::vector<int32_t> tokens,
                                std::string_view unit, std::string_view origin,
                                int64_t seq);

  std::vector<int32_t> tokens_;
  size_t held_out_ = 0;
  int64_t replaced_ = 0;
};

/// Draws `batch` windows of `seq` tokens, and for each the same window one
/// token later. Precondition: part has more than seq tokens; both spans hold
/// batch * seq. Allocates nothing.
void SampleTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                     uint64_t seed, uint64_t step, std::span<int32_t> tokens,
                     std::span<int32_t> targets);

/// How many batches of side-by-side windows a part gives, at least 1; windows
/// that fill no batch are left out.
int64_t CountTextBatches(std::span<const int32_t> part, int64_t batch,
                         int64_t seq);

/// Batch `index` of those: windows index * batch, index * batch + 1, ... of the
/// part, from its start again where there are too few. Preconditions as
/// SampleTextBatch.
void ReadTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                   int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets);

}  // namespace stowage

#endif  // STOWAGE_NN_TEXT_DATA_H_
