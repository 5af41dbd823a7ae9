#ifndef STOWAGE_NN_KV_CACHE_H_
#define STOWAGE_NN_KV_CACHE_H_

// Keys and values of a text that is read in parts, so that what was read once is not
// read again: each run of a program takes the next tokens of the text and leaves their
// keys and values in caches (Role::kCache), where the runs after it find them. A
// program for one token and one for many may share them.
//
//   KvCache cache(g, /*batch=*/1, /*count=*/1, /*positions=*/1024);
//   q = Rope(q, cache.token_positions());
//   k = Rope(k, cache.token_positions());
//   Value attended = cache.Attend(q, k, v, "h.0.attn");
//
// The input "position" says how many tokens were read before. What lies behind it in
// the caches is not looked at: to go back in the text, begin at an earlier position.

#include <cstdint>
#include <map>
#include <string_view>

#include "ir/builder.h"
#include "ir/ops.h"

namespace stowage {

class KvCache {
 public:
  /// For runs that read `count` tokens of each of `batch` texts, and texts of at most
  /// `positions` tokens, all at least 1. Declares the input "position", an i32 scalar;
  /// one above positions - count fails the step as an index out of range.
  KvCache(GraphBuilder& g, int64_t batch, int64_t count, int64_t positions,
          SourceLoc loc = SourceLoc::Current());

  /// Where the tokens of this run stand in their texts: i32 (count).
  Value token_positions() const { return token_positions_; }

  /// Causal attention of q (B, count, H, D) to k and v (B, count, G, D) and to all
  /// that was read before, with the scale, the window and the softcap of `options`; the
  /// rest of them is not read. Keys and values are kept in the caches "<name>.keys" and
  /// "<name>.values" (B, positions, G, D), of k's and v's types. Errors: k or v that are
  /// not (B, count, G, D); those of Attention.
  Value Attend(Value q, Value k, Value v, std::string_view name,
               const AttentionOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

 private:
  Value Keep(Value now, std::string_view name, SourceLoc loc);
  Value Mask(DType dtype, int64_t window, SourceLoc loc);

  GraphBuilder& g_;
  int64_t batch_, count_, positions_;
  Value position_;         // of the first token
  Value token_positions_;  // of all
  Value lengths_;          // of the texts with these tokens: i32 (B)
  // Those that were made, by window; layers share them.
  std::map<int64_t, Value> masks_;
};

}  // namespace stowage

#endif  // STOWAGE_NN_KV_CACHE_H_
