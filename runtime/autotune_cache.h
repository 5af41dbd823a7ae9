#ifndef STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
#define STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_

// Stores autotuned choices in a file, so that the next process computes the same bits and
// need not time again.
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
// The file is text, one choice per line. The choices only apply to the device and the
// versions of its software in the file's name. Many processes may add to it at once; if
// two choose for one key at the same time, both use the first one written. A line that a
// killed process left incomplete is cut off.

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

/// The subject of a file of choices. Its strings are literals.
struct ChoicesKind {
  std::string_view room;      // prefix of errors
  std::string_view name;      // the first word of the file's name
  size_t key_numbers = 0;     // of a key
  size_t choice_words = 0;    // of a choice
  std::string_view says;      // "it says ...", for errors about a damaged file
  bool shows_in_bits = true;  // true if results depend on the choice
};

class AutotuneCache {
 public:
  using Key = std::vector<int64_t>;
  using Choice = std::vector<uint64_t>;

  /// Reads the choices for `of` from `folder`, which need not exist. Errors: kIo;
  /// kInvalidArgument for a damaged file, which is never treated as empty, since other
  /// choices may give other bits.
  static Result<AutotuneCache> Open(const std::string& folder,
                                    const ChoicesKind& kind,
                                    std::initializer_list<std::string_view> of);

  /// Null: there is none.
  const Choice* Find(const Key& key) const;

  /// Adds a choice to the file, and returns the stored one: `choice`, or an earlier one
  /// of another process. Errors: kIo; those of Open.
  Result<Choice> Keep(const Key& key, const Choice& choice);

  const std::string& path() const { return path_; }

 private:
  explicit AutotuneCache(const ChoicesKind& kind) : kind_(kind) {}

  std::string Header() const;
  Error Io(std::string_view what) const;
  // Parses the file's lines; returns the bytes that complete lines take.
  Result<size_t> Read(std::string_view text);

  ChoicesKind kind_;
  std::string path_;
  std::map<Key, Choice> kept_;
};

// Finds the fastest of several candidates.
//
//   STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));

/// The index of the fastest of `count` candidates. `seconds(i)` runs the i-th and returns
/// its time: once as a warm-up, then all in turn for a few rounds; the shortest time of
/// each counts. Candidates that fail are left out. Earlier candidates are preferred by 2
/// %, which exceeds the noise. Error: that of the first candidate, if all fail.
/// Precondition: count > 0.
Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
