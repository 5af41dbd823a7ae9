// conv, conv_transpose and conv_weight_grad as matrix products whose operands are
// gathered into tiles in shared memory; sums are f32, in an order that shapes
// alone decide.
//
// conv and conv_transpose are one kernel: a block makes kTile of the result's
// channels at kTile elements of all images in one run. With a stride, the result
// of conv_transpose falls into phases, elements whose place leaves the same rest
// by the stride: these meet the same elements of the kernel, at neighbouring
// places of the source, so that none of their products is with a zero between.
// Where a group has few channels, a thread makes an element alone.
//
// In conv_weight_grad the sums run over the elements of dy of all images, and are
// cut into pieces, whose sums in the workspace a second grid adds up in order.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/strings.h"
#include "gpu/kernel.h"
#include "gpu/kernels/dispatch.h"
#include "gpu/simt.h"
#include "ir/conv_geometry.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"

namespace stowage::gpu {
namespace {

constexpr int kTile = 64;   // rows and columns of a block
constexpr int kDepth = 16;  // of what is in shared memory at a time
constexpr int kThreads = 256;
constexpr int kAcross = kTile / 4;  // threads with 4 columns each
constexpr int kPitch = kTile + 4;
constexpr int kLoads = kTile * kDepth / kThreads;  // of a thread, for one tile
static_assert(kThreads == kAcross * kTile / 4);

// Fewer channels of a group than this leave most of a tile empty.
constexpr int64_t kFewChannels = 8;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// --- Shapes on the device ----------------------------------------------------

struct Dim {
  int in, out, kernel, stride, dilation, before;
};
struct Shapes {
  int64_t images;
  int groups, channels, filters;  // of one group: of x, of y
  int in_size, kernel_size, out_size;
  Dim d, h, w;
};

Dim ToDim(const ConvDim& dim) {
  return {.in = static_cast<int>(dim.in),
          .out = static_cast<int>(dim.out),
          .kernel = static_cast<int>(dim.kernel),
          .stride = static_cast<int>(dim.stride),
          .dilation = static_cast<int>(dim.dilation),
          .before = static_cast<int>(dim.before)};
}
Shapes ToShapes(const ConvGeometry& g) {
  return {.images = g.images,
          .groups = static_cast<int>(g.groups),
          .channels = static_cast<int>(g.channels),
          .filters = static_cast<int>(g.filters),
          .in_size = static_cast<int>(g.in_size()),
          .kernel_size = static_cast<int>(g.kernel_size()),
          .out_size = static_cast<int>(g.out_size()),
          .d = ToDim(g.dims[0]),
          .h = ToDim(g.dims[1]),
          .w = ToDim(g.dims[2])};
}

// How the elements of a result, along one dimension, meet those of a source:
// element i and tap t meet at first + i * step + t * tap_step, if that is in
// [0, size). The element lies at to_first + i * to_step, the tap is element
// kernel_first + t * kernel_step of the kernel.
struct Walk {
  int count, taps;
  int first, step, tap_step, size;
  int to_first, to_step;
  int kernel_first, kernel_step;

  STOWAGE_DEVICE int Place(int element, int tap) const {
    return first + element * step + tap * tap_step;
  }
  STOWAGE_DEVICE bool Has(int place) const {
    return place >= 0 && place < size;
  }
};

// y's elements over x.
STOWAGE_DEVICE Walk ForwardWalk(const Dim& dim) {
  return {dim.out, dim.kernel, -dim.before, dim.stride, dim.dilation,
          dim.in,  0,          1,           0,          1};
}

// x's elements of a phase over dy: they meet the kernel's elements k for which
// phase + before - k * dilation divides by the stride.
STOWAGE_DEVICE Walk BackwardWalk(const Dim& dim, int phase) {
  int common = dim.dilation;
  for (int rest = dim.stride; rest != 0;) {
    const int next = common % rest;
    common = rest;
    rest = next;
  }
  const int period = dim.stride / common;
  const int limit = period < dim.kernel ? period : dim.kernel;
  int k = 0;
  while (k < limit &&
         (phase + dim.before - int64_t{k} * dim.dilation) % dim.stride != 0) {
    ++k;
  }
  const int64_t first =
      (phase + dim.before - int64_t{k} * dim.dilation) / dim.stride;
  return {(dim.in - phase + dim.stride - 1) / dim.stride,
          k < limit ? (dim.kernel - k + period - 1) / period : 0,
          static_cast<int>(first),
          1,
          -(dim.dilation / common),
          dim.out,
          phase,
          dim.stride,
          k,
          period};
}

// A place along the three dimensions.
struct Place {
  int d, h, w;
};
STOWAGE_DEVICE Place PlaceOf(int i, int h_size, int w_size) {
  return {i / (h_size * w_size), i / w_size % h_size, i % w_size};
}

struct Walks {
  Walk d, h, w;

