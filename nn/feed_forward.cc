#include "nn/feed_forward.h"

#include "base/strings.h"
#include "ir/ops.h"
#include "nn/layers.h"

namespace stowage {

Value SwiGlu(Value x, std::string_view name, int64_t hidden,
             const SwiGluOptions& options, SourceLoc loc) {
  if (!x.ok()) return x;
  GraphBuilder& g = *x.builder();
  const LinearOptions wide = {
      .bias = options.bias, .init = options.init, .out_in = options.out_in};
  const Value gate = Linear(x, StrCat(name, ".gate_proj"), hidden, wide, loc);
  const Value up = Linear(x, StrCat(name, ".up_proj"), hidden, wide, loc);
  const Value gated =
      g.Name(StrCat(name, ".gated"), SwiGlu(gate, up, loc), loc);
  if (!gated.ok()) return gated;
  return Linear(gated, StrCat(name, ".down_proj"), x.shape().back(),
                {.bias = options.bias,
                 .init = options.down_init,
                 .out_in = options.out_in},
                loc);
}

}  // namespace stowage
