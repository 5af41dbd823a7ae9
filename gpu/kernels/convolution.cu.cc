// conv, conv_transpose and conv_weight_grad: the choice among the algorithms of
// gpu/kernels/convolution.h, by shapes alone, and those without large tiles.
//
// A convolution by one element of the kernel in which every place of x meets one of y is a
// matmul per image, y = w x and dx = w^T dy, by the queue and without scratch. If a group has
// few channels, a thread computes an element. All others are matmuls of gathered tiles.

#include "gpu/kernels/convolution.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "base/result.h"
#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/conv_walks.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/queue.h"
#include "gpu/simt.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kAddThreads = 256;

// With fewer channels in a group, most of a tile would be empty.
constexpr int64_t kFewChannels = 8;

// --- conv and conv_transpose -------------------------------------------------

// Whether y is w x, in every image.
bool IsProduct(const ConvGeometry& g) {
  return g.groups == 1 &&
         std::all_of(g.dims.begin(), g.dims.end(), [](const ConvDim& dim) {
           return dim.kernel == 1 && dim.stride == 1 && dim.before == 0 &&
                  dim.in == dim.out;
         });
}

// to[n] = w source[n], or w^T source[n].
MatMulCall ProductOf(const Launch& launch, const ConvGeometry& g,
                     bool transposed) {
  const int64_t rows = transposed ? g.channels : g.filters;
  const int64_t depth = transposed ? g.filters : g.channels;
  const int64_t columns = g.in_size();
  return {.dtype = launch.outputs[0].dtype(),
          .m = rows,
          .n = columns,
          .k = depth,
          .batch = g.images,
          .a = {.data = launch.inputs[1].data,
                .stride = g.channels,
                .transposed = transposed},
          .b = {.data = launch.inputs[0].data,
                .stride = columns,
                .batch_stride = depth * columns},
          .c = launch.outputs[0].data,
          .c_stride = columns,
          .c_batch_stride = rows * columns};
}

template <bool kTransposed>
void EnqueueConv(const Launch& launch, Queue& queue) {
  const TensorView& source = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& to = launch.outputs[0];
  const ConvGeometry g(kTransposed ? to.shape() : source.shape(), w.shape(),
                       kTransposed ? source.shape() : to.shape(),
                       *launch.attrs);
  if (IsProduct(g)) return queue.MatMul(ProductOf(launch, g, kTransposed));
  const ConvParams params = {.source = source.data,
                             .filters = w.data,
                             .to = to.data,
                             .shapes = ToConvShapes(g),
                             .column_blocks = 1,
                             .row_blocks = 1};
  const char* name = kTransposed ? "conv_transpose" : "conv";
  if ((kTransposed ? g.channels : g.filters) < kFewChannels) {
    return EnqueueConvElements<kTransposed>(queue, name, to.dtype(), params);
  }
  ConvPhases phases = {.count = 1, .elements = g.out_size()};
  if (kTransposed) {
    phases.elements = 1;
    for (const ConvDim& dim : g.dims) {
      phases.count *= std::min(dim.stride, dim.in);
      phases.elements *= CeilDiv(dim.in, dim.stride);
    }
  }
  if (HasPlaces(g)) {
    EnqueueConvProduct<kTransposed>(queue, name, to.dtype(), params, phases);
  } else {
    EnqueuePlainConv<kTransposed>(queue, name, to.dtype(), params, phases);
  }
}

// --- conv_weight_grad --------------------------------------------------------

template <typename T>
STOWAGE_KERNEL(kAddThreads)
AddPieces(STOWAGE_PARAMS(ConvWeightGradParams) p) {
  const int64_t i = int64_t{BlockId()} * kAddThreads + ThreadId();
  if (i >= p.size) return;
  float sum = 0;
  for (int64_t piece = 0; piece < p.pieces; ++piece) {
    sum += p.sums[piece * p.size + i];
  }
  static_cast<T*>(p.dw)[i] = FromFloat<T>(sum);
}

