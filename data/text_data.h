#ifndef STOWAGE_DATA_TEXT_DATA_H_
#define STOWAGE_DATA_TEXT_DATA_H_

// Loads text for training language models. The functions check that a file is plain UTF-8 text, and
// prepare the data of character-level models. The last tenth of a text is the validation set.
//
//   STOWAGE_RETURN_IF_ERROR(CheckTrainingText(bytes, "novel.txt"));
//
//   Result<TextData> text = TextData::Load("novel.txt", 64);
//   SampleTextBatch(text->train(), 16, 64, seed, step, tokens, targets);
//
// The character vocabulary is fixed, so a model's graph does not depend on the file. Token 0 is
// newline, and tokens 1 to 95 are the printable ASCII characters ' ' to '~'. Other characters are
// normalized as follows.
// - CR LF and CR become newline.
// - Tabs and no-break spaces become a space.
// - Curly quotes become straight quotes, dashes become a hyphen, and an ellipsis becomes three
//   dots.
// - An initial byte order mark is dropped.
// - All other characters become '?'.
//
// A batch depends only on the seed and the step, so a resumed run draws the same batches as an
// uninterrupted run.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The size of the character vocabulary: newline and the printable ASCII characters.
inline constexpr int64_t kTextCharacters = 96;

/// Normalizes UTF-8 text as described above. If `replaced` is not null, sets it to the number of
/// characters that became '?'. Returns kInvalidArgument, with the line and the column, which counts
/// bytes, for a NUL byte or ill-formed UTF-8.
Result<std::string> NormalizeText(std::string_view utf8,
                                  int64_t* replaced = nullptr);

/// Returns one token for each character of `normalized`, which must be a result of NormalizeText.
std::vector<int32_t> EncodeText(std::string_view normalized);
/// Returns the characters of `tokens`, which must be in [0, kTextCharacters).
std::string DecodeText(std::span<const int32_t> tokens);

class TextData {
 public:
  /// Reads, normalizes and splits the file at `path` for windows of `seq` tokens. Returns kNotFound
  /// or kIo if the file cannot be read. Returns kInvalidArgument if it is empty or binary, if
  /// `seq < 1`, or if the last tenth of the text is not longer than `seq`.
  static Result<TextData> Load(const std::string& path, int64_t seq);
  /// Normalizes and splits the content of a file, as Load does. `origin` names the file in errors.
  static Result<TextData> FromText(std::string_view utf8,
                                   std::string_view origin, int64_t seq);

  /// Splits `tokens`, which may be of any vocabulary. Returns kInvalidArgument if `seq < 1`, or if
  /// the last tenth is not longer than `seq`. `origin` names the tokens in errors.
  static Result<TextData> FromTokens(std::vector<int32_t> tokens,
                                     std::string_view origin, int64_t seq);

  std::span<const int32_t> tokens() const { return tokens_; }
  /// Returns the number of characters that became '?'.
  int64_t replaced() const { return replaced_; }
  std::span<const int32_t> train() const {
    return tokens().first(tokens_.size() - held_out_);
  }
  /// Returns the tokens of the validation set.
  std::span<const int32_t> held_out() const { return tokens().last(held_out_); }

 private:
  static Result<TextData> Split(std::vector<int32_t> tokens,
                                std::string_view unit, std::string_view origin,
                                int64_t seq);

  std::vector<int32_t> tokens_;
  size_t held_out_ = 0;
  int64_t replaced_ = 0;
};

/// Samples `batch` windows of `seq` tokens from `part`, for example the training set. The seed and
/// the step determine the windows. `targets` are the windows shifted by one token. Does not
/// allocate. Requires `part.size() > seq`, and that `tokens` and `targets` have batch * seq
/// elements.
void SampleTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                     uint64_t seed, uint64_t step, std::span<int32_t> tokens,
                     std::span<int32_t> targets);

/// Returns the number of full batches of adjacent windows of `seq` tokens in `part`, or 1 if there
/// is none.
int64_t CountTextBatches(std::span<const int32_t> part, int64_t batch,
                         int64_t seq);

/// Reads batch `index` of adjacent windows of `seq` tokens, which are windows index * batch to
/// index * batch + batch - 1 of `part`, modulo the number of windows. Requires `index >= 0`,
/// `part.size() > seq`, and that `tokens` and `targets` have batch * seq elements.
void ReadTextBatch(std::span<const int32_t> part, int64_t batch, int64_t seq,
                   int64_t index, std::span<int32_t> tokens,
                   std::span<int32_t> targets);

/// Returns whether the name of the file ends in .jsonl or .ndjson, in upper or lower case.
bool IsJsonLines(std::string_view path);

/// Returns kInvalidArgument if `bytes`, the content of the file at `path`, begins like a Parquet
/// file, a ZIP archive, a compressed file or another container. A container may be valid UTF-8.
Status CheckIsNoContainer(std::string_view bytes, const std::string& path);

/// Returns kInvalidArgument, with the position, if `text`, the content of the file at `path`, is
/// not UTF-8 text. Propagates errors of CheckIsNoContainer.
Status CheckIsText(std::string_view text, const std::string& path);

/// Returns kInvalidArgument if `text`, the content of the file at `path`, is JSON, because the
/// model would learn its syntax. A text that begins like JSON is considered JSON if the file name
/// indicates JSON, if its first line is an example of JSON lines (data/examples.h), or if it is a
/// list of objects. Propagates errors of CheckIsText.
Status CheckTrainingText(std::string_view text, const std::string& path);

}  // namespace stowage

#endif  // STOWAGE_DATA_TEXT_DATA_H_
