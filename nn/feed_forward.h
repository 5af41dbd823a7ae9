#ifndef STOWAGE_NN_FEED_FORWARD_H_
#define STOWAGE_NN_FEED_FORWARD_H_

// The gated feed-forward part of a transformer's block (Shazeer 2020), by the names
// of Hugging Face's models.
//
//   Value y = SwiGlu(h, "model.layers.0.mlp", 352);

#include <cstdint>
#include <string_view>

#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

struct SwiGluOptions {
  Init init = Init::Normal(0.02);
  Init down_init = Init::Normal(0.02);  // of the projection back
  bool bias = false;                    // of all three
  bool out_in = false;                  // LinearOptions'
};

/// x (..., C) -> silu(x Wg) * (x Wu) Wd. Params "<name>.gate_proj.weight" and
/// "<name>.up_proj.weight" (C, hidden), "<name>.down_proj.weight" (hidden, C), and
/// biases of the same names where there are any. Of the hidden values, backward keeps the gate and the other factor.
Value SwiGlu(Value x, std::string_view name, int64_t hidden,
             const SwiGluOptions& options = {},
             SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_FEED_FORWARD_H_
