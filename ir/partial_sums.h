#ifndef STOWAGE_IR_PARTIAL_SUMS_H_
#define STOWAGE_IR_PARTIAL_SUMS_H_

// Gradients of a norm's params are sums over rows, in two stages: some rows to a partial
// sum, side by side, and then these to one. A node that says into how many parts leaves
// the second stage to a sum_partials, which does it for many norms at once. The parts are
// f32, or f64 for f64; which rows a part adds up is the backend's to say.
//
//   dx, dgamma, dbeta = layer_norm_grad(...)                 dgamma: bf16(n)
//
//   dx, p0, p1 = layer_norm_grad(...) {parts: 512}           p0: f32(512, n)
//   dgamma, dbeta = sum_partials(p0, p1) {dtype: bf16}       dgamma: bf16(n)

#include <cstdint>
#include <optional>

#include "ir/attrs.h"

namespace stowage {

/// The attribute "parts" of a norm's gradient; nothing where it gives the sums themselves.
inline std::optional<int64_t> PartsOf(const Attrs& attrs) {
  if (attrs.Find("parts") == nullptr) return std::nullopt;
  return attrs.Int("parts");
}

}  // namespace stowage

#endif  // STOWAGE_IR_PARTIAL_SUMS_H_