  STOWAGE_DEVICE int elements() const { return d.count * h.count * w.count; }
  STOWAGE_DEVICE int taps() const { return d.taps * h.taps * w.taps; }
  STOWAGE_DEVICE Place Element(int i) const {
    return PlaceOf(i, h.count, w.count);
  }
  STOWAGE_DEVICE Place Tap(int t) const { return PlaceOf(t, h.taps, w.taps); }

  // Where an element and a tap meet, in a channel of the source; below 0 where
  // they do not.
  STOWAGE_DEVICE int Meet(const Place& element, const Place& tap) const {
    const int at_d = d.Place(element.d, tap.d);
    const int at_h = h.Place(element.h, tap.h);
    const int at_w = w.Place(element.w, tap.w);
    if (!d.Has(at_d) || !h.Has(at_h) || !w.Has(at_w)) return -1;
    return (at_d * h.size + at_h) * w.size + at_w;
  }
};

STOWAGE_DEVICE Walks ForwardWalks(const Shapes& s) {
  return {ForwardWalk(s.d), ForwardWalk(s.h), ForwardWalk(s.w)};
}

// --- Products of tiles -------------------------------------------------------

// Four rows by four columns of a tile's product belong to a thread.
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

// --- conv and conv_transpose -------------------------------------------------

struct GatherParams {
  const void* source;
  const void* filters;
  void* to;
  Shapes shapes;
  int64_t column_blocks, row_blocks;  // of one phase and group
};

// What a block, or a thread, has to do.
template <bool kTransposed>
struct Part {
  Walks walks;
  int rows, depth_channels;  // of a group: of the result, of the source
  int to_size, source_size;  // of a channel

  STOWAGE_DEVICE Part(const Shapes& s, int phase)
      : walks(kTransposed ? WalksOf(s, phase) : ForwardWalks(s)),
        rows(kTransposed ? s.channels : s.filters),
        depth_channels(kTransposed ? s.filters : s.channels),
        to_size(kTransposed ? s.in_size : s.out_size),
        source_size(kTransposed ? s.out_size : s.in_size) {}

  static STOWAGE_DEVICE int PhasesOf(const Dim& dim) {
    return dim.stride < dim.in ? dim.stride : dim.in;
  }
  static STOWAGE_DEVICE Walks WalksOf(const Shapes& s, int phase) {
    const Place at = PlaceOf(phase, PhasesOf(s.h), PhasesOf(s.w));
    return {BackwardWalk(s.d, at.d), BackwardWalk(s.h, at.h),
            BackwardWalk(s.w, at.w)};
  }

  // Of the result, the element in its channel.
  STOWAGE_DEVICE int ToPlace(const Shapes& s, int element) const {
    const Place at = walks.Element(element);
    const int h_size = kTransposed ? s.h.in : s.h.out;
    const int w_size = kTransposed ? s.w.in : s.w.out;
    return ((walks.d.to_first + at.d * walks.d.to_step) * h_size +
            walks.h.to_first + at.h * walks.h.to_step) *
               w_size +
           walks.w.to_first + at.w * walks.w.to_step;
  }

