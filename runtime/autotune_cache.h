#ifndef STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
#define STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_

// Stores autotuned choices in a file, such as the algorithm of a matmul. The next process then
// makes the same choices, so its results are bit-equal, and it does not need to time the
// candidates.
//
//   constexpr ChoicesKind kProducts = {.room = "gpu",
//                                      .name = "products",
//                                      .key_numbers = 19,
//                                      .choice_words = 8,
//                                      .says = "by which algorithms products are computed"};
//   STOWAGE_ASSIGN_OR_RETURN(
//       AutotuneCache choices,
//       AutotuneCache::Open(folder, kProducts, {"NVIDIA H100 80GB HBM3", "cuBLASLt 130100"}));
//   if (choices.Find(key) == nullptr) {
//     ...
//     STOWAGE_ASSIGN_OR_RETURN(const AutotuneCache::Choice kept, choices.Keep(key, choice));
//   }
//
// The file is text, with one choice per line. Its name contains the device and the versions of the
// device's software, because the choices apply only to these. Many processes may append to the
// file concurrently. If two processes choose for the same key, both use the choice that was
// written first. An incomplete last line, which a killed process can leave, is removed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage {

/// The kind of choices in a file. The strings must outlive every AutotuneCache of this kind.
struct ChoicesKind {
  // The prefix of error messages.
  std::string_view room;
  // The first word of the file's name.
  std::string_view name;
  // The number of numbers in a key.
  size_t key_numbers = 0;
  // The number of 64-bit words in a choice.
  size_t choice_words = 0;
  // Completes "it says ..." in errors about a damaged file.
  std::string_view says;
  // True if the bits of results depend on the choice.
  bool shows_in_bits = true;
};

class AutotuneCache {
 public:
  using Key = std::vector<int64_t>;
  using Choice = std::vector<uint64_t>;

  /// Reads the choices for `of`, the device and the versions of its software, from the file in
  /// `folder`. Neither the folder nor the file need exist. Returns kIo if the file cannot be read.
  /// Returns kInvalidArgument if the file is damaged. A damaged file is not treated as empty,
  /// because different choices may give different bits.
  static Result<AutotuneCache> Open(const std::string& folder,
                                    const ChoicesKind& kind,
                                    std::initializer_list<std::string_view> of);

  /// Returns the choice for `key`, or null if there is none. The pointer is valid as long as this
  /// object.
  const Choice* Find(const Key& key) const;

  /// Adds the choice for `key` to the file. Creates the folder if necessary. Returns the stored
  /// choice, which is `choice` or an earlier choice of another process. `key` and `choice` must
  /// have the sizes that ChoicesKind states. Returns kIo if the file cannot be written. Propagates
  /// errors of Open.
  Result<Choice> Keep(const Key& key, const Choice& choice);

  const std::string& path() const { return path_; }

 private:
  explicit AutotuneCache(const ChoicesKind& kind) : kind_(kind) {}

  std::string Header() const;
  Error Io(std::string_view what) const;
  // Parses the lines of the file. Returns the number of bytes in complete lines.
  Result<size_t> Read(std::string_view text);

  ChoicesKind kind_;
  std::string path_;
  std::map<Key, Choice> kept_;
};

// Finds the fastest of several candidates.
//
//   STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));

/// Returns the index of the fastest of `count` candidates. `seconds(i)` must run candidate i and
/// return its time. The function calls it once per candidate as a warm-up, and then for all
/// candidates in turn for a few rounds. The shortest time of each candidate counts, without the
/// warm-up. Candidates that fail in the warm-up are skipped. A candidate is preferred to an earlier
/// one only if it is more than 2 % faster, because smaller differences may be noise. If all
/// candidates fail, returns the first error. If a candidate fails after its warm-up, returns its
/// error. Requires `count > 0`.
Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
