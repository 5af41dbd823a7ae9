#ifndef STOWAGE_GPU_KERNELS_ATTENTION_KEY_SUMS_H_
#define STOWAGE_GPU_KERNELS_ATTENTION_KEY_SUMS_H_

// What a tile of queries adds to dk and dv of a tile of keys, by products of warps. The
// rows of the tile of keys are the block's own, in strips as gpu/kernels/attention_tiles.h
// has them, and their sums stay in registers while the tiles of queries go by.
//
// Scores, and their gradients, are made transposed: a row is a key. So they are the left
// factors of the products that add to dv and dk, and need not leave the registers.

#include <cstdint>

#include "gpu/kernels/attention_params.h"
#include "gpu/kernels/attention_softmax.h"
#include "gpu/kernels/attention_tiles.h"
#include "gpu/simt.h"

namespace stowage::gpu {

/// Takes one tile of queries into account, for the keys of this block. With kMasked some
/// of them may not read some of the keys. dk lacks its factor, the scale.
///
/// `use(ds, strips)` is called with the gradients of the scores, float[kM][kQueries / 8][4]
/// of which these strips count, before dk takes them; not at all where no strip of this
/// warp is read.
template <int kWarps, bool kMasked, int kDepth, int kQueries, int kM,
          typename T, typename Use>
STOWAGE_DEVICE void AddQueries(float (&dk)[kM][kDepth / 8][4],
                               float (&dv)[kM][kDepth / 8][4], const T* shared,
                               int k_tile, int v_tile, int q_tile, int d_o_tile,
                               const QueryStatistics* statistics, int first_key,
                               int first_query, int keys,
                               const AttentionParams& params, Use&& use) {
  Strips strips{0, kM};
  if (kMasked) {  // these queries see none of the strips right of the diagonal
    STOWAGE_UNROLL
    for (int i = kM - 1; i >= 0; --i) {
      if (first_key + StripRow<kWarps>(i) >
          first_query + kQueries - 1 + params.high) {
        strips.end = i;
      }
    }
    if (strips.end == 0) return;
  }
  float p[kM][kQueries / 8][4];  // transposed: a row is a key
  MultiplyTiles<kWarps, kDepth, kM, kQueries>(p, shared, k_tile, q_tile,
                                              strips);
  const int column = Lane() % 4 * 2;
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    if (!strips.Has(i)) continue;
    ToProbabilitiesOfKeys<kMasked>(p[i], statistics + column, params, keys,
                                   first_key + StripRow<kWarps>(i) + Lane() / 4,
                                   first_query + column);
  }
  AddWeighted<kDepth, kM, kQueries>(dv, p, shared, d_o_tile, strips);
  float ds[kM][kQueries / 8][4];
  MultiplyTiles<kWarps, kDepth, kM, kQueries>(ds, shared, v_tile, d_o_tile,
                                              strips);
  STOWAGE_UNROLL
  for (int i = 0; i < kM; ++i) {
    ToScoreGradsOfKeys(ds[i], p[i], statistics + column);
  }
  use(ds, strips);
  AddWeighted<kDepth, kM, kQueries>(dk, ds, shared, q_tile, strips);
}

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_ATTENTION_KEY_SUMS_H_