  // The filter between row `row` of a group and channel `channel` of the source.
  STOWAGE_DEVICE int64_t Filter(const Shapes& s, int group, int row,
                                int channel, const Place& tap) const {
    const int filter = kTransposed ? channel : row;
    const int of_x = kTransposed ? row : channel;
    const int d = walks.d.kernel_first + tap.d * walks.d.kernel_step;
    const int h = walks.h.kernel_first + tap.h * walks.h.kernel_step;
    const int w = walks.w.kernel_first + tap.w * walks.w.kernel_step;
    return ((int64_t{group} * s.filters + filter) * s.channels + of_x) *
               s.kernel_size +
           (d * s.h.kernel + h) * s.w.kernel + w;
  }
};

template <typename T, bool kTransposed>
STOWAGE_KERNEL(kThreads)
ConvTiles(STOWAGE_PARAMS(GatherParams) p) {
  STOWAGE_SHARED(float, a, kDepth* kPitch);
  STOWAGE_SHARED(float, b, kDepth* kPitch);
  const Shapes& s = p.shapes;
  // Blocks run over columns, rows, groups, phases.
  const int64_t column_block = BlockId() % p.column_blocks;
  const int64_t rest = BlockId() / p.column_blocks;
  const int first_row = static_cast<int>(rest % p.row_blocks) * kTile;
  const int group = static_cast<int>(rest / p.row_blocks % s.groups);
  const Part<kTransposed> part(
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

// Where element i of the result and element k of the kernel meet in the source,
// along one dimension; below 0 where they do not.
template <bool kTransposed>
STOWAGE_DEVICE int MeetAlong(const Dim& dim, int i, int k) {
  if (!kTransposed) {
    const int at = i * dim.stride - dim.before + k * dim.dilation;
    return at < dim.in ? at : -1;
  }
  const int scaled = i + dim.before - k * dim.dilation;
  const int at = scaled / dim.stride;
  return scaled >= 0 && scaled % dim.stride == 0 && at < dim.out ? at : -1;
}

// One element of the result a thread; blocks run over elements of a channel,
// then over channels and images.
template <typename T, bool kTransposed>
STOWAGE_KERNEL(kThreads)
ConvElements(STOWAGE_PARAMS(GatherParams) p) {
  const Shapes& s = p.shapes;
  const int64_t block = BlockId() / p.column_blocks;
  const int number =
      static_cast<int>(BlockId() % p.column_blocks) * kThreads + ThreadId();
  const int rows = kTransposed ? s.channels : s.filters;
  const int depth_channels = kTransposed ? s.filters : s.channels;
  const int to_size = kTransposed ? s.in_size : s.out_size;
  const int source_size = kTransposed ? s.out_size : s.in_size;
  if (number >= to_size) return;
  // Of the result: a channel of an image, which is a row of a group.
  const int64_t group = block / rows;  // of an image
  const int row = static_cast<int>(block % rows);
  const Place element = kTransposed ? PlaceOf(number, s.h.in, s.w.in)
                                    : PlaceOf(number, s.h.out, s.w.out);
  const int h_size = kTransposed ? s.h.out : s.h.in;
  const int w_size = kTransposed ? s.w.out : s.w.in;
  const T* source =
      static_cast<const T*>(p.source) + group * depth_channels * source_size;
  // Filters of one row lie apart by so much, channel after channel.
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

template <bool kTransposed>
void EnqueueGather(const Launch& launch, Queue& queue) {
  const TensorView& source = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& to = launch.outputs[0];
  const ConvGeometry g(kTransposed ? to.shape() : source.shape(), w.shape(),
                       kTransposed ? source.shape() : to.shape(),
                       *launch.attrs);
  GatherParams params = {.source = source.data,
                         .filters = w.data,
                         .to = to.data,
                         .shapes = ToShapes(g),
                         .column_blocks = 1,
                         .row_blocks = 1};
  const Shapes& s = params.shapes;
  const int64_t rows = kTransposed ? g.channels : g.filters;
  const char* name = kTransposed ? "conv_transpose" : "conv";
  OnFloat(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if (rows < kFewChannels) {
      params.column_blocks =
          CeilDiv(kTransposed ? s.in_size : s.out_size, kThreads);
      const int64_t blocks = params.column_blocks * g.images * g.groups * rows;
      LaunchKernel(queue, name, ConvElements<T, kTransposed>, params,
                   {.x = static_cast<uint32_t>(blocks)}, kThreads);
      return;
    }
    int64_t phases = 1;
    int64_t elements = s.out_size;  // of a phase, at most
    if (kTransposed) {
      elements = 1;
      for (const Dim& dim : {s.d, s.h, s.w}) {
        phases *= std::min(dim.stride, dim.in);
        elements *= CeilDiv(dim.in, dim.stride);
      }
    }
    params.column_blocks = CeilDiv(g.images * elements, kTile);
    params.row_blocks = CeilDiv(rows, kTile);
    const int64_t blocks =
        params.column_blocks * params.row_blocks * g.groups * phases;
    LaunchKernel(queue, name, ConvTiles<T, kTransposed>, params,
                 {.x = static_cast<uint32_t>(blocks)}, kThreads);
  });
}

// --- conv_weight_grad --------------------------------------------------------

struct WeightGradParams {
  const void* x;
  const void* dy;
  void* dw;     // where there is one piece
  float* sums;  // of each piece, where there are several
  Shapes shapes;
  int64_t column_blocks, row_blocks, pieces;
  int64_t piece_tiles;  // of kDepth elements of dy
  int64_t size;         // of dw
};

// How the sums over dy's elements are cut.
struct Pieces {
  int64_t count, tiles;

  explicit Pieces(const ConvGeometry& g) {
    constexpr int64_t kBlocks = 512;     // that keep a GPU busy
    constexpr int64_t kLeastTiles = 16;  // of a piece
    const int64_t all_tiles = CeilDiv(g.images * g.out_size(), kDepth);
    const int64_t blocks = g.groups * CeilDiv(g.filters, kTile) *
                           CeilDiv(g.channels * g.kernel_size(), kTile);
    const int64_t wanted =
        std::min(CeilDiv(kBlocks, blocks), CeilDiv(all_tiles, kLeastTiles));
    tiles = CeilDiv(all_tiles, wanted);
    count = CeilDiv(all_tiles, tiles);
  }
};

template <typename T>
STOWAGE_KERNEL(kThreads)
WeightGradTiles(STOWAGE_PARAMS(WeightGradParams) p) {
  STOWAGE_SHARED(float, a, kDepth* kPitch);
  STOWAGE_SHARED(float, b, kDepth* kPitch);
  const Shapes& s = p.shapes;
  // Blocks run over columns, rows, groups, pieces.
  const int first_column =
      static_cast<int>(BlockId() % p.column_blocks) * kTile;
  const int64_t rest = BlockId() / p.column_blocks;
  const int first_row = static_cast<int>(rest % p.row_blocks) * kTile;
  const int group = static_cast<int>(rest / p.row_blocks % s.groups);
  const int64_t piece = rest / p.row_blocks / s.groups;
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
  const int64_t first = piece * p.piece_tiles * kDepth + ThreadId() % kDepth;
  int64_t image = first / s.out_size;
  int element_number = static_cast<int>(first % s.out_size);

  Sums sums = Zeros();
  for (int64_t tile = 0; tile < p.piece_tiles; ++tile) {
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

template <typename T>
STOWAGE_KERNEL(kThreads)
AddPieces(STOWAGE_PARAMS(WeightGradParams) p) {
  const int64_t i = int64_t{BlockId()} * kThreads + ThreadId();
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
  const Pieces pieces(g);
  const WeightGradParams params = {
      .x = x.data,
      .dy = dy.data,
      .dw = dw.data,
      .sums = reinterpret_cast<float*>(launch.workspace.data()),
      .shapes = ToShapes(g),
      .column_blocks = CeilDiv(g.channels * g.kernel_size(), kTile),
      .row_blocks = CeilDiv(g.filters, kTile),
      .pieces = pieces.count,
      .piece_tiles = pieces.tiles,
      .size = dw.size()};
  const int64_t blocks =
      params.column_blocks * params.row_blocks * g.groups * pieces.count;
  OnFloat(dw.dtype(), [&](auto zero) {
    using T = decltype(zero);
    LaunchKernel(queue, "conv_weight_grad", WeightGradTiles<T>, params,
                 {.x = static_cast<uint32_t>(blocks)}, kThreads);
    if (pieces.count == 1) return;
    LaunchKernel(queue, "conv_weight_grad of pieces", AddPieces<T>, params,
                 {.x = BlocksFor(params.size, kThreads)}, kThreads);
  });
}

Bytes WeightGradWorkspace(const OpArgs& args,
                          std::span<const TensorType> results) {
  const Pieces pieces(
      ConvGeometry(args.shape(0), results[0].shape, args.shape(1), args.attrs));
  if (pieces.count == 1) return 0;
  return pieces.count * results[0].shape.num_elements() * SizeOf(DType::kF32);
}

// Places in an image, in all filters, and beside a picture are 32-bit numbers.
std::string Excess(const OpArgs& args) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / 4;
  const bool makes_filters = args.op == OpKind::kConvWeightGrad;
  const auto result = GetOpDef(args.op).infer(args);
  STOWAGE_CHECK(result.ok());
  const Shape& made = (*result)[0].shape;
  const auto check = [kMost](const std::string& what, const Shape& shape,
                             bool is_filters) -> std::string {
    const int64_t elements = shape.num_elements() / (is_filters ? 1 : shape[0]);
    if (elements <= kMost) return "";
    return StrCat(what, is_filters ? " has " : " has images of ", elements,
                  " elements; expected at most ", kMost);
  };
  std::string excess = check(Quoted(args.names[0]), args.shape(0), false);
  if (excess.empty()) {
    excess = check(Quoted(args.names[1]), args.shape(1), !makes_filters);
  }
  if (excess.empty()) excess = check("its result", made, makes_filters);
  for (const char* name : {"stride", "padding", "dilation"}) {
    for (const int64_t value : args.attrs.Ints(name)) {
      if (!excess.empty() || value <= kMost) continue;
      excess = StrCat(name, " of ", value, "; expected at most ", kMost);
    }
  }
  return excess;
}

}  // namespace

namespace kernels {

constinit const GpuKernel Conv = {.enqueue = EnqueueGather<false>,
                                  .excess = Excess};
constinit const GpuKernel ConvTranspose = {.enqueue = EnqueueGather<true>,
                                           .excess = Excess};
constinit const GpuKernel ConvWeightGrad = {.enqueue = EnqueueWeightGrad,
                                            .workspace = WeightGradWorkspace,
                                            .excess = Excess};

}  // namespace kernels
}  // namespace stowage::gpu
