#ifndef STOWAGE_GPU_KERNELS_CONVOLUTION_H_
#define STOWAGE_GPU_KERNELS_CONVOLUTION_H_

// Declares the algorithms of convolutions. gpu/kernels/convolution.cu.cc selects one of them
// according to the shapes. (1 x 1 convolutions that are matmuls use the matmul library instead.)
// The tiled algorithms are matmuls whose operands are gathered into tiles in shared memory. All
// algorithms accumulate in f32, in an order that depends only on the shapes.
//
// conv_weight_grad sums over the elements of dy of all images. The sum is divided into segments. If
// there are several, each segment writes partial sums to the workspace, and a second kernel adds
// them in order.

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/conv_walks.h"
#include "gpu/queue.h"
#include "ir/tensor_type.h"
#include "ir/windows.h"

namespace stowage::gpu {

/// The numbers of rows and columns of the sums that one block computes.
struct ConvTileSize {
  int rows, columns;
};

/// Returns the largest tile size that computes few sums beyond the ends of the `count` (rows,
/// columns) matrices and gives enough blocks to keep a large GPU busy. Returns 64 x 64 if no tile
/// size does.
constexpr ConvTileSize ChooseConvTile(int64_t rows, int64_t columns,
                                      int64_t count) {
  // The number of blocks that is considered enough. A large GPU has more multiprocessors. However,
  // larger tiles take fewer instructions per multiplication, which outweighs a few idle
  // multiprocessors.
  constexpr int64_t kBusy = 96;
  const auto blocks = [&](int64_t of_rows, int64_t of_columns) {
    return CeilDiv(rows, of_rows) * CeilDiv(columns, of_columns) * count;
  };
  // Tiles of 128 rows may compute up to an eighth more rows than tiles of 64 rows.
  const bool fills =
      rows > 64 && CeilDiv(rows, 128) * 128 * 8 <= CeilDiv(rows, 64) * 64 * 9;
  if (fills && blocks(128, 128) >= kBusy) return {128, 128};
  if (blocks(64, 128) >= kBusy) return {64, 128};
  return {64, 64};
}

/// The params of conv and conv_transpose. In the tiled algorithms, a block computes some channels
/// of the result for a range of its elements, which are counted over all images.
struct ConvParams {
  const void* source;
  const void* filters;
  void* to;
  ConvShapes shapes;
  int64_t column_blocks, row_blocks;  // the blocks of one phase and group
  // Flags, 1 or 0. A bool would be followed by padding with unspecified bytes.
  int packed = 0;  // 1 if the filters of a row are copied 16 bytes at a time
  int paired = 0;  // 1 if two elements of the result are stored at a time
};

/// The segments into which the sum of a conv_weight_grad is divided. They do not depend on the tile
/// size.
struct ConvPieces {
  static constexpr int kUnit = 32;  // elements of dy
  int64_t count;
  int64_t units;  // per segment

  explicit ConvPieces(const ConvGeometry& g) {
    constexpr int64_t kTile = 64;
    // The number of blocks above which the sum is not divided further, if blocks compute 64 x 64
    // tiles. With the largest tiles, there are a quarter as many blocks, which a GPU can run at the
    // same time.
    constexpr int64_t kBlocks = 512;
    constexpr int64_t kMinUnits = 8;  // per segment
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
  void* dw;     // written directly if there is one segment
  float* sums;  // the partial sums, if there are several segments
  ConvShapes shapes;
  int64_t column_blocks, row_blocks, pieces;
  int64_t piece_units;  // ConvPieces::units
  int64_t size;         // elements of dw
  int packed = 0;       // 1 if dy is copied 16 bytes at a time
};

/// The number of phases of a result (gpu/kernels/conv_walks.h), and the number of elements of the
/// largest phase.
struct ConvPhases {
  int64_t count = 1, elements = 1;
};

/// EnqueueConvProduct and EnqueueWeightGradProduct enqueue tiled matmuls with large tiles, which
/// use tensor cores for 16-bit types. They require `HasPlaces(geometry)`
/// (gpu/kernels/conv_walks.h).
template <bool kTransposed>
void EnqueueConvProduct(Queue& queue, const char* name, DType dtype,
                        ConvParams params, ConvPhases phases);
void EnqueueWeightGradProduct(Queue& queue, DType dtype,
                              ConvWeightGradParams params);

/// EnqueuePlainConv and EnqueuePlainWeightGrad enqueue tiled matmuls with small tiles, for all
/// other convolutions.
template <bool kTransposed>
void EnqueuePlainConv(Queue& queue, const char* name, DType dtype,
                      ConvParams params, ConvPhases phases);
void EnqueuePlainWeightGrad(Queue& queue, DType dtype,
                            ConvWeightGradParams params);

/// Enqueues a kernel that computes one element of the result per thread, for results with few
/// channels per group.
template <bool kTransposed>
void EnqueueConvElements(Queue& queue, const char* name, DType dtype,
                         ConvParams params);

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_KERNELS_CONVOLUTION_H_
