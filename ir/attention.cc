#include "ir/attention.h"

#include <algorithm>

namespace stowage {

AttentionBand BandOf(const Shape& q, const Shape& k, const Attrs& attrs) {
  const int64_t queries = q[1];
  const int64_t keys = k[1];
  // A window of all keys and queries is none.
  const int64_t longest = keys + queries;
  int64_t window = std::min(attrs.Int("window"), longest);
  if (window == 0) window = longest;
  const int64_t here = keys - queries;
  AttentionBand band;
  band.low = std::max(-queries, here - window + 1);
  band.high =
      attrs.Int("causal") == 1 ? here : std::min(keys - 1, here + window - 1);
  return band;
}

}  // namespace stowage
