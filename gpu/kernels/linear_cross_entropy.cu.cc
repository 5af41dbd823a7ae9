// linear_cross_entropy and its gradient, by chunks of rows: a chunk's logits lie
// in the workspace, in the op's element type, become its losses, and for the
// gradient its dlogits in place, which two more products turn into the chunk's dx
// and its share of dw. Shares are added to dw as it is stored: in f16 and bf16
// each chunk but the first rounds it once more.

#include <algorithm>

#include "gpu/kernel.h"
#include "gpu/kernels/cross_entropy.h"
#include "gpu/kernels/matmul.h"
#include "gpu/queue.h"

namespace stowage::gpu {
namespace {

// Sizes, and where in the workspace things lie: the losses of all rows, a
// chunk's logits, the scratch of products.
struct Work {
  Work(const TensorType& x, const TensorType& w, const Attrs& attrs,
       bool gradient)
      : element(SizeOf(x.dtype)),
        rows(x.shape.num_elements() / x.shape.back()),
        width(x.shape.back()),
        vocabulary(w.shape[0]),
        chunk(std::min(attrs.Int("chunk"), rows)),
        stride(AlignUp(vocabulary, kRowBytes / element)),
        losses_bytes(AlignUp(rows * SizeOf(DType::kF32), kSlotAlignment)),
        logits_bytes(AlignUp(chunk * stride * element, kSlotAlignment)),
        scratch_bytes(MatMulWorkspace(chunk * vocabulary)) {
    if (gradient) {
      scratch_bytes = std::max({scratch_bytes, MatMulWorkspace(chunk * width),
                                MatMulWorkspace(vocabulary * width)});
    }
  }
  Bytes bytes() const { return losses_bytes + logits_bytes + scratch_bytes; }

  // Rows of logits start where the products and 16-byte loads like them,
  // whatever the size of the vocabulary.
  static constexpr Bytes kRowBytes = 128;

  Bytes element;
  int64_t rows, width, vocabulary;
  int64_t chunk;   // rows of one
  int64_t stride;  // elements from one row of logits to the next
  Bytes losses_bytes, logits_bytes, scratch_bytes;
};

MatrixOperand TransposeOf(MatrixOperand matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

// dloss: null where no gradient is wanted; log_sum_exp: where it is.
void Enqueue(const Launch& launch, const float* dloss, float* log_sum_exp,
             Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& labels = launch.inputs[2];
  const Work work(x.type, w.type, *launch.attrs, dloss != nullptr);
  float* losses = reinterpret_cast<float*>(launch.workspace.data());
  std::byte* logits = launch.workspace.data() + work.losses_bytes;
  for (int64_t first = 0; first < work.rows; first += work.chunk) {
    const int64_t count = std::min(work.chunk, work.rows - first);
    const Bytes offset = first * work.width * work.element;  // in x and dx
    const MatrixOperand x_rows = {.data = x.data + offset,
                                  .stride = work.width};
    const MatrixOperand weights = {.data = w.data, .stride = work.width};
    // First the logits, then their gradients.
    const MatrixOperand logit_rows = {.data = logits, .stride = work.stride};
    const auto multiply = [&](MatMulCall call) {
      call.dtype = x.dtype();
      call.workspace = logits + work.logits_bytes;
      call.workspace_bytes = work.scratch_bytes;
      queue.MatMul(call);
    };
    multiply({.m = count,
              .n = work.vocabulary,
              .k = work.width,
              .a = x_rows,
              .b = TransposeOf(weights),
              .c = logits,
              .c_stride = work.stride});
    EnqueueRowLosses(
        {.dtype = x.dtype(),
         .logits = logits,
         .rows = count,
         .n = work.vocabulary,
         .stride = work.stride,
         .labels = labels.data + first * SizeOf(labels.dtype()),
         .label_dtype = labels.dtype(),
         .log_sum_exp = log_sum_exp == nullptr ? nullptr : log_sum_exp + first,
         .losses = losses + first,
         .dloss = dloss,
         .scale = 1.0f / static_cast<float>(work.rows)},
        queue);
    if (dloss == nullptr) continue;
    multiply({.m = count,
              .n = work.width,
              .k = work.vocabulary,
              .a = logit_rows,
              .b = weights,
              .c = launch.outputs[1].data + offset,
              .c_stride = work.width});
    multiply({.m = work.vocabulary,
              .n = work.width,
              .k = count,
              .a = TransposeOf(logit_rows),
              .b = x_rows,
              .c = launch.outputs[2].data,
              .c_stride = work.width,
              .accumulate = first > 0});
  }
  EnqueueMean(losses, work.rows, launch.outputs[0].as<float>(), queue);
}

void EnqueueLoss(const Launch& launch, Queue& queue) {
  Enqueue(launch, nullptr, launch.outputs[1].as<float>(), queue);
}
void EnqueueGrad(const Launch& launch, Queue& queue) {
  Enqueue(launch, launch.inputs[3].as<const float>(), nullptr, queue);
}

template <bool gradient>
Bytes Workspace(const OpArgs& args, std::span<const TensorType>) {
  return Work(args.type(0), args.type(1), args.attrs, gradient).bytes();
}

}  // namespace

namespace kernels {

constinit const GpuKernel LinearCrossEntropy = {.enqueue = EnqueueLoss,
                                                .workspace = Workspace<false>};
constinit const GpuKernel LinearCrossEntropyGrad = {
    .enqueue = EnqueueGrad, .workspace = Workspace<true>};

}  // namespace kernels
}  // namespace stowage::gpu