void EnqueueWeightGrad(const Launch& launch, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& dy = launch.inputs[1];
  const TensorView& dw = launch.outputs[0];
  const ConvGeometry g(x.shape(), dw.shape(), dy.shape(), *launch.attrs);
  const ConvPieces pieces(g);
  const ConvWeightGradParams params = {
      .x = x.data,
      .dy = dy.data,
      .dw = dw.data,
      .sums = reinterpret_cast<float*>(launch.workspace.data()),
      .shapes = ToConvShapes(g),
      .column_blocks = 1,
      .row_blocks = 1,
      .pieces = pieces.count,
      .piece_units = pieces.units,
      .size = dw.size()};
  if (g.filters >= kFewChannels && HasPlaces(g)) {
    EnqueueWeightGradProduct(queue, dw.dtype(), params);
  } else {
    EnqueuePlainWeightGrad(queue, dw.dtype(), params);
  }
  if (pieces.count == 1) return;
  OnFloat(dw.dtype(), [&](auto zero) {
    LaunchKernel(queue, "conv_weight_grad of pieces", AddPieces<decltype(zero)>,
                 params, {.x = BlocksFor(params.size, kAddThreads)},
                 kAddThreads);
  });
}

Bytes WeightGradWorkspace(const OpArgs& args,
                          std::span<const TensorType> results) {
  const ConvPieces pieces(
      ConvGeometry(args.shape(0), results[0].shape, args.shape(1), args.attrs));
  if (pieces.count == 1) return 0;
  return pieces.count * results[0].shape.num_elements() * SizeOf(DType::kF32);
}

// Places in an image, in all filters, and around an image are 32-bit numbers.
std::string Excess(const OpArgs& args) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 4;
  const bool makes_filters = args.op == OpKind::kConvWeightGrad;
  const auto result = GetOpDef(args.op).infer(args);
  STOWAGE_CHECK(result.ok());
  const Shape& made = (*result)[0].shape;
  const auto check = [kMax](const std::string& what, const Shape& shape,
                            bool is_filters) -> std::string {
    const int64_t elements = shape.num_elements() / (is_filters ? 1 : shape[0]);
    if (elements <= kMax) return "";
    return StrCat(what, is_filters ? " has " : " has images of ", elements,
                  " elements; expected at most ", kMax);
  };
  std::string excess = check(Quoted(args.names[0]), args.shape(0), false);
  if (excess.empty()) {
    excess = check(Quoted(args.names[1]), args.shape(1), !makes_filters);
  }
  if (excess.empty()) excess = check("its result", made, makes_filters);
  for (const char* name : {"stride", "padding", "dilation"}) {
    for (const int64_t value : args.attrs.Ints(name)) {
      if (!excess.empty() || value <= kMax) continue;
      excess = StrCat(name, " of ", value, "; expected at most ", kMax);
    }
  }
  return excess;
}

// --- Small tiles: 64 x 64 with 4 x 4 results per thread, for kernels with more elements along
// a dimension than conv_walks.h has bits for, and for gradients of few filters; and an element
// per thread, for groups of few channels ---

constexpr int kTile = 64;   // rows and columns of a block
constexpr int kDepth = 16;  // of what is in shared memory at a time
constexpr int kThreads = 256;
constexpr int kAcross = kTile / 4;  // threads with 4 columns each
constexpr int kPitch = kTile + 4;
constexpr int kLoads = kTile * kDepth / kThreads;  // of a thread, for one tile
static_assert(kThreads == kAcross * kTile / 4);

// A thread computes four rows by four columns of a tile.
struct Sums {
  float at[4][4];
};
STOWAGE_DEVICE Sums Zeros() {
  Sums sums;
  STOWAGE_UNROLL
  for (int i = 0; i < 4; ++i) {
    STOWAGE_UNROLL
    for (int j = 0; j < 4; ++j) sums.at[i][j] = 0;
  }
  return sums;
}
STOWAGE_DEVICE int FirstRow() { return ThreadId() / kAcross * 4; }
STOWAGE_DEVICE int FirstColumn() { return ThreadId() % kAcross * 4; }

// sums += a b, of tiles with kDepth rows each.
STOWAGE_DEVICE void AddProduct(Sums& sums, const float* a, const float* b) {
  STOWAGE_UNROLL
  for (int k = 0; k < kDepth; ++k) {
    const Pack<float> x = LoadPack(a + k * kPitch + FirstRow());
    const Pack<float> y = LoadPack(b + k * kPitch + FirstColumn());
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      STOWAGE_UNROLL
      for (int j = 0; j < 4; ++j) {
        sums.at[i][j] = fmaf(x.value[i], y.value[j], sums.at[i][j]);
      }
    }
  }
}

