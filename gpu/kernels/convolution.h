#ifndef STOWAGE_GPU_KERNELS_CONVOLUTION_H_
#define STOWAGE_GPU_KERNELS_CONVOLUTION_H_

// The algorithms of convolutions, from which gpu/kernels/convolution.cu.cc chooses by shapes
// alone. All are matmuls whose operands are gathered into tiles in shared memory, with sums
// in f32 in an order that depends on shapes alone.
//
// The sums of conv_weight_grad run over the elements of dy of all images, and are divided
// into pieces, whose sums in the workspace a second kernel adds in order.

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/conv_walks.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"

namespace stowage::gpu {

/// Rows and columns of a block's sums.
struct ConvTileSize {
  int rows, columns;
};

/// The tile size that wastes least of `count` matrices of sums and still keeps a large GPU
/// busy.
constexpr ConvTileSize ChooseConvTile(int64_t rows, int64_t columns,
                                      int64_t count) {
  // Blocks. A large GPU has more multiprocessors, but larger tiles take fewer instructions per
  // multiplication, which outweighs a few idle ones.
  constexpr int64_t kBusy = 96;
  const auto blocks = [&](int64_t of_rows, int64_t of_columns) {
    return CeilDiv(rows, of_rows) * CeilDiv(columns, of_columns) * count;
  };
  // An eighth of the rows may be beyond the end.
  const bool fills =
      rows > 64 && CeilDiv(rows, 128) * 128 * 8 <= CeilDiv(rows, 64) * 64 * 9;
  if (fills && blocks(128, 128) >= kBusy) return {128, 128};
  if (blocks(64, 128) >= kBusy) return {64, 128};
  return {64, 64};
}

/// conv or conv_transpose. A block computes some of the result's channels for consecutive
/// elements of all images.
struct ConvParams {
  const void* source;
  const void* filters;
  void* to;
  ConvShapes shapes;
  int64_t column_blocks, row_blocks;  // of one phase and group
  // 1 or 0; a bool would leave padding with stale bytes.
  int packed = 0;  // the filters of a row, by 16 bytes
  int paired = 0;  // the result, by two elements
};

/// How the sums of a conv_weight_grad are divided, whatever the tile size.
struct ConvPieces {
  static constexpr int kUnit = 32;  // elements of dy
  int64_t count;
  int64_t units;  // of one

  explicit ConvPieces(const ConvGeometry& g) {
    constexpr int64_t kTile = 64;
    // The most blocks, a quarter of them with the largest tiles: one wave of a GPU.
    constexpr int64_t kBlocks = 512;
    constexpr int64_t kMinUnits = 8;  // of a piece
    const int64_t all = CeilDiv(g.images * g.out_size(), kUnit);
    const int64_t blocks = g.groups * CeilDiv(g.filters, kTile) *
                           CeilDiv(g.channels * g.kernel_size(), kTile);
    const int64_t wanted =
        std::clamp<int64_t>(kBlocks / blocks, 1, CeilDiv(all, kMinUnits));
    units = CeilDiv(all, wanted);
    count = CeilDiv(all, units);
  }
};

struct ConvWeightGradParams {
  const void* x;
  const void* dy;
  void* dw;     // where there is one piece
  float* sums;  // of each piece, where there are several
  ConvShapes shapes;
  int64_t column_blocks, row_blocks, pieces;
  int64_t piece_units;  // of ConvPieces::kUnit elements of dy
  int64_t size;         // of dw
  int packed = 0;       // dy, by 16 bytes: 1 or 0
};

/// The phases of a result, and the elements of the largest.
struct ConvPhases {
  int64_t count = 1, elements = 1;
};

/// Large tiles; 16-bit types by tensor cores. Precondition: HasPlaces(geometry).
template <bool kTransposed>
void EnqueueConvProduct(Queue& queue, const char* name, DType dtype,
                        ConvParams params, ConvPhases phases);
void EnqueueWeightGradProduct(Queue& queue, DType dtype,
                              ConvWeightGradParams params);

/// Small tiles and plain loops, for all other convolutions.
template <bool kTransposed>
void EnqueuePlainConv(Queue& queue, const char* name, DType dtype,
                      ConvParams params, ConvPhases phases);
void EnqueuePlainWeightGrad(Queue& queue, DType dtype,
                            ConvWeightGradParams params);

/// One element of the result per thread, for few channels.
template <bool kTransposed>
void EnqueueConvElements(Queue& queue, const char* name, DType dtype,
                         ConvParams params);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CONVOLUTION_H_
