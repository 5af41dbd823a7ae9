// linear_cross_entropy and its gradient, by chunks of rows: the logits of a chunk are computed
// in the workspace, in the op's element type, and reduced to its losses; for the gradient they
// are replaced by dlogits, which two more matmuls turn into the chunk's dx and its share of
// dw. Shares are added to dw as it is stored: in f16 and bf16 every chunk after the first
// rounds it once more.
//
// A vocabulary that is no multiple of 16 bytes is divided in two parts, since tensor cores are
// fast with multiples only: on an H100, matmuls with 50,257 words in bf16 ran at 90 to 145
// TFLOP/s, or 450 for dw, and with 50,304 at 570 to 770.
//
// A frozen w in quantized blocks is dequantized by panels into the workspace before a matmul
// reads it.

#include <algorithm>
#include <vector>

#include "gpu/kernel.h"
#include "gpu/kernels/matmul.h"
#include "gpu/kernels/softmax.h"
#include "gpu/queue.h"
#include "ir/weight_type.h"

namespace stowage::gpu {
namespace {

// Sizes and the layout of the workspace: the losses of all rows, a chunk's logits, the scratch
// of matmuls.
struct Work {
  Work(const TensorType& x, const TensorType& w, const Attrs& attrs,
       bool gradient)
      : in_blocks(attrs.Int("blocks") != kNoBlocks),
        element(SizeOf(x.dtype)),
        rows(x.shape.num_elements() / x.shape.back()),
        width(x.shape.back()),
        vocabulary(w.shape[0]),
        chunk(std::min(attrs.Int("chunk"), rows)),
        stride(AlignUp(vocabulary, kRowBytes / element)),
        losses_bytes(AlignUp(rows * SizeOf(DType::kF32), kSlotAlignment)),
        logits_bytes(AlignUp(chunk * stride * element, kSlotAlignment)),
        panel_bytes(in_blocks ? PanelBytes(vocabulary, width, x.dtype) : 0),
        scratch_bytes(MatMulWorkspace(chunk * vocabulary)) {
    if (!gradient) return;
    scratch_bytes = std::max(scratch_bytes, MatMulWorkspace(chunk * width));
    if (in_blocks || attrs.Int("weight_grad") == 0) return;
    scratch_bytes =
        std::max(scratch_bytes, MatMulWorkspace(vocabulary * width));
  }
  Bytes bytes() const {
    return losses_bytes + logits_bytes + panel_bytes + scratch_bytes;
  }

  // Rows of logits are aligned for the matmuls and 16-byte loads, for any vocabulary size.
  static constexpr Bytes kRowBytes = 128;

