#ifndef STOWAGE_DATA_TEXT_DATA_H_
#define STOWAGE_DATA_TEXT_DATA_H_

// Text to train language models on: checks that a file is plain text in UTF-8, and the data of
// character models, whose last tenth is the validation set.
//
//   STOWAGE_RETURN_IF_ERROR(CheckTrainingText(bytes, "novel.txt"));
//
//   Result<TextData> text = TextData::Load("novel.txt", 64);
//   SampleTextBatch(text->train(), 16, 64, seed, step, tokens, targets);
//
// The vocabulary of characters is fixed, so that a model's graph does not depend on a file:
// newline is 0, and the printable ASCII characters ' ' to '~' are 1 to 95. Other characters are
// normalized: CR LF and CR become newline, tab and no-break spaces a space, curly quotes
// straight ones, dashes a hyphen, an ellipsis three dots; a byte order mark is dropped; any
// other character becomes '?'.
//
// A batch is a function of the seed and the step alone, so that a resumed run draws what an
// uninterrupted one would have drawn.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The tokens of characters: newline and the printable ASCII characters.
inline constexpr int64_t kTextCharacters = 96;

/// Normalizes UTF-8 text as described above. `replaced`, unless null, is set to the number of
/// characters that became '?'. Error kInvalidArgument, with line and column in bytes: a NUL
/// byte or ill-formed UTF-8.
Result<std::string> NormalizeText(std::string_view utf8,
                                  int64_t* replaced = nullptr);

/// One token per character. Precondition: `normalized` is a result of NormalizeText.
std::vector<int32_t> EncodeText(std::string_view normalized);
/// The inverse. Precondition: every token is in [0, kTextCharacters).
std::string DecodeText(std::span<const int32_t> tokens);

class TextData {
 public:
  /// Reads, normalizes and splits a file for windows of `seq` tokens. Errors: kNotFound or kIo
  /// if it cannot be read; kInvalidArgument for an empty or binary file, and for a text of
  /// which a part is shorter than a window and its next token.
  static Result<TextData> Load(const std::string& path, int64_t seq);
  /// The same for the content of a file; `origin` names it in errors.
  static Result<TextData> FromText(std::string_view utf8,
                                   std::string_view origin, int64_t seq);

  /// The same for tokens of any vocabulary.
  static Result<TextData> FromTokens(std::vector<int32_t> tokens,
                                     std::string_view origin, int64_t seq);

  std::span<const int32_t> tokens() const { return tokens_; }
  /// The number of characters that became '?'.
  int64_t replaced() const { return replaced_; }
  std::span<const int32_t> train() const {
    return tokens().first(tokens_.size() - held_out_);
  }
  /// The validation set.
  std::span<const int32_t> held_out() const { return tokens().last(held_out_); }

 private:
  static Result<TextData> Split(std::vector<int32_t> tokens,
                                std::string_view unit, std::string_view origin,
                                int64_t seq);

  std::vector<int32_t> tokens_;
  size_t held_out_ = 0;
  int64_t replaced_ = 0;
};

/// Draws `batch` windows of `seq` tokens, and as targets the same windows one token later.
/// Allocates nothing. Preconditions: part.size() > seq; both spans have batch * seq elements.
void SampleTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                     uint64_t seed, uint64_t step, std::span<int32_t> tokens,
                     std::span<int32_t> targets);

/// The number of batches of adjacent windows in a part, at least 1; windows that fill no batch
/// do not count.
int64_t CountTextBatches(std::span<const int32_t> part, int64_t batch,
                         int64_t seq);

/// Reads batch `index` of those: windows index * batch, index * batch + 1, ... of the part,
/// modulo their number. Preconditions: as SampleTextBatch.
void ReadTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                   int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets);

/// Whether the file is JSON lines by its name: .jsonl or .ndjson, in any case.
bool IsJsonLines(std::string_view path);

/// Error kInvalidArgument if `bytes`, of the file in `path`, begin as Parquet, a ZIP archive,
/// a compressed file or another container, which may happen to be valid text.
Status CheckIsNoContainer(std::string_view bytes, const std::string& path);

/// Errors: that of CheckIsNoContainer; kInvalidArgument, with the byte, if `text`, of the file
/// in `path`, is not text in UTF-8.
Status CheckIsText(std::string_view text, const std::string& path);

/// Errors: those of CheckIsText; kInvalidArgument for JSON, whose quotes would be learned: by
/// the file's name, a first line that is an example of JSON lines, or a list of objects.
Status CheckTrainingText(std::string_view text, const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_DATA_TEXT_DATA_H_
