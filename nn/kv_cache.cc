#include "nn/kv_cache.h"

#include <limits>

#include "base/strings.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

KvCache::KvCache(GraphBuilder& g, int64_t batch, int64_t count,
                 int64_t positions, SourceLoc loc)
    : g_(g), batch_(batch), count_(count), positions_(positions) {
  position_ = g.Input("position", DType::kI32, {}, loc);
  token_positions_ =
      g.Name("token_positions",
             Add(Iota(g, DType::kI32, 0, 1, count, loc), position_, loc), loc);
  lengths_ =
      g.Name("text_lengths",
             Add(Fill(g, static_cast<double>(count), DType::kI32, {batch}, loc),
                 position_, loc),
             loc);
}

Value KvCache::Keep(Value now, std::string_view name, SourceLoc loc) {
  if (!now.ok()) return now;
  const Value before = g_.Cache(
      name, now.dtype(), {batch_, positions_, now.dim(2), now.dim(3)}, loc);
  return SliceUpdate(before, now, 1, position_, loc);
}

Value KvCache::Mask(DType dtype, int64_t window, SourceLoc loc) {
  Value& made = masks_[window];
  if (made.ok() && made.dtype() == dtype) return made;
  const Value query = Reshape(token_positions_, {count_, 1}, loc);
  const Value key = Iota(g_, DType::kI32, 0, 1, positions_, loc);
  Value sees = LessEqual(key, query, loc);
  if (window > 0) {
    const Value before =
        Sub(query, Fill(g_, static_cast<double>(window), DType::kI32, {}, loc),
            loc);
    sees = LogicalAnd(sees, Greater(key, before, loc), loc);
  }
  const double never = -std::numeric_limits<double>::infinity();
  const Value mask = Where(sees, Fill(g_, 0, dtype, {}, loc),
                           Fill(g_, never, dtype, {}, loc), loc);
  made = Reshape(mask, {1, 1, count_, positions_}, loc);
  return made;
}

Value KvCache::Attend(Value q, Value k, Value v, std::string_view name,
                      const AttentionOptions& options, SourceLoc loc) {
  if (!q.ok()) return q;
  for (const Value& part : {k, v}) {
    if (!part.ok() || part.rank() == 4) continue;
    return g_.Fail(
        StrCat("[kv_cache] the keys and values of ", Quoted(name), " are ",
               k.type().ToString(), " and ", v.type().ToString(),
               "; expected (batch, tokens, groups, elements)"),
        loc);
  }
  const Value keys = Keep(k, StrCat(name, ".keys"), loc);
  const Value values = Keep(v, StrCat(name, ".values"), loc);
  AttentionOptions cached{.scale = options.scale,
                          .key_lengths = lengths_,
                          .softcap = options.softcap};
  // A single token that looks at all before it needs no mask beside its length.
  const int64_t window = options.window >= positions_ ? 0 : options.window;
  if (count_ > 1 || window > 0) cached.bias = Mask(q.dtype(), window, loc);
  return Attention(q, keys, values, cached, loc);
}

}  // namespace stowage