template <typename T, bool kTransposed>
STOWAGE_KERNEL(kThreads)
ConvTiles(STOWAGE_PARAMS(ConvParams) p) {
  STOWAGE_SHARED(float, a, kDepth* kPitch);
  STOWAGE_SHARED(float, b, kDepth* kPitch);
  const ConvShapes& s = p.shapes;
  // Blocks run over columns, rows, groups, phases.
  const int64_t column_block = BlockId() % p.column_blocks;
  const int64_t rest = BlockId() / p.column_blocks;
  const int first_row = static_cast<int>(rest % p.row_blocks) * kTile;
  const int group = static_cast<int>(rest / p.row_blocks % s.groups);
  const ConvPart<kTransposed> part(
      s, static_cast<int>(rest / p.row_blocks / s.groups));
  const Walks& walks = part.walks;
  const int elements = walks.elements();
  const int64_t columns = s.images * elements;
  const int64_t first_column = column_block * kTile;
  if (first_column >= columns) return;  // phases are of different sizes
  const int taps = walks.taps();
  const int depth = part.depth_channels * taps;

  // The column that this thread gathers, at depths ThreadId() / kTile + ...
  const int64_t column = first_column + ThreadId() % kTile;
  const bool exists = column < columns;
  const Place element =
      walks.Element(exists ? static_cast<int>(column % elements) : 0);
  const T* source = static_cast<const T*>(p.source) +
                    ((exists ? column / elements : 0) * s.groups + group) *
                        part.depth_channels * part.source_size;
  const T* filters = static_cast<const T*>(p.filters);

  Sums sums = Zeros();
  for (int k = 0; k < depth; k += kDepth) {
    {
      const int at = k + ThreadId() % kDepth;
      const bool inside = at < depth;
      const int channel = inside ? at / taps : 0;
      const Place tap = walks.Tap(inside ? at % taps : 0);
      STOWAGE_UNROLL
      for (int i = 0; i < kLoads; ++i) {
        const int row = ThreadId() / kDepth + i * (kThreads / kDepth);
        float value = 0;
        if (inside && first_row + row < part.rows) {
          value = ToFloat(
              filters[part.Filter(s, group, first_row + row, channel, tap)]);
        }
        a[ThreadId() % kDepth * kPitch + row] = value;
      }
    }
    STOWAGE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int row = ThreadId() / kTile + i * (kThreads / kTile);
      const int at = k + row;
      float value = 0;
      if (exists && at < depth) {
        const int meet = walks.Meet(element, walks.Tap(at % taps));
        if (meet >= 0) {
          value = ToFloat(source[int64_t{at / taps} * part.source_size + meet]);
        }
      }
      b[row * kPitch + ThreadId() % kTile] = value;
    }
    SyncThreads();
    AddProduct(sums, &a[0], &b[0]);
    SyncThreads();
  }

  STOWAGE_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int64_t to_column = first_column + FirstColumn() + j;
    if (to_column >= columns) continue;
    const int64_t image = to_column / elements;
    T* to = static_cast<T*>(p.to) +
            (image * s.groups + group) * part.rows * part.to_size +
            part.ToPlace(s, static_cast<int>(to_column % elements));
    STOWAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + FirstRow() + i;
      if (row < part.rows) {
        to[int64_t{row} * part.to_size] = FromFloat<T>(sums.at[i][j]);
      }
    }
  }
}

// The place in the source where element i of the result and element k of the kernel meet,
// along one dimension; negative if they do not.
template <bool kTransposed>
STOWAGE_DEVICE int MeetAlong(const ConvAxis& dim, int i, int k) {
  if (!kTransposed) {
    const int at = i * dim.stride - dim.before + k * dim.dilation;
    return at < dim.in ? at : -1;
  }
  const int scaled = i + dim.before - k * dim.dilation;
  const int at = scaled / dim.stride;
  return scaled >= 0 && scaled % dim.stride == 0 && at < dim.out ? at : -1;
}

