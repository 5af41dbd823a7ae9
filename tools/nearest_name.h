#ifndef STOWAGE_TOOLS_NEAREST_NAME_H_
#define STOWAGE_TOOLS_NEAREST_NAME_H_

// The name that was meant, for messages about one that is not known.
//
//   NearestName("--clipnorm", {"--lr", "--clip-norm"});  // "--clip-norm"

#include <span>
#include <string>
#include <string_view>

namespace stowage::tools {

/// The name of `names` that `name` begins, or that differs from it by the fewest letters
/// (Levenshtein 1966); empty where that is more than a third of them. Takes time for the
/// product of the lengths.
std::string NearestName(std::string_view name,
                        std::span<const std::string> names);

/// "; did you mean NAME?" of the nearest name, or nothing.
std::string DidYouMean(std::string_view name,
                       std::span<const std::string> names);

}  // namespace stowage::tools

#endif  // STOWAGE_TOOLS_NEAREST_NAME_H_
