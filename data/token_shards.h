#ifndef STOWAGE_DATA_TOKEN_SHARDS_H_
#define STOWAGE_DATA_TOKEN_SHARDS_H_

// Reads files of tokens, in the formats of common pre-training scripts. A corpus is one file or a
// folder of files. It may be larger than memory, since tokens are read from the files on demand.
//
//   Result<TokenShards> tokens = TokenShards::Open("fineweb10B", 50257);
//   const auto place = TokenShards::Place(tokens->train(), 1025, i);
//   Status read = tokens->Read(place, window);
//
// The formats, all little-endian:
// - llm.c: a header of 256 i32 (magic 20240520, version 1, number of tokens), then u16;
//   or magic 20240801 and version 7, then u32.
// - nanoGPT: u16 without a header, in a file called *.bin.
// - NumPy: a *.npy of rank 1, of u16, u32, i32 or i64 (build-nanogpt).
//
// In a folder, all *.bin and *.npy files are read in the order of their names. A file is validation
// data if "val", "valid", "validation", "test" or "eval" is a word of its name. If there is only
// one file, or no validation file, the last tenth of the last file is the validation set.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/files.h"
#include "base/result.h"

namespace stowage {

class TokenShards {
 public:
  /// A range of tokens in one file.
  struct Part {
    size_t file = 0;
    int64_t begin = 0, tokens = 0;
  };

  /// Returns whether `path` ends in .bin or .npy, or is a folder that contains a file with such a
  /// name.
  static bool Reads(const std::string& path);

  /// Opens the file, or the files of the folder. Tokens must be below `vocabulary`, which Read
  /// checks. Returns kNotFound or kIo if a file cannot be read. Returns kInvalidArgument for a
  /// header with an unknown version or with another number of tokens than the file has, an array of
  /// another type or rank, a file of text, a size that is not a whole number of tokens, and a
  /// folder without token files or without training files.
  static Result<TokenShards> Open(const std::string& path, int64_t vocabulary);

  const std::vector<Part>& train() const { return train_; }
  const std::vector<Part>& held_out() const { return held_out_; }
  size_t files() const { return files_.size(); }
  /// Returns one line with the number of files, their formats and the numbers of tokens.
  std::string Describe() const;
  /// Returns a digest of the names and sizes of all files, and of the first and last mebibyte of
  /// each. Returns kIo if a file cannot be read.
  Result<uint64_t> Digest() const;

  /// CountPlaces returns the number of windows of `size` tokens that begin at any token of an
  /// element of `parts` and end in the same element. Place returns the window with index `index`,
  /// which must be below this number.
  static int64_t CountPlaces(std::span<const Part> parts, int64_t size);
  static Part Place(std::span<const Part> parts, int64_t size, int64_t index);
  /// CountWindows returns the number of adjacent windows of `size` tokens, each of which begins at
  /// the last token of the previous window. No window extends over two elements of `parts`. Window
  /// returns the window with index `index`, which must be below this number. Both require `size >
  /// 1`.
  static int64_t CountWindows(std::span<const Part> parts, int64_t size);
  static Part Window(std::span<const Part> parts, int64_t size, int64_t index);

  /// Reads the tokens of `part`, for example a result of Place. Returns kIo if the file cannot be
  /// read, and kInvalidArgument, with the file and position, for a token outside of the vocabulary.
  /// Requires `to.size() == part.tokens`.
  Status Read(const Part& part, std::span<int32_t> to) const;

 private:
  struct File {
    InputFile file;
    std::string format;
    Bytes begin = 0;
    int width = 2;  // bytes per token
    int64_t tokens = 0;
  };

  explicit TokenShards(int64_t vocabulary) : vocabulary_(vocabulary) {}
  Status Add(const std::string& path);
  Status Split(const std::vector<bool>& is_held_out, const std::string& path);

  int64_t vocabulary_;
  std::vector<File> files_;
  std::vector<Part> train_, held_out_;
};

}  // namespace stowage

#endif  // STOWAGE_DATA_TOKEN_SHARDS_H_
