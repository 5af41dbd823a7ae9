#ifndef STOWAGE_DATA_TOKEN_SHARDS_H_
#define STOWAGE_DATA_TOKEN_SHARDS_H_

// Files of tokens from pre-training scripts: one file or the shards of a corpus, which may be
// larger than memory, since they are read in place.
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
// Of a folder, all *.bin and *.npy files are read in the order of their names. Files with
// "val", "valid", "validation", "test" or "eval" as a word of their name are the validation
// set; without any, the last tenth of the last file is.

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
  /// A range of tokens of one file.
  struct Part {
    size_t file = 0;
    int64_t begin = 0, tokens = 0;
  };

  /// Whether `path` is a *.bin or *.npy file, or a folder with one.
  static bool Reads(const std::string& path);

  /// Opens the file, or those of the folder. Read accepts tokens below `vocabulary`. Errors:
  /// kNotFound and kIo; kInvalidArgument for a header of another version or number of tokens,
  /// an array of another type or rank, a file that is no whole number of tokens, and for a
  /// folder without training files.
  static Result<TokenShards> Open(const std::string& path, int64_t vocabulary);

  const std::vector<Part>& train() const { return train_; }
  const std::vector<Part>& held_out() const { return held_out_; }
  size_t files() const { return files_.size(); }
  /// The files, their format and the number of tokens, in one line.
  std::string Describe() const;
  /// A digest of the names and sizes of all files, and of the first and last mebibyte of
  /// each. Error kIo.
  Result<uint64_t> Digest() const;

  /// Windows of `size` tokens that begin at any token of a part and end in it: their number,
  /// and window `index`.
  static int64_t CountPlaces(std::span<const Part> parts, int64_t size);
  static Part Place(std::span<const Part> parts, int64_t size, int64_t index);
  /// The same for adjacent windows, each of which begins at the last token of the one before.
  static int64_t CountWindows(std::span<const Part> parts, int64_t size);
  static Part Window(std::span<const Part> parts, int64_t size, int64_t index);

  /// Reads the tokens of `part`. Errors: kIo; kInvalidArgument, with file and position, for a
  /// token outside the vocabulary. Precondition: to.size() == part.tokens.
  Status Read(const Part& part, std::span<int32_t> to) const;

 private:
  struct File {
    InputFile file;
    std::string format;
    Bytes begin = 0;
    int width = 2;  // bytes of a token
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