// One element of the result per thread; blocks run over elements of a channel, then over
// channels and images.
template <typename T, bool kTransposed>
STOWAGE_KERNEL(kThreads)
ConvElements(STOWAGE_PARAMS(ConvParams) p) {
  const ConvShapes& s = p.shapes;
  const int64_t block = BlockId() / p.column_blocks;
  const int number =
      static_cast<int>(BlockId() % p.column_blocks) * kThreads + ThreadId();
  const int rows = kTransposed ? s.channels : s.filters;
  const int depth_channels = kTransposed ? s.filters : s.channels;
  const int to_size = kTransposed ? s.in_size : s.out_size;
  const int source_size = kTransposed ? s.out_size : s.in_size;
  if (number >= to_size) return;
  // A channel of the result's image, which is a row of a group.
  const int64_t group = block / rows;  // of an image
  const int row = static_cast<int>(block % rows);
  const Place element = kTransposed ? PlaceOf(number, s.h.in, s.w.in)
                                    : PlaceOf(number, s.h.out, s.w.out);
  const int h_size = kTransposed ? s.h.out : s.h.in;
  const int w_size = kTransposed ? s.w.out : s.w.in;
  const T* source =
      static_cast<const T*>(p.source) + group * depth_channels * source_size;
  // The distance of a row's filters, channel by channel.
  const int64_t step = int64_t{kTransposed ? s.channels : 1} * s.kernel_size;
  const T* filter = static_cast<const T*>(p.filters) +
                    (group % s.groups * s.filters * s.channels +
                     int64_t{row} * (kTransposed ? 1 : s.channels)) *
                        s.kernel_size;
  float sum = 0;
  for (int c = 0; c < depth_channels; ++c) {
    const T* weight = filter;
    for (int d = 0; d < s.d.kernel; ++d) {
      const int at_d = MeetAlong<kTransposed>(s.d, element.d, d);
      for (int h = 0; h < s.h.kernel; ++h) {
        const int at_h = MeetAlong<kTransposed>(s.h, element.h, h);
        for (int w = 0; w < s.w.kernel; ++w, ++weight) {
          const int at_w = MeetAlong<kTransposed>(s.w, element.w, w);
          if (at_d < 0 || at_h < 0 || at_w < 0) continue;
          sum = fmaf(ToFloat(source[(at_d * h_size + at_h) * w_size + at_w]),
                     ToFloat(*weight), sum);
        }
      }
    }
    source += source_size;
    filter += step;
  }
  static_cast<T*>(p.to)[block * to_size + number] = FromFloat<T>(sum);
}

template <typename T>
STOWAGE_KERNEL(kThreads)
WeightGradTiles(STOWAGE_PARAMS(ConvWeightGradParams) p) {
  STOWAGE_SHARED(float, a, kDepth* kPitch);
  STOWAGE_SHARED(float, b, kDepth* kPitch);
  const ConvShapes& s = p.shapes;
  // Blocks are numbered by column, row, group, piece.
  const int first_column =
      static_cast<int>(BlockId() % p.column_blocks) * kTile;
  const int64_t rest = BlockId() / p.column_blocks;
  const int first_row = static_cast<int>(rest % p.row_blocks) * kTile;
  const int group = static_cast<int>(rest / p.row_blocks % s.groups);
  const int64_t piece = rest / p.row_blocks / s.groups;
  const int64_t piece_tiles = p.piece_units * (ConvPieces::kUnit / kDepth);
  const Walks walks = ForwardWalks(s);
  const int columns = s.channels * s.kernel_size;

  // The columns that this thread gathers.
  Place taps[kLoads];
  int64_t channels[kLoads];  // where they begin in the group; below 0: none
  STOWAGE_UNROLL
  for (int i = 0; i < kLoads; ++i) {
    const int column =
        first_column + ThreadId() / kDepth + i * (kThreads / kDepth);
    taps[i] = walks.Tap(column % s.kernel_size);
    channels[i] =
        column < columns ? int64_t{column / s.kernel_size} * s.in_size : -1;
  }

  // The element of dy that this thread gathers next.
  const int64_t first = piece * piece_tiles * kDepth + ThreadId() % kDepth;
  int64_t image = first / s.out_size;
  int element_number = static_cast<int>(first % s.out_size);

  Sums sums = Zeros();
  for (int64_t tile = 0; tile < piece_tiles; ++tile) {
    const bool exists = image < s.images;
    const Place element = walks.Element(element_number);
    const T* x = static_cast<const T*>(p.x) +
                 (image * s.groups + group) * s.channels * s.in_size;
    const T* dy = static_cast<const T*>(p.dy) +
                  (image * s.groups + group) * s.filters * s.out_size +
                  element_number;
    STOWAGE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int row = ThreadId() / kDepth + i * (kThreads / kDepth);
      float of_a = 0;
      if (exists && first_row + row < s.filters) {
        of_a = ToFloat(dy[int64_t{first_row + row} * s.out_size]);
      }
      a[ThreadId() % kDepth * kPitch + row] = of_a;
      float of_b = 0;
      if (exists && channels[i] >= 0) {
        const int meet = walks.Meet(element, taps[i]);
        if (meet >= 0) of_b = ToFloat(x[channels[i] + meet]);
      }
      b[ThreadId() % kDepth * kPitch + row] = of_b;
    }
    SyncThreads();
    AddProduct(sums, &a[0], &b[0]);
    SyncThreads();
    element_number += kDepth;
    while (element_number >= s.out_size) {
      element_number -= s.out_size;
      ++image;
    }
  }

  STOWAGE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = first_row + FirstRow() + i;
    if (row >= s.filters) continue;
    STOWAGE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const int column = first_column + FirstColumn() + j;
      if (column >= columns) continue;
      const int64_t to = (int64_t{group} * s.filters + row) * columns + column;
      if (p.pieces == 1) {
        static_cast<T*>(p.dw)[to] = FromFloat<T>(sums.at[i][j]);
      } else {
        p.sums[piece * p.size + to] = sums.at[i][j];
      }
    }
  }
}

}  // namespace

