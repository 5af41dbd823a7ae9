#include "tools/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/strings.h"

namespace stowage::tools {
namespace {

// Letters to insert, remove or replace.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string NearestName(std::string_view name,
                        std::span<const std::string> names) {
  std::string nearest;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& known : names) {
    const size_t distance = known.starts_with(name) && name.size() > 3
                                ? 0
                                : EditDistance(name, known);
    if (distance >= least) continue;
    least = distance;
    nearest = known;
  }
  return nearest;
}

std::string DidYouMean(std::string_view name,
                       std::span<const std::string> names) {
  const std::string nearest = NearestName(name, names);
  return nearest.empty() ? "" : StrCat("; did you mean ", nearest, "?");
}

}  // namespace stowage::tools
