// conv, conv_transpose and conv_weight_grad: which of the ways of
// gpu/kernels/convolution.h computes them, by shapes alone.
//
// By one element of the kernel, with every place of x meeting one of y, they are matrix
// products of an image, y = w x and dx = w^T dy: those are the queue's, without scratch.
// Where a group has few channels, a thread makes an element alone. All others are
// products of gathered tiles.

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
#include "gpu/simt.h"
#include "ir/op_def.h"
#include "ir/op_kind.h"
#include "ir/windows.h"

namespace stowage::gpu {
namespace {

constexpr int kAddThreads = 256;

// Fewer channels of a group than this leave most of a tile empty.
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

// Places in an image, in all filters, and beside an image are 32-bit numbers.
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

}  // namespace

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