template <bool kTransposed>
void EnqueueConvElements(Queue& queue, const char* name, DType dtype,
                         ConvParams params) {
  const ConvShapes& s = params.shapes;
  const int64_t rows = kTransposed ? s.channels : s.filters;
  params.column_blocks =
      CeilDiv(kTransposed ? s.in_size : s.out_size, kThreads);
  const int64_t blocks = params.column_blocks * s.images * s.groups * rows;
  OnFloat(dtype, [&](auto zero) {
    LaunchKernel(queue, name, ConvElements<decltype(zero), kTransposed>, params,
                 {.x = static_cast<uint32_t>(blocks)}, kThreads);
  });
}

template <bool kTransposed>
void EnqueuePlainConv(Queue& queue, const char* name, DType dtype,
                      ConvParams params, ConvPhases phases) {
  const ConvShapes& s = params.shapes;
  params.column_blocks = CeilDiv(s.images * phases.elements, kTile);
  params.row_blocks = CeilDiv(kTransposed ? s.channels : s.filters, kTile);
  const int64_t blocks =
      params.column_blocks * params.row_blocks * s.groups * phases.count;
  OnFloat(dtype, [&](auto zero) {
    LaunchKernel(queue, name, ConvTiles<decltype(zero), kTransposed>, params,
                 {.x = static_cast<uint32_t>(blocks)}, kThreads);
  });
}

void EnqueuePlainWeightGrad(Queue& queue, DType dtype,
                            ConvWeightGradParams params) {
  const ConvShapes& s = params.shapes;
  params.column_blocks = CeilDiv(int64_t{s.channels} * s.kernel_size, kTile);
  params.row_blocks = CeilDiv(s.filters, kTile);
  const int64_t blocks =
      params.column_blocks * params.row_blocks * s.groups * params.pieces;
  OnFloat(dtype, [&](auto zero) {
    LaunchKernel(queue, "conv_weight_grad", WeightGradTiles<decltype(zero)>,
                 params, {.x = static_cast<uint32_t>(blocks)}, kThreads);
  });
}

template void EnqueueConvElements<false>(Queue&, const char*, DType,
                                         ConvParams);
template void EnqueueConvElements<true>(Queue&, const char*, DType, ConvParams);
template void EnqueuePlainConv<false>(Queue&, const char*, DType, ConvParams,
                                      ConvPhases);
template void EnqueuePlainConv<true>(Queue&, const char*, DType, ConvParams,
                                     ConvPhases);

namespace kernels {

constinit const GpuKernel Conv = {.enqueue = EnqueueConv<false>,
                                  .excess = Excess};
constinit const GpuKernel ConvTranspose = {.enqueue = EnqueueConv<true>,
                                           .excess = Excess};
constinit const GpuKernel ConvWeightGrad = {.enqueue = EnqueueWeightGrad,
                                            .workspace = WeightGradWorkspace,
                                            .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