  bool in_blocks;
  Bytes element;
  int64_t rows, width, vocabulary;
  int64_t chunk;   // rows of one
  int64_t stride;  // elements from one row of logits to the next
  Bytes losses_bytes, logits_bytes, panel_bytes, scratch_bytes;
};

// Adjacent words of the vocabulary: columns of the logits, rows of w.
struct Words {
  int64_t first = 0, count = 0;
};

// The parts of the vocabulary: panels of quantized blocks; of floats, the few words after the
// last multiple of 16 bytes, and all before them. The few come first: when the second part is
// added to the stored first part, only the share of the few has been rounded.
std::vector<Words> PartsOf(const Work& work) {
  std::vector<Words> parts;
  if (work.in_blocks) {
    ForPanels(work.vocabulary, work.width, [&](int64_t first, int64_t count) {
      parts.push_back({.first = first, .count = count});
    });
    return parts;
  }
  const int64_t few = work.vocabulary % (16 / work.element);
  const int64_t most = work.vocabulary - few;
  if (few > 0) parts.push_back({.first = most, .count = few});
  if (most > 0) parts.push_back({.first = 0, .count = most});
  return parts;
}

MatrixOperand TransposeOf(MatrixOperand matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

// dloss: null where no gradient is wanted; unweighted, the losses of the rows: where it is.
// row_weights: a weight for each row, or null.
void Enqueue(const Launch& launch, const float* dloss, float* unweighted,
             const float* row_weights, Queue& queue) {
  const TensorView& x = launch.inputs[0];
  const TensorView& w = launch.inputs[1];
  const TensorView& labels = launch.inputs[2];
  const Work work(x.type, w.type, *launch.attrs, dloss != nullptr);
  const std::vector<Words> parts = PartsOf(work);
  float* losses = reinterpret_cast<float*>(launch.workspace.data());
  std::byte* logits = launch.workspace.data() + work.losses_bytes;
  std::byte* panel = logits + work.logits_bytes;
  for (int64_t first = 0; first < work.rows; first += work.chunk) {
    const int64_t count = std::min(work.chunk, work.rows - first);
    const Bytes offset = first * work.width * work.element;  // in x and dx
    const MatrixOperand x_rows = {.data = x.data + offset,
                                  .stride = work.width};
    // First the logits, then their gradients.
    const auto logits_of = [&](const Words& words) {
      return MatrixOperand{.data = logits + words.first * work.element,
                           .stride = work.stride};
    };
    const auto weights_of = [&](const Words& words) {
      if (work.in_blocks) {
        const BlockMatrix blocks(w, *launch.attrs);
        EnqueueNumbers(blocks, words.first, words.count, x.dtype(), panel,
                       queue);
        return MatrixOperand{.data = panel, .stride = work.width};
      }
      return MatrixOperand{
          .data = w.data + words.first * work.width * work.element,
          .stride = work.width};
    };
    const auto multiply = [&](MatMulCall call) {
      call.dtype = x.dtype();
      call.workspace = panel + work.panel_bytes;
      call.workspace_bytes = work.scratch_bytes;
      queue.MatMul(call);
    };
    for (const Words& words : parts) {
      multiply({.m = count,
                .n = words.count,
                .k = work.width,
                .a = x_rows,
                .b = TransposeOf(weights_of(words)),
                .c = logits + words.first * work.element,
                .c_stride = work.stride});
    }
    EnqueueRowLosses(
        {.dtype = x.dtype(),
         .logits = logits,
         .rows = count,
         .n = work.vocabulary,
         .stride = work.stride,
         .labels = labels.data + first * SizeOf(labels.dtype()),
         .label_dtype = labels.dtype(),
         .losses = losses + first,
         .unweighted = unweighted == nullptr ? nullptr : unweighted + first,
         .weights = row_weights == nullptr ? nullptr : row_weights + first,
         .dloss = dloss,
         .scale = 1.0f / static_cast<float>(work.rows)},
        queue);
    if (dloss == nullptr) continue;
    for (const Words& words : parts) {
      multiply({.m = count,
                .n = work.width,
                .k = words.count,
                .a = logits_of(words),
                .b = weights_of(words),
                .c = launch.outputs[1].data + offset,
                .c_stride = work.width,
                .accumulate = &words != &parts.front()});
    }
    if (launch.outputs.size() < 3) continue;
    for (const Words& words : parts) {
      multiply({.m = words.count,
                .n = work.width,
                .k = count,
                .a = TransposeOf(logits_of(words)),
                .b = x_rows,
                .c = launch.outputs[2].data +
                     words.first * work.width * work.element,
                .c_stride = work.width,
                .accumulate = first > 0});
    }
  }
  EnqueueMean(losses, work.rows, launch.outputs[0].as<float>(), queue);
}

// Operand i, if it is there.
const float* RowWeights(const Launch& launch, size_t i) {
  return i < launch.inputs.size() ? launch.inputs[i].as<const float>()
                                  : nullptr;
}

void EnqueueLoss(const Launch& launch, Queue& queue) {
  Enqueue(launch, nullptr, launch.outputs[1].as<float>(), RowWeights(launch, 3),
          queue);
}
void EnqueueGrad(const Launch& launch, Queue& queue) {
  Enqueue(launch, launch.inputs[3].as<const float>(), nullptr,
          RowWeights(launch, 4), queue);
}

template <bool gradient>
Bytes Workspace(const OpArgs& args, std::span<const TensorType>) {
  return Work(args.type(0), args.type(1), args.attrs, gradient).bytes();
}

}  // namespace

namespace kernels {

constinit const GpuKernel LinearCrossEntropy = {.enqueue = EnqueueLoss,
                                                .workspace = Workspace<false>,
                                                .lacks = LacksSoftcap};
constinit const GpuKernel LinearCrossEntropyGrad = {
    .enqueue = EnqueueGrad,
    .workspace = Workspace<true>,
    .lacks = LacksSoftcap};

}  // namespace kernels
}  // namespace stowage::gpu
