#ifndef STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
#define STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_

// Choices that depend on times, kept in a file: so that the next process computes the same
// thing in the same way, and need not time it again.
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
// The file is text, a choice a line. What choices mean nothing without, a device and the
// versions of its software, is in the file's name. Many processes may add to it at once; of
// two that chose for one key at the same time, both take what the first wrote. A line that
// a killed process left half written is cut off.

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

/// What a file of choices is about. Its texts are literals.
struct ChoicesKind {
  std::string_view room;    // whose errors they are
  std::string_view name;    // the first word of the file's name
  size_t key_numbers = 0;   // of a key
  size_t choice_words = 0;  // of a choice
  std::string_view says;    // "it says ...", for whoever finds the file damaged
  bool shows_in_bits = true;  // whether results depend on which way is taken
};

class AutotuneCache {
 public:
  using Key = std::vector<int64_t>;
  using Choice = std::vector<uint64_t>;

  /// Reads what is kept in `folder`, which need not be there, for whatever `of` names.
  /// Errors: kIo; kInvalidArgument for a file that is damaged, which is never taken for an
  /// empty one, since other choices may give other bits.
  static Result<AutotuneCache> Open(const std::string& folder,
                                    const ChoicesKind& kind,
                                    std::initializer_list<std::string_view> of);

  /// Null: none is kept.
  const Choice* Find(const Key& key) const;

  /// Adds a choice to the file, and returns what is kept of the key there: `choice`, or
  /// what another process kept before. Errors: kIo; those of Open.
  Result<Choice> Keep(const Key& key, const Choice& choice);

  const std::string& path() const { return path_; }

 private:
  explicit AutotuneCache(const ChoicesKind& kind) : kind_(kind) {}

  std::string Header() const;
  Error Io(std::string_view what) const;
  // Takes in the file's lines; returns the bytes that whole lines take.
  Result<size_t> Read(std::string_view text);

  ChoicesKind kind_;
  std::string path_;
  std::map<Key, Choice> kept_;
};

// The fastest of some ways to do the same.
//
//   STOWAGE_ASSIGN_OR_RETURN(const size_t fastest, ChooseFastest(8, seconds));

/// The index of the fastest of `count` candidates. `seconds(i)` runs the i-th and says
/// how long it took: once for nothing, then all in turn for a few rounds, of which the
/// shortest time of each counts. One that fails is left out. Earlier candidates are
/// preferred by 2 %, which is more than the same work differs by. Error: that of the
/// first candidate, when all fail. Precondition: count > 0.
Result<size_t> ChooseFastest(
    size_t count, const std::function<Result<double>(size_t)>& seconds);

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_AUTOTUNE_CACHE_H_
