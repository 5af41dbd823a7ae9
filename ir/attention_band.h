#ifndef STOWAGE_IR_ATTENTION_BAND_H_
#define STOWAGE_IR_ATTENTION_BAND_H_

// Which keys a query of `attention` reads. The last query is aligned with the last
// key: query t of T stands at key t + (S - T) of S, as in decoding, where the
// queries are the end of a longer sequence. From there a causal query reads itself
// and what is before, a window W leaves it the last W of these, and without a
// causal mask those less than W away on either side. So every query t reads one
// interval of keys, and all intervals make a band:
//
//   const AttentionBand band = BandOf(q.shape(), k.shape(), *launch.attrs);
//   // query t reads the keys s in [0, S) with t + band.low <= s <= t + band.high

#include <cstdint>

#include "ir/attrs.h"
#include "ir/shape.h"

namespace stowage {

struct AttentionBand {
  int64_t low = 0;   // in [-T, S]
  int64_t high = 0;  // in [-T, S)
};

/// q is (B, T, H, D), k (B, S, G, D); the attributes are causal and window, 0 for
/// none.
AttentionBand BandOf(const Shape& q, const Shape& k, const Attrs& attrs);

}  // namespace stowage

#endif  // STOWAGE_IR_ATTENTION_BAND_H_
